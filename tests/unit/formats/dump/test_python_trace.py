"""The Python trace: one file per thread, or a table beside the dump."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from msmemscope.configuration import DataFormat
from msmemscope.model.events import EventKind
from tests.fakes.event_log_builder import ATEN_START, FUNCTION_CALL, NO_DEVICE, EventLogBuilder
from tests.unit.formats.dump.conftest import csv_rows, db_rows

if TYPE_CHECKING:
    from tests.unit.formats.dump.conftest import Dump

START_UNKNOWN, END_UNKNOWN = 2, 4


def add_calls(builder: EventLogBuilder) -> None:
    """Calls of all kinds, in two threads."""
    code = builder.code("/x/train.py", "forward", 12)
    call = {"kind": FUNCTION_CALL, "device": NO_DEVICE}
    builder.add(**call, attribute_id=code, timestamp_ns=10, extra=20)
    builder.add(**call, name_id=builder.string("nn.Module: Linear"), timestamp_ns=5, extra=30)
    builder.add(**call, attribute_id=code, timestamp_ns=0, extra=40, flags=START_UNKNOWN)
    builder.add(**call, name_id=builder.string("<built-in f, g>"), timestamp_ns=7, extra=0, flags=END_UNKNOWN)
    builder.add(**call, attribute_id=code, flags=START_UNKNOWN | END_UNKNOWN, thread_id=9)
    builder.add(**call, name_id=builder.string("=1+1"), timestamp_ns=1, extra=2, thread_id=9)
    builder.add(**call, attribute_id=builder.code("-x.py", "f", 1), timestamp_ns=1, extra=2, thread_id=9)


EXPECTED = [
    ("/x/train.py(12): forward", "10", "20", "100"),
    ("nn.Module: Linear", "5", "30", "100"),
    ("start: /x/train.py(12): forward", "N/A", "40", "100"),
    ("stop: <built-in f, g>", "7", "N/A", "100"),
    ("start: stop: /x/train.py(12): forward", "N/A", "N/A", "9"),
    ("=1+1", "1", "2", "9"),
    ("-x.py(1): f", "1", "2", "9"),
]


def test_csv_has_a_file_per_thread(builder: EventLogBuilder, dump: Dump) -> None:
    """Files lie beside the dump of the first device; calls are no rows of the dump."""
    builder.add(ATEN_START, device=2)
    add_calls(builder)
    builder.add(ATEN_START, device=1)
    files = dump()
    folder = builder.directory / "device_1" / "dump"
    assert [path.parent for path in files.python_trace_files] == [folder, folder]
    patterns = [r"python_trace_9_\d{14}\.csv", r"python_trace_100_\d{14}\.csv"]
    for pattern, path in zip(patterns, files.python_trace_files, strict=True):
        assert re.fullmatch(pattern, path.name)
        assert path.read_text(encoding="utf-8").startswith("FuncInfo,StartTime(ns),EndTime(ns),Thread Id,Process Id\n")
    rows = [tuple(row.values()) for path in reversed(files.python_trace_files) for row in csv_rows(path)]
    # A spreadsheet is to show the last two as text.
    assert rows == [(f"'{name}" if name[0] in "=-" else name, *rest, "4242") for name, *rest in EXPECTED]
    assert [len(csv_rows(path)) for path in files.csv_files] == [1, 1]
    assert files.rows_written == 9


def test_db_has_a_table_beside_the_dump(builder: EventLogBuilder, dump: Dump) -> None:
    """Times are text, so that a missing one can be N/A."""
    builder.add(ATEN_START, device=1)
    add_calls(builder)
    files = dump(DataFormat.DB)
    assert files.python_trace_files == ()
    rows = [tuple(row.values()) for row in db_rows(files.db_files[0], "python_trace_4242")]
    assert rows == [(name, start, end, int(thread), 4242) for name, start, end, thread in EXPECTED]
    assert len(db_rows(files.db_files[0])) == 1


@pytest.mark.parametrize("has_rows", [False, True])
@pytest.mark.parametrize(("named", "folder"), [("npu:3", "device_3"), ("cpu", "device_cpu"), ("cuda:1", None)])
def test_the_process_says_where_its_trace_lies(
    builder: EventLogBuilder, dump: Dump, named: str, folder: str | None, *, has_rows: bool
) -> None:
    """Where no device has rows: else it lies beside their dump. A device that is not observed has no folder."""
    builder.fact("python_trace.device", named)
    add_calls(builder)
    if has_rows:
        builder.add(ATEN_START, device=1)
    files = dump(devices=("npu",))
    expected = "device_1" if has_rows else folder or "device_cpu"
    assert {path.parents[1].name for path in files.python_trace_files} == {expected}
    files = dump(DataFormat.DB, devices=("npu",))
    (database,) = files.db_files
    assert database.parents[1].name == expected
    # Also the database that has no other row can be opened.
    assert {row["Device Id"] for row in db_rows(database)} == {expected.removeprefix("device_")}


def test_a_trace_between_start_and_stop_has_one_database(builder: EventLogBuilder, dump: Dump) -> None:
    """That of the device that the process names; its rows say when collection was on, once."""
    builder.fact("python_trace.device", "npu:3")
    builder.add(EventKind.START_TRACE, device=NO_DEVICE)
    add_calls(builder)
    builder.add(EventKind.STOP_TRACE, device=NO_DEVICE)
    (database,) = dump(DataFormat.DB, devices=("npu",)).db_files
    assert database.parents[1].name == "device_3"
    rows = db_rows(database)
    assert [(row["Event Type"], row["Device Id"]) for row in rows] == [("START_TRACE", "3"), ("STOP_TRACE", "3")]
    assert len(db_rows(database, "python_trace_4242")) == 7


def test_trace_alone_lies_with_the_cpu(builder: EventLogBuilder, dump: Dump) -> None:
    """A program that only computes has a trace and no dump rows."""
    add_calls(builder)
    files = dump()
    assert files.csv_files == ()
    assert {path.parts[-3] for path in files.python_trace_files} == {"device_cpu"}
    files = dump(DataFormat.DB)
    calls = db_rows(files.db_files[0], "python_trace_4242")
    assert len(calls) == 7
    # MindStudio Insight opens a database only if rows of its dump have a device and span some time.
    rows = db_rows(files.db_files[0])
    times = [
        int(call[column]) for call in calls for column in ("StartTime(ns)", "EndTime(ns)") if call[column] != "N/A"
    ]
    assert [(row["Event"], row["Event Type"], row["Device Id"]) for row in rows] == [
        ("SYSTEM", "START_TRACE", "cpu"),
        ("SYSTEM", "STOP_TRACE", "cpu"),
    ]
    assert [row["Timestamp(ns)"] for row in rows] == [min(times), max(times)]
    assert 0 < rows[0]["Timestamp(ns)"] < rows[1]["Timestamp(ns)"]
    assert len({row["ID"] for row in rows}) == 2


def test_trace_between_events_with_stacks(
    builder: EventLogBuilder, dump: Dump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that holds nothing but calls has no rows of the dump."""
    monkeypatch.setattr("msmemscope.formats.dump.dump_session._BATCH_ROWS", 3)
    add_calls(builder)
    native = builder.native_stack(0x1)
    builder.add(ATEN_START, native_stack_id=native)
    files = dump(python_stack=True, native_stack=True)
    assert [row["Call Stack(C)"] for row in csv_rows(files.csv_files[0])] == ["[0x1]\n"]
    assert files.rows_written == 8


def test_very_many_threads(builder: EventLogBuilder, dump: Dump, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every thread keeps a file descriptor."""
    monkeypatch.setattr("msmemscope.formats.dump.python_trace._OPEN_FILES", 2)
    monkeypatch.setattr("msmemscope.formats.dump.dump_session._BATCH_ROWS", 5)
    name = builder.string("f")
    for number in range(40):
        builder.add(FUNCTION_CALL, name_id=name, thread_id=number % 8, timestamp_ns=number, extra=number + 1)
    files = dump()
    starts = [[int(row["StartTime(ns)"]) for row in csv_rows(path)] for path in files.python_trace_files]
    assert starts == [list(range(thread, 40, 8)) for thread in range(8)]
