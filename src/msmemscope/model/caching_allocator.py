"""Sizes by which the caching allocators of torch take segments from the driver, for all kinds of devices."""

from __future__ import annotations

from typing import Final

MOST_SMALL_BYTES: Final = 1 << 20
"""Blocks up to this size have segments of their own. A rest up to this size stays with a segment of larger blocks."""
SMALL_SEGMENT_BYTES: Final = 2 << 20
"""Segments of small blocks."""
LEAST_OWN_SEGMENT_BYTES: Final = 10 << 20
"""A block of at least this size gets a segment of its own size where it needs a new one."""
SHARED_SEGMENT_BYTES: Final = 20 << 20
"""Segments of the blocks in between, unless a setting says otherwise."""


def segment_bytes(block_bytes: float) -> int:
    """Return the bytes that are asked from the driver if a block fits nowhere."""
    if block_bytes <= MOST_SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    return SHARED_SEGMENT_BYTES if block_bytes < LEAST_OWN_SEGMENT_BYTES else round(block_bytes)
