"""Opens and closes a library of the system that Python does not have loaded: time of one pair in microseconds."""

from __future__ import annotations

import _ctypes
import json
import time

import torch  # noqa: F401 - a few dozen libraries that need not be looked at again

PAIRS = 1000
LIBRARY = "libanl.so.1"
NOW = 2


def loop(pairs: int) -> float:
    """Return the seconds that so many pairs take."""
    begin = time.perf_counter()
    for _ in range(pairs):
        _ctypes.dlclose(_ctypes.dlopen(LIBRARY, NOW))
    return time.perf_counter() - begin


loop(10)
print(json.dumps({"value": loop(PAIRS) / PAIRS * 1e6}))
