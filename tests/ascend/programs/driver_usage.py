"""Takes and gives back memory of device 0, collected and not, and prints what the device says is in use each time."""

from __future__ import annotations

import ctypes

import msmemscope

runtime = ctypes.CDLL("libascendcl.so")
MIB = 1 << 20


def in_use(what: str) -> None:
    """Print how much of the device is in use."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert runtime.aclrtGetMemInfo(0, ctypes.byref(free), ctypes.byref(total)) == 0
    print(what, total.value - free.value)


def allocate(mib: int) -> ctypes.c_void_p:
    """Take memory of the device."""
    pointer = ctypes.c_void_p()
    assert runtime.aclrtMallocAlign32(ctypes.byref(pointer), ctypes.c_size_t(mib * MIB), 0) == 0
    in_use("malloc")
    return pointer


def release(pointer: ctypes.c_void_p) -> None:
    """Give it back."""
    assert runtime.aclrtFree(pointer) == 0
    in_use("free")


assert runtime.aclInit(None) == 0
assert runtime.aclrtSetDevice(0) == 0
msmemscope.start()
in_use("begin")
first, second = allocate(3), allocate(5)
release(first)
msmemscope.stop()
release(second)
unseen = allocate(7)
in_use("start")
msmemscope.start()
last = allocate(11)
release(unseen)
release(last)
msmemscope.stop()
