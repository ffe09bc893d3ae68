"""Functions of the runtime, with the names and arguments that pyACL gives them."""

from __future__ import annotations

import ctypes

_LIBRARY = ctypes.CDLL("libascendcl.so")
_LIBRARY.aclrtMemcpy.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
)  # fmt: skip
_LIBRARY.aclrtMemcpy.restype = ctypes.c_int


def memcpy(dst: int, dest_max: int, src: int, count: int, direction: int) -> int:
    """Copy memory, and return the status of the runtime: 0 if that went well.

    Args:
        dst: The address to copy to.
        dest_max: Bytes that are there.
        src: The address to copy from.
        count: Bytes to copy.
        direction: 0 host to host, 1 host to device, 2 device to host, 3 device to device.
    """
    return int(_LIBRARY.aclrtMemcpy(dst, dest_max, src, count, direction))
