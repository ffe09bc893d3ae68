"""Whether the blocks of a packed segment follow one another: one whose beginning was lost is none, and its records are missing.

Each block says how many records stand before it, and the segment where the last one ends. What the flight recorder gave back
are the oldest blocks, all zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.formats.event_log.layout import PACKED_BLOCK_ALIGNMENT
from msmemscope.formats.event_log.segment_file import opened_for_reading, read_block_header, read_from

if TYPE_CHECKING:
    from msmemscope.formats.event_log.segment_file import SegmentFile


def lost_records(file: SegmentFile) -> int:
    """Return how many records the blocks of a segment lack, as far as it is known, and at least 1 where some are missing.

    Args:
        file: A packed segment. Blocks that are there and do not check are not counted.
    """
    lost = 0
    counted: int | None = None
    is_gap = has_rest = False
    with opened_for_reading(file.path) as descriptor:
        for extent in file.extents:
            position = extent.start
            while position < extent.end:
                block = read_block_header(descriptor, position, big_endian=file.big_endian)
                if block is None:
                    rest = read_from(descriptor, position, min(PACKED_BLOCK_ALIGNMENT, extent.end - position))
                    is_gap, has_rest = True, has_rest or any(rest)
                    position += PACKED_BLOCK_ALIGNMENT
                    continue
                if counted is not None or has_rest:
                    lost += max(block.records_before - (counted or 0), 0)
                counted = block.records_before + block.record_count
                is_gap = has_rest = False
                position += max(block.bytes, PACKED_BLOCK_ALIGNMENT)
    return lost + (is_gap and (has_rest or counted is not None))
