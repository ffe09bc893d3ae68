"""A DB file opens in MindStudio Insight: its rules, checked the way Insight reads.

Insight is not at hand in tests. Its requirements of a file are known. Each requirement is one test here, on a DB that
has something of everything in it.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from msmemscope.configuration import Analysis, DataFormat
from tests.fakes.event_log_builder import (
    ATEN_END,
    ATEN_START,
    CPU,
    FUNCTION_CALL,
    HOST,
    MARK,
    NO_DEVICE,
    PTA,
    READ,
    STEP,
    WRITE,
    EventLogBuilder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.formats.dump.conftest import Dump

FILE_NAME = re.compile(r"^(memscope|leaks)_dump_\d+\.db$")
BASE_COLUMNS = [
    "ID", "Event", "Event Type", "Name", "Timestamp(ns)", "Process Id", "Thread Id", "Device Id", "Ptr", "Attr",
]  # fmt: skip
NO_DEVICE_WORDS = ("N/A", "", "host")
LARGEST_TIME = 2**63 - 1


@pytest.fixture(params=["cpu", "npu"])
def path(request: pytest.FixtureRequest, builder: EventLogBuilder, dump: Dump) -> Path:
    """The DB file of a small program, with stacks, labels, marks and a Python trace."""
    device, pool = (CPU, HOST) if request.param == "cpu" else (0, PTA)
    operator = builder.string("torch._ops.aten.addmm.default")
    shape = builder.string("dtype:torch.float32,shape:torch.Size([32, 10])")
    stack = builder.python_stack((builder.code("train.py", "forward", 7), 0))
    native = builder.native_stack(0x1234)
    place = {"device": device, "python_stack_id": stack, "native_stack_id": native}
    builder.add(MARK, device=NO_DEVICE, name_id=builder.string("step start"))
    for number in range(1, 13):
        address = 0x7F00_0000_0000 + number * 4096
        builder.add(ATEN_START, name_id=operator, **place)
        labels = builder.labels(f"5label {number}")
        block = builder.malloc(address, 512 * number, pool=pool, name_id=operator, extra=labels, **place)
        for kind in (WRITE, READ):
            builder.add(
                kind, address=address, size=512, pool=pool, name_id=operator, attribute_id=shape, extra=block, **place
            )
        builder.add(ATEN_END, name_id=operator, **place)
        if number % 3:
            builder.free(block, address, 512 * number, pool=pool, **place)
    builder.add(STEP, device=device, size=1)
    call = builder.string("forward")
    builder.add(FUNCTION_CALL, name_id=call, timestamp_ns=1_700_000_000_000_000_100, extra=1_700_000_000_000_000_900)
    builder.add(FUNCTION_CALL, name_id=call, timestamp_ns=0, extra=1_700_000_000_000_000_900, flags=2)
    analysis = frozenset({Analysis.DECOMPOSE})
    return dump(DataFormat.DB, python_stack=True, native_stack=True, analysis=analysis).db_files[0]


@pytest.fixture
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """The file opened for writing, as Insight opens it."""
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def test_file_name_is_recognised(path: Path) -> None:
    """Digits only between the prefix and the suffix."""
    assert FILE_NAME.match(path.name)


def test_it_is_one_file(path: Path) -> None:
    """No write-ahead log or journal is needed beside it: a single file is imported."""
    assert [other.name for other in path.parent.iterdir()] == [path.name]
    assert path.read_bytes()[18:20] == b"\x01\x01"  # neither reading nor writing needs a write-ahead log


def test_dump_table_is_there(database: sqlite3.Connection) -> None:
    """One dump table, and none of the tables that Insight makes for itself."""
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert sorted(tables) == ["memscope_dump", "python_trace_4242"]


def test_base_columns_come_first_in_their_order(database: sqlite3.Connection) -> None:
    """Rows are read by position: ten base columns, then the Python stack before the C stack."""
    columns = [row[1] for row in database.execute("PRAGMA table_info(memscope_dump)")]
    assert columns[:10] == BASE_COLUMNS
    stacks = [name for name in columns if name.startswith("Call Stack")]
    assert stacks == columns[10:] == ["Call Stack(Python)", "Call Stack(C)"]
    types = [row[2] for row in database.execute("PRAGMA table_info(memscope_dump)")]
    assert types == [
        "INTEGER", "TEXT", "TEXT", "TEXT", "INTEGER", "INTEGER", "INTEGER", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT",
    ]  # fmt: skip


def test_time_range_is_a_range(database: sqlite3.Connection) -> None:
    """The smallest time is above 0, the largest above that and below 2^63, in every table."""
    dump_query = 'SELECT MIN("Timestamp(ns)"), MAX("Timestamp(ns)") FROM memscope_dump'
    trace_query = (
        'SELECT MIN(CAST("StartTime(ns)" AS INTEGER)), MAX(CAST("EndTime(ns)" AS INTEGER)) FROM python_trace_4242 '
        "WHERE \"StartTime(ns)\" != 'N/A' AND \"EndTime(ns)\" != 'N/A'"
    )
    for query in (dump_query, trace_query):
        smallest, largest = database.execute(query).fetchone()
        assert 0 < smallest < largest < LARGEST_TIME


def test_some_row_has_a_device(database: sqlite3.Connection) -> None:
    """Without a device there is nothing to choose from."""
    devices = {device for (device,) in database.execute('SELECT DISTINCT "Device Id" FROM memscope_dump')}
    assert devices - set(NO_DEVICE_WORDS)
    assert all(isinstance(device, str) for device in devices)


def test_attributes_are_json_with_text_values(database: sqlite3.Connection) -> None:
    """Numbers are text too; MALLOC and FREE have a size, an allocation id and a running figure."""
    rows = database.execute("SELECT Event, Attr, Ptr FROM memscope_dump").fetchall()
    for event, text, pointer in rows:
        attributes = json.loads(text)
        assert all(isinstance(value, str) for value in attributes.values())
        if event in {"MALLOC", "FREE"}:
            assert int(attributes["size"]) > 0
            assert int(attributes["allocation_id"]) > 0
            assert attributes["addr"] == pointer
            assert {"total", "used"} & set(attributes)
        if event == "MALLOC":
            assert re.fullmatch(r"(PTA|HOST)@(ops@aten|program)@label \d+", attributes["owner"])


def test_events_of_a_block_are_found_by_text_search(database: sqlite3.Connection) -> None:
    """Key and value stand side by side without blanks, and 1 does not find 12."""
    ids = [row[0] for row in database.execute("SELECT ID FROM memscope_dump WHERE Event = 'MALLOC'")]
    for block in ids:
        pattern = f'%"allocation_id":"{block}"%'
        rows = database.execute("SELECT Event, Attr FROM memscope_dump WHERE Attr LIKE ? ORDER BY ID", (pattern,))
        events = [event for event, _ in rows]
        assert events[:3] == ["MALLOC", "ACCESS", "ACCESS"]
        assert events[3:] in ([], ["FREE"])


def test_blocks_pair_by_device_pointer_and_type(database: sqlite3.Connection) -> None:
    """Insight pairs by address: no second MALLOC on a live one, no FREE of a dead one, no negative total."""
    live: dict[tuple[str, str, str], int] = {}
    totals: dict[tuple[str, str], int] = {}
    query = (
        'SELECT Event, "Device Id", Ptr, "Event Type", Attr FROM memscope_dump '
        "WHERE Event IN ('MALLOC', 'FREE') ORDER BY \"Timestamp(ns)\""
    )
    for event, device, pointer, kind, text in database.execute(query):
        key = (device, pointer, kind)
        size = int(json.loads(text)["size"])
        pool = (device, kind)
        if event == "MALLOC":
            assert key not in live
            live[key] = size
            totals[pool] = totals.get(pool, 0) + size
        else:
            assert live.pop(key) == size
            totals[pool] -= size
        figure = json.loads(text)
        assert int(figure.get("used", figure.get("total"))) == totals[pool]
    assert live


def test_accesses_point_at_their_block(database: sqlite3.Connection) -> None:
    """Access times of a block come from rows with its id and its pointer, at rising times."""
    query = 'SELECT Attr, Ptr, "Timestamp(ns)" FROM memscope_dump WHERE Event = ? ORDER BY ID'
    blocks = {json.loads(text)["allocation_id"]: pointer for text, pointer, _ in database.execute(query, ("MALLOC",))}
    last: dict[str, int] = {}
    for text, pointer, time_ns in database.execute(query, ("ACCESS",)):
        block = json.loads(text)["allocation_id"]
        assert pointer == blocks[block]
        assert time_ns > last.get(block, 0)
        last[block] = time_ns
    assert set(last) == set(blocks)


def test_python_trace_belongs_to_the_process(database: sqlite3.Connection) -> None:
    """The table's suffix is a number, thread ids are positive, and what has both times ends after its start."""
    (name,) = database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'python_trace_%'").fetchone()
    assert name.removeprefix("python_trace_").isdigit()
    rows = database.execute(f'SELECT "StartTime(ns)", "EndTime(ns)", "Thread Id" FROM {name}').fetchall()
    assert rows
    for start, end, thread in rows:
        assert isinstance(start, str)
        assert isinstance(end, str)
        assert thread > 0
        assert "N/A" in (start, end) or int(end) > int(start)


def test_trace_table_is_not_created_empty(builder: EventLogBuilder, dump: Dump) -> None:
    """An empty trace table has no smallest time, and the file would not open."""
    builder.add(ATEN_START)
    with closing(sqlite3.connect(dump(DataFormat.DB).db_files[0])) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
    assert tables == ["memscope_dump"]


def test_insight_can_write_its_own_tables(path: Path, database: sqlite3.Connection) -> None:
    """Insight adds tables, a column of the trace and a version number of its own."""
    assert os.access(path, os.W_OK)
    for table in ("memory_allocation", "memory_block", "status_info"):
        database.execute(f"CREATE TABLE {table} (id INTEGER)")
    database.execute("ALTER TABLE python_trace_4242 ADD COLUMN Depth INTEGER DEFAULT -1")
    database.execute("PRAGMA user_version = 7")
    database.commit()
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
