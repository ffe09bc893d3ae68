"""Does what its stdin asks for, line by line, and says "done" after each.

Usage: allocates_on_request.py LIBRARY, the stand-in for libc10.

    allocate BYTES   keeps a block
    free             gives the latest block back
    churn COUNT      allocates and frees so many blocks of 512 bytes
    step             ends a step
    end              ends
"""

from __future__ import annotations

import ctypes
import os
import sys

import msmemscope

LIBRARY = ctypes.CDLL(sys.argv[1])
LIBRARY.fake_tensor_allocate.restype = ctypes.c_void_p
LIBRARY.fake_tensor_allocate.argtypes = [ctypes.c_size_t]
LIBRARY.fake_tensor_free.argtypes = [ctypes.c_void_p]


def keep(size_bytes: int) -> int:
    """Allocate a block that stays."""
    return int(LIBRARY.fake_tensor_allocate(size_bytes))


def main() -> None:
    """Obey."""
    blocks: list[int] = []
    print(f"process {os.getpid()}", flush=True)
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "allocate":
            blocks.append(keep(int(number)))
        elif word == "free":
            LIBRARY.fake_tensor_free(blocks.pop())
        elif word == "churn":
            for _ in range(int(number)):
                LIBRARY.fake_tensor_free(LIBRARY.fake_tensor_allocate(512))
        elif word == "step":
            msmemscope.step()
        elif word == "end":
            return
        print("done", flush=True)


main()
