"""Errors before a program starts. In the running program the emulated libraries report errors as CANN does."""

from __future__ import annotations


class VirtualNpuError(Exception):
    """The virtual NPU cannot be used as asked: what, the value, what is accepted, and a hint."""
