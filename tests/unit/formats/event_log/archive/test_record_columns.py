"""Records become columns and records again, whatever they hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.event_log.archive.contents import ARCHIVE_VERSION
from msmemscope.formats.event_log.archive.record_columns import COLUMNS, columns_of, records_of
from msmemscope.formats.event_log.layout import RECORD
from msmemscope.model.events import EventKind


@given(st.binary(min_size=RECORD.itemsize, max_size=40 * RECORD.itemsize))
def test_any_bytes_come_back(content: bytes) -> None:
    """Also numbers that no process can have recorded."""
    records = np.frombuffer(content[: len(content) // RECORD.itemsize * RECORD.itemsize], dtype=RECORD)
    columns = columns_of(records)
    assert tuple(columns) == COLUMNS
    assert all(len(column) == len(records) and column.dtype == np.uint8 for column in columns.values())
    assert records_of(columns).tobytes() == records.tobytes()


def test_columns_are_those_of_the_version() -> None:
    """A record with other fields makes other archives: then `ARCHIVE_VERSION` is another one, and the older one is still read."""
    widths = {
        "sequence": 8, "timestamp_ns": 8, "address": 8, "size": 8, "thread_and_device": 4, "device_low": 1, "kind": 1, "pool": 1,
        "flags": 1, "name_id": 4, "attribute_id": 4, "python_stack_id": 4, "native_stack_id": 4, "extra": 8,
    }  # fmt: skip
    assert ARCHIVE_VERSION == 1
    assert tuple(f"{name}_{place}" for name, width in widths.items() for place in range(width)) == COLUMNS


numbers = st.sampled_from([0, 1, 2, 5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])


@given(st.lists(st.tuples(st.sampled_from([*EventKind]), numbers, numbers, numbers), min_size=1, max_size=30))
def test_references_come_back(rows: list[tuple[int, int, int, int]]) -> None:
    """None, to itself, to what is behind, and around the ends of 64 bits."""
    records = np.zeros(len(rows), RECORD)
    for record, (kind, sequence, time, extra) in zip(records, rows, strict=True):
        record["kind"], record["sequence"], record["timestamp_ns"], record["extra"] = kind, sequence, time, extra
    assert records_of(columns_of(records)).tobytes() == records.tobytes()


def test_usual_records_have_small_numbers() -> None:
    """Numbers that rise by one, times that rise a little, frees of recent blocks: high bytes are all zero."""
    count = 1000
    records = np.zeros(count, RECORD)
    records["sequence"] = 10_000_000 + np.arange(count)
    records["timestamp_ns"] = 1_700_000_000_000_000_000 + 100 * np.arange(count)
    records["kind"] = EventKind.FREE
    records["extra"] = records["sequence"] - 5
    columns = columns_of(records)
    assert set(columns["sequence_0"][1:].tolist()) == {2}  # 1, with its sign
    assert set(columns["timestamp_ns_0"][1:].tolist()) == {200}
    assert set(columns["extra_0"].tolist()) == {10}
    high = [name for name in COLUMNS if name.startswith(("sequence", "timestamp_ns", "extra")) and name[-1] != "0"]
    assert not any(columns[name][1:].any() for name in high)
