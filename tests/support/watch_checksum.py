"""The checksum hash64 of watched memory in plain Python: the specification that the native core is compared with."""

from __future__ import annotations

import struct
from typing import Final

MASK: Final = 2**64 - 1
SEGMENT_BYTES: Final = 1024
START: Final = (
    0x6A09E667F3BCC908,
    0xBB67AE8584CAA73B,
    0x3C6EF372FE94F82B,
    0xA54FF53A5F1D36F1,
    0x510E527FADE682D1,
    0x9B05688C2B3E6C1F,
    0x1F83D9ABFB41BD6B,
    0x5BE0CD19137E2179,
)


def _keys() -> list[int]:
    state = 0x6D736D656D736370
    keys = []
    for _ in range(128):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        keys.append(mixed ^ (mixed >> 31))
    return keys


KEYS: Final = _keys()


def _mix(left: int, right: int) -> int:
    product = (left & MASK) * (right & MASK)
    return (product & MASK) ^ (product >> 64)


def hash_segment(data: bytes, seed: int) -> int:
    """Hash of at most 1024 bytes."""
    lanes = list(START)
    padded = data + bytes(-len(data) % 64)
    for stripe in range(len(padded) // 64):
        for lane, word in enumerate(struct.unpack_from("<8Q", padded, stripe * 64)):
            keyed = word ^ KEYS[stripe * 8 + lane]
            lanes[lane ^ 1] = (lanes[lane ^ 1] + word) & MASK
            lanes[lane] = (lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & MASK
    result = seed ^ (len(data) * START[0] & MASK)
    for pair in range(4):
        result = _mix(((result + lanes[2 * pair]) & MASK) ^ START[pair], lanes[2 * pair + 1] ^ START[pair + 4])
    return _mix(result, len(data) + START[7])


def hash64(content: bytes) -> int:
    """The checksum of content."""
    hashes = [
        hash_segment(content[begin : begin + SEGMENT_BYTES], 0) for begin in range(0, len(content), SEGMENT_BYTES)
    ]
    listed = struct.pack(f"<{len(hashes)}Q", *hashes)
    result = hash_segment(listed[:SEGMENT_BYTES], len(content))
    for begin in range(SEGMENT_BYTES, len(listed), SEGMENT_BYTES):
        result = hash_segment(listed[begin : begin + SEGMENT_BYTES], result)
    return result
