"""Which addresses have memory: the last that was said of each, and the sizes that are known."""

from __future__ import annotations

import polars as pl

import msmemscope
from msmemscope.recording.mappings import RANGE_SCHEMA, mapped_ranges, range_rows
from tests.fakes.event_log_builder import HAL, NO_DEVICE, EventLogBuilder

MAPPED, UNMAPPED = 61, 62


def mapped(builder: EventLogBuilder, address: int, size: int, physical: int) -> int:
    """Memory comes to an address."""
    return builder.add(MAPPED, address=address, size=size, extra=physical, pool=HAL, device=0)


def unmapped(builder: EventLogBuilder, address: int) -> int:
    """It goes."""
    return builder.add(UNMAPPED, address=address, pool=HAL, device=NO_DEVICE)


def test_the_last_event_of_an_address_counts(builder: EventLogBuilder) -> None:
    """At each moment; a range may come back smaller, and with other memory."""
    first = mapped(builder, 0x1000, 64, 7)
    other = mapped(builder, 0x2000, 32, 8)
    gone = unmapped(builder, 0x1000)
    again = mapped(builder, 0x1000, 16, 9)
    events = msmemscope.load(builder.write()).events
    assert mapped_ranges(events, first).rows() == [(0x1000, 64, True, 7)]
    assert mapped_ranges(events, gone).rows() == [(0x1000, 64, False, 0), (0x2000, 32, True, 8)]
    assert mapped_ranges(events, again).rows() == [(0x1000, 16, True, 9), (0x2000, 32, True, 8)]
    assert other < gone


def test_what_was_mapped_before_recording_began(builder: EventLogBuilder) -> None:
    """Its size is that of the next mapping; without one it is not known, and the range is left out."""
    gone = unmapped(builder, 0x1000)
    last = unmapped(builder, 0x3000)
    mapped(builder, 0x1000, 64, 7)
    events = msmemscope.load(builder.write()).events
    assert mapped_ranges(events, gone).rows() == [(0x1000, 64, False, 0)]
    assert mapped_ranges(events, last)["address"].to_list() == [0x1000]


def test_addresses_are_found_in_their_ranges() -> None:
    """Begins belong to a range, ends do not; without ranges nothing is found."""
    ranges = pl.DataFrame([(100, 10, True, 1), (120, 5, True, 2)], RANGE_SCHEMA, orient="row")
    addresses = pl.Series([99, 100, 109, 110, 119, 120, 124, 125], dtype=pl.UInt64)
    assert range_rows(addresses, ranges).to_list() == [-1, 0, 0, -1, -1, 1, 1, -1]
    assert range_rows(addresses, ranges.clear()).to_list() == [-1] * 8
