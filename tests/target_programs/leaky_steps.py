"""Takes steps that each keep a block, and free another.

Usage: leaky_steps.py LIBRARY STEPS [start], the stand-in for libc10, how many steps it tells of, and whether it starts
collecting by itself.
"""

from __future__ import annotations

import ctypes
import sys

import msmemscope

LIBRARY = ctypes.CDLL(sys.argv[1])
LIBRARY.fake_tensor_allocate.restype = ctypes.c_void_p
LIBRARY.fake_tensor_allocate.argtypes = [ctypes.c_size_t]
LIBRARY.fake_tensor_free.argtypes = [ctypes.c_void_p]


def keep() -> None:
    """Allocate what nobody frees."""
    LIBRARY.fake_tensor_allocate(1 << 20)


def main() -> None:
    """Take the steps."""
    if "start" in sys.argv:
        msmemscope.start()
    for _ in range(int(sys.argv[2])):
        keep()
        LIBRARY.fake_tensor_free(LIBRARY.fake_tensor_allocate(3 << 20))
        msmemscope.step()
    LIBRARY.fake_tensor_free(LIBRARY.fake_tensor_allocate(512))


main()
