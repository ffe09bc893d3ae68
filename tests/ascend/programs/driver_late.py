"""Uses the runtime without any framework, and begins to observe when it has memory already."""

from __future__ import annotations

import ctypes

runtime = ctypes.CDLL("libascendcl.so")


def allocate(size: int) -> ctypes.c_void_p:
    """Take memory of device 0."""
    pointer = ctypes.c_void_p()
    assert runtime.aclrtMallocAlign32(ctypes.byref(pointer), ctypes.c_size_t(size), 0) == 0
    return pointer


assert runtime.aclInit(None) == 0
assert runtime.aclrtSetDevice(0) == 0
before_import = allocate(1000)

import msmemscope  # noqa: E402

before_start = allocate(2000)
msmemscope.start()
during = allocate(3000)
assert runtime.aclrtFree(before_import) == 0
assert runtime.aclrtFree(before_start) == 0
msmemscope.stop()
