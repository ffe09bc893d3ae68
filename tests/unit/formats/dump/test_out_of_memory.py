"""Where memory ran out, a dump shows the latest and the largest blocks that were alive."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import polars as pl
import pytest

import msmemscope.formats.dump.dump_session
from msmemscope.configuration import DataFormat
from msmemscope.formats.dump.attributes import AttributeForm
from msmemscope.formats.dump.out_of_memory import OutOfMemoryRows
from msmemscope.formats.event_log import Capture
from msmemscope.model.events import EventFlag, EventKind
from tests.fakes.event_log_builder import ATB, CPU, HAL, HOST, MALLOC, PTA, EventLogBuilder
from tests.unit.formats.dump.conftest import csv_rows, db_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.formats.dump.conftest import Dump

GIB = 1 << 30


def fail(builder: EventLogBuilder, most: int, *, device: int = 0, **fields: int) -> int:
    """Append a failure, and leave free the numbers that the recorder leaves free behind it."""
    number = builder.add(
        EventKind.OOM,
        device=device,
        size=GIB,
        name_id=builder.string("halMemAlloc"),
        attribute_id=builder.string(f"func:halMemAlloc,req_size:{GIB},flag:0"),
        extra=most,
        **fields,
    )
    builder._last_sequence += 2 * most
    return number


def shown(path: Path, event_type: str) -> list[tuple[int, str, int]]:
    """ID, pool and size of the rows of a type."""
    rows = [row for row in csv_rows(path) if row["Event Type"] == event_type]
    found = []
    for row in rows:
        match = re.fullmatch(r"\{pool:(\w+),ptr:0x[0-9a-f]{16},size:(\d+),timestamp:(\d+|N/A)\}", row["Attr"])
        assert match is not None, row["Attr"]
        found.append((int(row["ID"]), match[1], int(match[2])))
    return found


def test_rows_of_a_failure(builder: EventLogBuilder, dump: Dump) -> None:
    """Of the K latest and K largest, in their order; with numbers, time, device and the allocations' own stacks."""
    code = builder.code("/app/train.py", "make", 7)
    stack = builder.python_stack((code, 0))
    for place, size in enumerate((400, 100, 300, 200), start=1):
        builder.malloc(place << 12, size, pool=PTA, device=0, python_stack_id=stack)
    freed = builder.malloc(9 << 12, 900, pool=PTA, device=0)
    builder.free(freed, 9 << 12, 900, pool=PTA, device=0)
    failure = fail(builder, 2, python_stack_id=stack, thread_id=77)
    later = builder.malloc(10 << 12, 5000, pool=PTA, device=0)
    assert later == failure + 5
    (path,) = dump(analysis=frozenset()).csv_files
    assert shown(path, "OOM_RECENT_ALLOC") == [(failure + 1, "PTA", 200), (failure + 2, "PTA", 300)]
    assert shown(path, "OOM_TOP_ALLOC") == [(failure + 3, "PTA", 400), (failure + 4, "PTA", 300)]
    rows = csv_rows(path)
    assert [int(row["ID"]) for row in rows] == sorted(int(row["ID"]) for row in rows)
    (trigger,) = [row for row in rows if row["Event Type"] == "OOM_TRIGGER"]
    derived = [row for row in rows if row["Event Type"].endswith("_ALLOC")]
    assert {row["Name"] for row in derived} == {"OOM_RecentAlloc", "OOM_TopAlloc"}
    for row in derived:
        assert row["Event"] == "OOM_DETAIL"
        for column in ("Timestamp(ns)", "Process Id", "Thread Id", "Device Id"):
            assert row[column] == trigger[column], column
        # Although the dump shows no stacks otherwise.
        assert row["Call Stack(Python)"] == "/app/train.py(7): make\n"
    assert trigger["Call Stack(Python)"] == "/app/train.py(7): make\n"
    assert [row["Call Stack(Python)"] for row in rows if row["Event"] == "MALLOC"] == [""] * 6


def test_json_form(builder: EventLogBuilder, dump: Dump) -> None:
    """DB files have the same attributes as JSON."""
    builder.malloc(0xABC000, 64, pool=ATB, device=0, timestamp_ns=12)
    fail(builder, 1)
    (path,) = dump(DataFormat.DB).db_files
    (recent,) = [row for row in db_rows(path) if row["Event Type"] == "OOM_RECENT_ALLOC"]
    assert recent["Attr"] == '{"pool":"ATB","ptr":"0x0000000000abc000","size":"64","timestamp":"12"}'


def test_only_memory_of_the_device_counts(builder: EventLogBuilder, dump: Dump) -> None:
    """Candidates are the device's pools and the driver's blocks on it; not other devices, the host, and shadows."""
    builder.malloc(1 << 12, 100, pool=HAL, device=0)
    builder.malloc(2 << 12, 90, pool=PTA, device=0)
    builder.malloc(3 << 12, 1000, pool=PTA, device=1)
    builder.malloc(4 << 12, 1000, pool=HOST, device=CPU)
    builder.malloc(5 << 12, 1000, pool=HAL, device=CPU)
    builder.malloc(6 << 12, 1000, pool=PTA, device=0, flags=int(EventFlag.SHADOW))
    failure = fail(builder, 10)
    host_failure = fail(builder, 10, device=CPU)
    files = {path.parents[1].name: path for path in dump().csv_files}
    assert shown(files["device_0"], "OOM_TOP_ALLOC") == [(failure + 3, "HAL", 100), (failure + 4, "PTA", 90)]
    # Pinned memory is the host's too.
    assert shown(files["device_cpu"], "OOM_TOP_ALLOC") == [
        (host_failure + 3, "HOST", 1000),
        (host_failure + 4, "HOST", 1000),
    ]


def test_not_asked_for(builder: EventLogBuilder, dump: Dump) -> None:
    """Without the analysis a failure is no row."""
    builder.malloc(1 << 12, 100, pool=PTA, device=0)
    fail(builder, 0)
    (path,) = dump().csv_files
    assert {row["Event"] for row in csv_rows(path)} == {"MALLOC"}


def test_stacks_of_a_snapshot_are_shown(builder: EventLogBuilder, dump: Dump) -> None:
    """That of a failure has stacks whatever the settings say; C stacks too."""
    stack = builder.python_stack((builder.code("/app/a.py", "f", 1), 0))
    native = builder.native_stack(0x1234)
    name = builder.string("OOM_Snapshot")
    builder.add(EventKind.SNAPSHOT, device=0, name_id=name, python_stack_id=stack, native_stack_id=native)
    builder.malloc(1 << 12, 100, pool=PTA, device=0, python_stack_id=stack, native_stack_id=native)
    snapshot, block = csv_rows(dump().csv_files[0])
    assert snapshot["Call Stack(Python)"] == "/app/a.py(1): f\n"
    assert "0x1234" in snapshot["Call Stack(C)"]
    assert (block["Call Stack(Python)"], block["Call Stack(C)"]) == ("", "")


def test_a_flight_recorder_that_dropped_beginnings(builder: EventLogBuilder, dump: Dump) -> None:
    """A block whose MALLOC is gone was alive at the failure if its FREE, which is there, came later."""
    builder.header_fields["dropped_recycled"] = 5
    builder._last_sequence = 100
    builder.free(40, 1 << 12, 4000, pool=PTA, device=0)
    builder.malloc(2 << 12, 50, pool=PTA, device=0)
    failure = fail(builder, 3)
    builder.free(60, 3 << 12, 700, pool=PTA, device=0)
    (path,) = dump().csv_files
    assert shown(path, "OOM_TOP_ALLOC") == [(failure + 3, "PTA", 700), (failure + 4, "PTA", 50)]
    (row,) = [row for row in csv_rows(path) if row["Event Type"] == "OOM_TOP_ALLOC" and "size:700" in row["Attr"]]
    assert row["Attr"].endswith("timestamp:N/A}")


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_batches_make_no_difference(
    builder: EventLogBuilder, dump: Dump, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Blocks that begin and end in different batches than the failure are counted all the same."""
    blocks = [builder.malloc(place << 12, place * 10, pool=PTA, device=0) for place in range(1, 8)]
    for place in (7, 2):
        builder.free(blocks[place - 1], place << 12, place * 10, pool=PTA, device=0)
    first = fail(builder, 3)
    builder.free(blocks[5], 6 << 12, 60, pool=PTA, device=0)
    second = fail(builder, 3)
    monkeypatch.setattr(msmemscope.formats.dump.dump_session, "_BATCH_ROWS", rows)
    (path,) = dump().csv_files
    top = shown(path, "OOM_TOP_ALLOC")
    assert [size for number, _, size in top if number < second] == [60, 50, 40]
    assert [size for number, _, size in top if number > second] == [50, 40, 30]
    assert shown(path, "OOM_RECENT_ALLOC")[0] == (first + 1, "PTA", 60)


def test_a_hundred_thousand_blocks(builder: EventLogBuilder) -> None:
    """The rows of a failure cost far less than a second, however many blocks are alive."""
    events = 100_000
    frame = pl.DataFrame(
        {
            "sequence": pl.int_range(1, events + 1, dtype=pl.UInt64, eager=True),
            "timestamp_ns": pl.int_range(1, events + 1, dtype=pl.UInt64, eager=True),
            "thread_id": pl.repeat(1, events, dtype=pl.UInt32, eager=True),
            "device": pl.repeat(0, events, dtype=pl.Int16, eager=True),
            "kind": pl.repeat(MALLOC, events, dtype=pl.UInt8, eager=True),
            "pool": pl.repeat(PTA, events, dtype=pl.UInt8, eager=True),
            "flags": pl.repeat(0, events, dtype=pl.UInt8, eager=True),
            "address": pl.int_range(1, events + 1, dtype=pl.UInt64, eager=True) * 512,
            "size": pl.int_range(1, events + 1, dtype=pl.Int64, eager=True),
            "name_id": pl.repeat(0, events, dtype=pl.UInt32, eager=True),
            "attribute_id": pl.repeat(0, events, dtype=pl.UInt32, eager=True),
            "python_stack_id": pl.repeat(0, events, dtype=pl.UInt32, eager=True),
            "native_stack_id": pl.repeat(0, events, dtype=pl.UInt32, eager=True),
            "extra": pl.repeat(0, events, dtype=pl.UInt64, eager=True),
        }
    )
    builder._last_sequence = events
    fail(builder, 1000)
    capture = Capture(builder.write())
    rows = OutOfMemoryRows(capture, AttributeForm.CSV)
    start = time.perf_counter()
    assert rows.behind(frame) is None
    (failure,) = capture.event_batches()
    derived = rows.behind(failure)
    elapsed_s = time.perf_counter() - start
    assert derived is not None
    assert len(derived) == 2000
    assert elapsed_s < 1.0, f"{elapsed_s:.2f} s"
    # Behind the last failure nothing is followed any more.
    assert rows.behind(frame) is None
    assert rows._alive.is_empty()
