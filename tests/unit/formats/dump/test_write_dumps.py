"""A capture becomes the dump files that scripts and tools know."""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING

import pytest

from msmemscope.configuration import CollectionItem, Config, DataFormat
from msmemscope.formats.dump import write_dumps
from msmemscope.formats.event_log import Capture
from tests.fakes.event_log_builder import (
    ATB,
    ATEN_END,
    ATEN_START,
    CPU,
    DEVICE_USAGE,
    FREE,
    FUNCTION_CALL,
    HAL,
    HOST,
    MALLOC,
    MARK,
    NO_DEVICE,
    PTA,
    READ,
    RESERVED,
    STEP,
    WRITE,
    Event,
    EventLogBuilder,
)
from tests.unit.formats.dump.conftest import csv_rows, db_rows

if TYPE_CHECKING:
    from tests.unit.formats.dump.conftest import Dump

HEADER = (
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)"
)
BOTH_FORMATS = pytest.mark.parametrize("data_format", list(DataFormat))


def test_csv_of_a_small_program(builder: EventLogBuilder, dump: Dump) -> None:
    """The whole file, byte by byte."""
    operator = builder.string("torch._ops.aten.add.Tensor")
    shape = builder.string("dtype:torch.float32,shape:torch.Size([4, 4])")
    builder.add(ATEN_START, name_id=operator, timestamp_ns=1001)
    block = builder.malloc(0x7F00AB, 64, timestamp_ns=1002, name_id=operator)
    builder.add(
        WRITE,
        address=0x7F00AB,
        size=64,
        pool=HOST,
        name_id=operator,
        attribute_id=shape,
        extra=block,
        timestamp_ns=1003,
    )
    builder.add(ATEN_END, name_id=operator, timestamp_ns=1004)
    builder.free(block, 0x7F00AB, 64, timestamp_ns=1005, thread_id=101)
    files = dump()
    assert (
        files.csv_files[0].read_text(encoding="utf-8")
        == f"""{HEADER}
1,OP_LAUNCH,ATEN_START,torch._ops.aten.add.Tensor,1001,4242,100,cpu,N/A,,,
2,MALLOC,HOST,N/A,1002,4242,100,cpu,0x00000000007f00ab,"{{allocation_id:2,addr:0x00000000007f00ab,size:64,total:64}}",,
3,ACCESS,WRITE,torch._ops.aten.add.Tensor,1003,4242,100,cpu,0x00000000007f00ab,\
"{{allocation_id:2,addr:0x00000000007f00ab,size:64,type:HOST,dtype:torch.float32,shape:torch.Size([4, 4])}}",,
4,OP_LAUNCH,ATEN_END,torch._ops.aten.add.Tensor,1004,4242,100,cpu,N/A,,,
5,FREE,HOST,N/A,1005,4242,101,cpu,0x00000000007f00ab,"{{allocation_id:2,addr:0x00000000007f00ab,size:64,total:0}}",,
"""
    )
    assert files.rows_written == 5


def test_db_has_the_same_rows(builder: EventLogBuilder, dump: Dump) -> None:
    """Attr is compact JSON with string values; everything else is as in the CSV file."""
    block = builder.malloc(0x1000, 64)
    builder.add(READ, address=0x1000, size=64, pool=HOST, extra=block, attribute_id=builder.string("shape:[1,2,]"))
    builder.add(ATEN_START, name_id=builder.string('quoted "name", with comma'))
    table = db_rows(dump(DataFormat.DB).db_files[0])
    rows = csv_rows(dump(DataFormat.CSV).csv_files[0])
    assert [row["Attr"] for row in table] == [
        '{"allocation_id":"1","addr":"0x0000000000001000","size":"64","total":"64"}',
        '{"allocation_id":"1","addr":"0x0000000000001000","size":"64","type":"HOST","shape":"[1,2,]"}',
        "{}",
    ]
    for row, other in zip(rows, table, strict=True):
        del row["Attr"], other["Attr"]
        assert row == {name: str(value) for name, value in other.items()}


@BOTH_FORMATS
def test_files_lie_in_the_folder_of_their_device(builder: EventLogBuilder, dump: Dump, data_format: DataFormat) -> None:
    """One dump per device; what belongs to no device is in each of them; all rows in ID order."""
    builder.add(ATEN_START, device=3)
    builder.add(MARK, device=NO_DEVICE, name_id=builder.string("mark"))
    builder.malloc(0x1000, 64, device=CPU)
    builder.malloc(0x1000, 64, device=0, pool=PTA)
    builder.add(STEP, device=NO_DEVICE, size=1)
    builder.add(ATEN_END, device=3)
    files = dump(data_format)
    written = files.csv_files or files.db_files
    pattern = rf"device_(\w+)/dump/memscope_dump_\d{{14}}\.{data_format.value}"
    names = [re.fullmatch(pattern, str(path.relative_to(builder.directory))) for path in written]
    assert [name[1] if name else None for name in names] == ["0", "3", "cpu"]
    read = csv_rows if files.csv_files else db_rows
    by_device = [[(int(row["ID"]), row["Device Id"]) for row in read(path)] for path in written]
    assert by_device == [
        [(2, "N/A"), (4, "0"), (5, "N/A")],
        [(1, "3"), (2, "N/A"), (5, "N/A"), (6, "3")],
        [(2, "N/A"), (3, "cpu"), (5, "N/A")],
    ]
    assert files.rows_written == 10


def test_events_of_no_device_go_to_the_cpu_if_there_is_no_other(builder: EventLogBuilder, dump: Dump) -> None:
    """Nothing is lost only because the program touched no device."""
    builder.add(STEP, device=NO_DEVICE, size=1)
    files = dump()
    assert [path.parts[-3] for path in files.csv_files] == ["device_cpu"]
    assert [row["Name"] for row in csv_rows(files.csv_files[0])] == ["1"]


def test_capture_without_events_writes_nothing(builder: EventLogBuilder, dump: Dump) -> None:
    """No folders appear for a program in which nothing happened."""
    files = dump()
    assert files.csv_files == files.db_files == files.python_trace_files == ()
    assert files.config_file is None
    assert [path.name for path in builder.directory.iterdir()] == ["event_log"]


def test_statistics_of_each_pool(builder: EventLogBuilder, dump: Dump) -> None:
    """Each pool of each device is counted by itself; a FREE of an unknown block changes nothing."""
    first = builder.malloc(0x1, 10, pool=PTA, device=0)
    builder.malloc(0x2, 20, pool=PTA, device=1)
    builder.malloc(0x3, 30, pool=HAL, device=0)
    builder.malloc(0x4, 40, pool=PTA, device=0)
    builder.add(FREE, address=0x9, pool=PTA, device=0)
    builder.free(first, 0x1, 10, pool=PTA, device=0)
    builder.malloc(0x5, 50, pool=ATB, device=0)
    builder.malloc(0x6, 60, pool=HOST, device=0)
    rows = csv_rows(dump().csv_files[0])
    used = [re.search(r"used:(\d+)", row["Attr"]) for row in rows]
    assert [match and match[1] for match in used] == ["10", "30", "50", "50", "40", "50", None]
    assert rows[3]["Attr"] == "{allocation_id:0,addr:0x0000000000000009,size:0,used:50}"


@BOTH_FORMATS
def test_what_a_pool_holds_and_a_device_uses(builder: EventLogBuilder, dump: Dump, data_format: DataFormat) -> None:
    """The last value before a row counts, of its own pool and device; what is not known is left out."""
    builder.malloc(0x1, 10, pool=PTA, device=0)
    builder.add(RESERVED, pool=PTA, device=0, size=100)
    builder.add(RESERVED, pool=PTA, device=1, size=7)
    block = builder.malloc(0x2, 20, pool=PTA, device=0)
    builder.add(DEVICE_USAGE, device=0, size=1000, extra=500)
    builder.malloc(0x3, 30, pool=HAL, device=0)
    builder.add(RESERVED, pool=PTA, device=0, size=200)
    builder.free(block, 0x2, 20, pool=PTA, device=0)
    builder.add(DEVICE_USAGE, device=0, size=-1, extra=2**64 - 1)
    builder.malloc(0x4, 40, pool=PTA, device=0)
    files = dump(data_format)
    rows = csv_rows(files.csv_files[0]) if files.csv_files else db_rows(files.db_files[0])
    statistics = [re.sub(r'[{}"]', "", row["Attr"]).split(",", 3)[3].partition(",type")[0] for row in rows]
    assert statistics == [
        "used:10",
        "total:100,used:30",
        "used:30,process_used:500,device_used:1000",
        "total:200,used:10,process_used:500,device_used:1000",
        "total:200,used:50",
    ]
    assert [row["ID"] for row in map(dict, rows)] == [type(rows[0]["ID"])(value) for value in (1, 4, 6, 8, 10)]
    # Values of a device do not make a dump of it.
    assert [path.parts[-3] for path in files.csv_files or files.db_files] == ["device_0"]


@pytest.mark.parametrize("pool", [HAL, HOST])
def test_pinned_memory_is_counted_apart(
    builder: EventLogBuilder, dump: Dump, monkeypatch: pytest.MonkeyPatch, pool: int
) -> None:
    """From CPU tensors, although both are HOST; whichever pool it was recorded in."""
    builder.malloc(0x1, 10, pool=HOST)
    builder.add(DEVICE_USAGE, device=CPU, size=-1, extra=5000)
    first = builder.malloc(0x2, 20, pool=pool, attribute_id=builder.string("pinned:true"))
    second = builder.malloc(0x3, 30, pool=pool, attribute_id=builder.string("pinned:true"))
    builder.free(first, 0x2, 20, pool=pool)
    third = builder.malloc(0x4, 40, pool=HOST)
    builder.free(second, 0x3, 30, pool=pool)
    builder.free(third, 0x4, 40, pool=HOST)
    monkeypatch.setattr("msmemscope.formats.dump.dump_session._BATCH_ROWS", 3)
    rows = csv_rows(dump().csv_files[0])
    assert {row["Event Type"] for row in rows} == {"HOST"}
    assert [row["Attr"].split(",", 3)[3] for row in rows] == [
        "total:10}",
        "pinned:true,used:20,process_used:5000}",
        "pinned:true,used:50,process_used:5000}",
        "pinned:true,used:30,process_used:5000}",
        "total:50}",
        "pinned:true,used:0,process_used:5000}",
        "total:10}",
    ]


def test_totals_hold_when_the_flight_recorder_dropped_blocks(builder: EventLogBuilder, dump: Dump) -> None:
    """A FREE whose MALLOC was overwritten does not take from what is alive."""
    builder.kept[0] = [Event(2, MALLOC, address=0x2, size=100, pool=HOST)]
    builder.free(3, 0x3, 1000, sequence=50)
    builder.malloc(0x5, 7, sequence=51)
    builder.free(2, 0x2, 100, sequence=52)
    builder.header_fields = {"dropped_recycled": 40}
    rows = csv_rows(dump().csv_files[0])
    assert [re.findall(r"total:(-?\d+)", row["Attr"]) for row in rows] == [["100"], ["100"], ["107"], ["7"]]


def test_totals_are_carried_over_batches(builder: EventLogBuilder, dump: Dump, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the batches are, the file is the same."""
    blocks = [builder.malloc(number * 16, number) for number in range(1, 30)]
    for number, block in enumerate(blocks, start=1):
        builder.free(block, number * 16, number)
    whole = dump().csv_files[0].read_bytes()
    monkeypatch.setattr("msmemscope.formats.dump.dump_session._BATCH_ROWS", 4)
    assert dump().csv_files[0].read_bytes() == whole
    assert whole.rstrip().endswith(b'total:0}",,')


def test_existing_dumps_are_never_touched(builder: EventLogBuilder, dump: Dump) -> None:
    """Writing again takes the next free moment as a name."""
    builder.add(ATEN_START)
    first = dump().csv_files[0]
    content = first.read_bytes()
    first.chmod(0o600)
    names = {first.name} | {dump().csv_files[0].name for _ in range(4)}
    assert len(names) == 5
    assert first.read_bytes() == content
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert not list(first.parent.glob("*.partial"))


@BOTH_FORMATS
def test_stacks_are_shown_if_they_were_asked_for(builder: EventLogBuilder, dump: Dump, data_format: DataFormat) -> None:
    """Stacks are recorded for the summary as well; without --call-stack their columns stay empty."""
    stack = builder.python_stack((builder.code('a "b".py', "f", 3), 0), (builder.code("=c.py", "g", 5), 0))
    formula = builder.python_stack((builder.code("=c.py", "g", 5), 0))
    native = builder.native_stack(0x10, 0x20)
    builder.malloc(0x1, 8, python_stack_id=stack, native_stack_id=native)
    builder.malloc(0x2, 8, python_stack_id=formula)
    builder.malloc(0x3, 8)

    def stacks(**settings: bool) -> list[list[str]]:
        files = dump(data_format, **settings)
        rows = csv_rows(files.csv_files[0]) if files.csv_files else db_rows(files.db_files[0])
        return [[row["Call Stack(Python)"], row["Call Stack(C)"]] for row in rows]

    python_text = 'a "b".py(3): f\n=c.py(5): g\n'
    assert stacks() == [["", ""]] * 3
    # A spreadsheet is to show text; nobody runs a database.
    mark = "'" if data_format is DataFormat.CSV else ""
    assert stacks(python_stack=True) == [[python_text, ""], [f"{mark}=c.py(5): g\n", ""], ["", ""]]
    assert stacks(native_stack=True) == [["", "[0x10]\n[0x20]\n"], ["", ""], ["", ""]]
    assert stacks(python_stack=True, native_stack=True)[0] == [python_text, "[0x10]\n[0x20]\n"]


def test_native_stacks_follow_a_change_of_modules(builder: EventLogBuilder, dump: Dump) -> None:
    """The same addresses before and after a library was replaced get different names, within one batch."""
    native = builder.native_stack(0x1234)
    for seen, path in ((1, "/old.so"), (3, "/new.so")):
        builder.module(path, 0x1000, 0x2000, load_bias=0x1000, seen=seen)
    for number in range(1, 5):
        builder.malloc(number, 8, native_stack_id=native)
    rows = csv_rows(dump(native_stack=True).csv_files[0])
    assert [row["Call Stack(C)"].partition("(")[0] for row in rows] == ["/old.so"] * 2 + ["/new.so"] * 2


def test_progress_counts_events(builder: EventLogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Function calls count as well: the last report is the number of all events."""
    for _ in range(5):
        builder.add(ATEN_START)
    builder.add(FUNCTION_CALL)
    monkeypatch.setattr("msmemscope.formats.dump.dump_session._BATCH_ROWS", 4)
    reports: list[tuple[int, int]] = []
    write_dumps(Capture(builder.write()), Config(), progress=lambda done, total: reports.append((done, total)))
    assert reports == [(4, 6), (6, 6)]


def test_config_is_written_once(builder: EventLogBuilder, dump: Dump) -> None:
    """The settings belong to the capture and do not change with later exports."""
    builder.add(ATEN_START)
    files = dump(python_stack=True)
    assert files.config_file == builder.directory / "config.json"
    assert json.loads(files.config_file.read_text(encoding="utf-8"))["enablePyStack"] is True
    again = dump(python_stack=False)
    assert json.loads((again.config_file or files.csv_files[0]).read_text(encoding="utf-8"))["enablePyStack"] is True


def test_events_that_only_analyses_need_are_not_written(builder: EventLogBuilder, dump: Dump) -> None:
    """Events that were collected beside the chosen ones are in the log, and in no dump."""
    block = builder.malloc(0x1000, 64)
    builder.add(ATEN_START, name_id=builder.string("aten.add"))
    builder.access(block, 0x1000)
    builder.add(ATEN_END, name_id=builder.string("aten.add"))
    builder.free(block, 0x1000, 64)
    alone = frozenset({CollectionItem.ALLOC, CollectionItem.FREE, CollectionItem.ACCESS})
    for data_format in DataFormat:
        files = dump(data_format, unwritten=alone)
        (path,) = files.csv_files or files.db_files
        rows = csv_rows(path) if files.csv_files else db_rows(path)
        assert [row["Event"] for row in rows] == ["OP_LAUNCH", "OP_LAUNCH"]
