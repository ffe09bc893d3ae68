"""Makes marks and ranges with the stand-in for a library with NVTX: `marks.py LIBRARY`."""

from __future__ import annotations

import ctypes
import sys

LIBRARY = ctypes.CDLL(sys.argv[1])
LIBRARY.fake_range_start.restype = ctypes.c_uint64
LIBRARY.fake_range_end.argtypes = [ctypes.c_uint64]

for _ in range(2):
    step = LIBRARY.fake_range_start(b"step start")
    LIBRARY.fake_mark(b"loaded")
    depths = [LIBRARY.fake_push(b"outer"), LIBRARY.fake_push(b"inner"), LIBRARY.fake_pop(), LIBRARY.fake_pop()]
    LIBRARY.fake_range_end(step)
LIBRARY.fake_foreign_mark(b"all reduce")
print(f"depths={','.join(map(str, depths))} empty={LIBRARY.fake_pop()}")
