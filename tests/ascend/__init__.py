"""Tests of what is collected from the Ascend stack, on the virtual NPU."""
