"""Allocates a block of its own size in each of five steps; one block lives from the first step to the third.

Usage: steps.py LIBRARY, the stand-in for libc10.
"""

from __future__ import annotations

import ctypes
import sys

import msmemscope

LIBRARY = ctypes.CDLL(sys.argv[1])
LIBRARY.fake_tensor_allocate.restype = ctypes.c_void_p
LIBRARY.fake_tensor_allocate.argtypes = [ctypes.c_size_t]
LIBRARY.fake_tensor_free.argtypes = [ctypes.c_void_p]


def main() -> None:
    """Take five steps."""
    if "start" in sys.argv[2:]:
        msmemscope.start()
    alive = LIBRARY.fake_tensor_allocate(9000)
    for step in range(1, 6):
        LIBRARY.fake_tensor_free(LIBRARY.fake_tensor_allocate(1000 * step))
        if step == 3:
            LIBRARY.fake_tensor_free(alive)
        msmemscope.step()
    LIBRARY.fake_tensor_free(LIBRARY.fake_tensor_allocate(6000))


main()
