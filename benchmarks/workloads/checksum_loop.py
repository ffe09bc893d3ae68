"""Takes the checksum of one buffer again and again on one thread, and prints the gigabytes that a second takes.

XXH3 has 64 bits too, is what our accumulation comes from, and its Python package is as thin around it as our binding.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS = 9
LEAST_BYTES = 64 << 20
"""Read between two readings of the clock."""


def checksum_of(name: str) -> Callable[[bytes], int]:
    """The function to measure."""
    if name == "xxh3":
        import xxhash

        peer: Callable[[bytes], int] = xxhash.xxh3_64_intdigest
        return peer
    from msmemscope import _native

    return (lambda content: _native.watch_checksum(content, crc64=True)) if name == "crc64" else _native.watch_checksum


def main() -> None:
    """Measure, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checksum", choices=("hash64", "crc64", "xxh3"), required=True)
    parser.add_argument("--bytes", type=int, required=True)
    arguments = parser.parse_args()
    checksum = checksum_of(arguments.checksum)
    # One buffer, made alike for each of them: where it lies decides how fast it can be read.
    content = np.random.default_rng(0).bytes(arguments.bytes)
    calls = max(1, LEAST_BYTES // arguments.bytes)
    speeds = []
    for _ in range(LOOKS):
        begin = time.perf_counter()
        for _ in range(calls):
            checksum(content)
        speeds.append(arguments.bytes * calls / (time.perf_counter() - begin) / 1e9)
    print(json.dumps({"value": statistics.median(speeds)}))


if __name__ == "__main__":
    main()
