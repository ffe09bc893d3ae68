"""Tests of programs that use CUDA devices, on an emulated CUDA runtime."""
