"""Writing results back: the attribute of the rows concerned changes, and nothing else does."""

from __future__ import annotations

import csv
import io
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.configuration import DataFormat
from msmemscope.errors import DumpError
from msmemscope.formats.dump import csv_attributes
from msmemscope.formats.dump.inefficient_attribute import with_inefficient_type
from msmemscope.formats.dump.write_back import WrittenBack, write_inefficient_types
from tests.fakes.event_log_builder import EventLogBuilder
from tests.unit.formats.dump.conftest import Dump, csv_rows, db_rows

HEADER = (
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n"
)
BOTH = "early_allocation,late_deallocation"


def row(number: int, attributes: str, *, event: str = "MALLOC", process: int = 7, stack: str = "") -> str:
    """A row of a dump; the attributes as they stand in the file."""
    return f"{number},{event},PTA,N/A,{1000 + number},{process},{process},0,0x00000000000000ff,{attributes},{stack},\n"


STACK = '"train.py(3): a ""quoted"", name\nmodel.py(4): forward\n99,MALLOC,PTA,N/A,1,7,7,0,0x0,{allocation_id:99},"'
PLAIN = [
    row(1, "", event="MSTX").replace("N/A", '"""step, start"""'),
    row(2, '"{allocation_id:2,addr:0x0,size:64}"', stack=STACK),
    row(3, '"{allocation_id:2,addr:0x0,size:64}"', event="FREE"),
    row(4, '"{allocation_id:4,size:64,owner:PTA@a,b:c""d""}"', stack=STACK),
    row(5, '"{allocation_id:5,inefficient:temporary_idleness,early_allocation,owner:x}"'),
    row(6, '"{allocation_id:6,inefficient_type:late_deallocation}"'),
    row(7, '"{allocation_id:7,size:1}"', process=8),
    row(8, '"""{allocation_id:8}"""'),
    row(9, ""),
]
CHANGED = {
    2: ('64}"', f'64,inefficient_type:{BOTH}}}"'),
    4: ('""d""}"', f'""d"",inefficient_type:{BOTH}}}"'),
    5: (":5,inefficient:temporary_idleness,early_allocation,owner:x}", f":5,owner:x,inefficient_type:{BOTH}}}"),
    6: ("inefficient_type:late_deallocation", f"inefficient_type:{BOTH}"),
    8: ("8}", f"8,inefficient_type:{BOTH}}}"),
    9: ("0ff,,", f'0ff,"{{inefficient_type:{BOTH}}}",'),
}


def written(path: Path, kinds: dict[int, str], process: int = 7) -> WrittenBack:
    """Write the kinds of blocks of one process."""
    columns = {"process_id": [process] * len(kinds), "allocation_id": [*kinds], "inefficient_type": [*kinds.values()]}
    schema = {"process_id": pl.UInt32(), "allocation_id": pl.UInt64(), "inefficient_type": pl.String()}
    return write_inefficient_types(path, pl.DataFrame(columns, schema=schema))


def no_leftovers(path: Path) -> bool:
    """Whether nothing lies beside a file."""
    return [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("slice_bytes", [16, 1 << 20])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_only_the_attributes_of_the_rows_concerned_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int, line_end: str
) -> None:
    """Stacks over several lines, labels with commas, quotes and colons, rows of others: byte for byte as before."""
    monkeypatch.setattr(csv_attributes, "_SLICE_BYTES", slice_bytes)
    path = tmp_path / "memscope_dump_1.csv"
    before = "".join([HEADER, *PLAIN]).replace("\n", line_end)
    path.write_bytes(before.encode())
    expected = [HEADER, *PLAIN]
    for number, (old, new) in CHANGED.items():
        assert expected[number].count(old) == 1
        expected[number] = expected[number].replace(old, new)
    # Row 3 is a FREE, 7 is another process's, 99 stands inside a stack.
    result = written(path, dict.fromkeys([*CHANGED, 3, 7, 99], BOTH))
    assert path.read_bytes() == "".join(expected).replace("\n", line_end).encode()
    assert (result.rows, result.missing) == (len(CHANGED), 3)
    assert no_leftovers(path)


def test_writing_twice_is_writing_once_and_taking_away_gives_back_the_file(tmp_path: Path) -> None:
    """Writing replaces the findings of an earlier run."""
    path = tmp_path / "dump.csv"
    content = "".join([HEADER, *PLAIN[1:4]])
    path.write_text(content, newline="")
    written(path, {2: "early_allocation", 4: BOTH})
    written(path, {2: BOTH, 4: "temporary_idleness"})
    first = path.read_bytes()
    written(path, {2: BOTH, 4: "temporary_idleness"})
    assert path.read_bytes() == first
    assert first.count(b"inefficient_type:") == 2
    written(path, {2: "", 4: ""})
    assert path.read_bytes().decode() == content


# A carriage return alone is quoted by no writer, and ends a row for some readers.
FIELD = st.text(st.sampled_from('aé,"\n{}:0 '), max_size=8)


@given(
    rows=st.lists(st.tuples(st.sampled_from(["MALLOC", "FREE"]), FIELD, FIELD, FIELD), max_size=8),
    chosen=st.sets(st.integers(1, 9)),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    slice_bytes=st.sampled_from([1, 7, 64, 1 << 20]),
)
def test_a_csv_reader_sees_one_change(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str, str]],
    chosen: set[int],
    quoting: Any,
    slice_bytes: int,
) -> None:
    """Whatever the fields hold, with either way of quoting."""
    path = tmp_path_factory.mktemp("dump") / "dump.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting, lineterminator="\n")
    writer.writerow(HEADER.rstrip().split(","))
    cells = [
        [number, event, "PTA", name, 5, 7, 7, 0, "0x0", f"{{allocation_id:1,owner:{label}}}", stack, ""]
        for number, (event, name, label, stack) in enumerate(rows, 1)
    ]
    writer.writerows(cells)
    path.write_text(text.getvalue(), newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_attributes, "_SLICE_BYTES", slice_bytes)
        result = written(path, dict.fromkeys(chosen, BOTH))
    after = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))[1:]
    expected = [[str(cell) for cell in cell_row] for cell_row in cells]
    for cell_row in expected:
        if int(cell_row[0]) in chosen and cell_row[1] == "MALLOC":
            cell_row[9] = f"{cell_row[9][:-1]},inefficient_type:{BOTH}}}"
    assert after == expected
    assert result.rows == sum(event == "MALLOC" and number in chosen for number, (event, *_) in enumerate(rows, 1))


@pytest.mark.parametrize("data_format", [DataFormat.CSV, DataFormat.DB])
def test_dumps_of_our_own_are_changed(builder: EventLogBuilder, dump: Dump, data_format: DataFormat) -> None:
    """Dumps of our own writer can be changed. The other rows and attributes stay the same."""
    labels = builder.string('PTA@model@weight,user:label, "one"')
    first = builder.malloc(0x1000, 64, attribute_id=labels)
    builder.malloc(0x2000, 128)
    builder.free(first, 0x1000, 64)
    files = dump(data_format)
    path = (*files.csv_files, *files.db_files)[0]
    rows_of = csv_rows if data_format is DataFormat.CSV else db_rows
    before = rows_of(path)
    written(path, {first: BOTH}, process=4242)
    after = rows_of(path)
    text = after[0].pop("Attr")
    old = before[0].pop("Attr")
    assert after == before
    key = f"inefficient_type:{BOTH}" if data_format is DataFormat.CSV else f'"inefficient_type":"{BOTH}"'
    assert text == f"{old[:-1]},{key}}}"


def database(path: Path, table: str = "memscope_dump", *, write_ahead: bool = False) -> dict[int, str]:
    """A DB dump with more in it than the dump; returns the attributes by ID."""
    attributes = {
        1: '{"allocation_id":"1","size":"64"}',
        2: '{"allocation_id":"2","owner":"a,\\"inefficient_type\\":\\"x\\""}',
        3: '{"allocation_id":"3","inefficient":"temporary_idleness","size":"5"}',
        4: '{"inefficient_type": "late_deallocation,early_allocation"}',
        5: "{}",
        6: "{allocation_id:6}",
    }
    columns = HEADER.strip().split(",")
    with closing(sqlite3.connect(path)) as connection:
        if write_ahead:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f'CREATE TABLE "{table}" ({", ".join(f"""{c!r}""" for c in columns)})')
        connection.execute(f'CREATE INDEX by_event ON "{table}" ("Event")')
        connection.execute("CREATE TABLE status_info (a, b)")
        connection.execute("INSERT INTO status_info VALUES (1, X'00FF')")
        connection.execute("PRAGMA user_version=12")
        for number, text in attributes.items():
            for event, process in (("FREE", 7), ("MALLOC", 8), ("MALLOC", 7)):
                cells = [number, event, "PTA", "N/A", 5, process, 7, "0", "0x0", text, '"a\nb"', None]
                connection.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(cells))})', cells)
        connection.commit()
    return attributes


def everything(path: Path) -> tuple[list[Any], ...]:
    """All that is in a database."""
    with closing(sqlite3.connect(path)) as connection:
        schema = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
        tables = [name for kind, name, _ in schema if kind == "table"]
        version = connection.execute("PRAGMA user_version").fetchall()
        mode = connection.execute("PRAGMA journal_mode").fetchall()
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return schema, version, mode, *(connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables)


@pytest.mark.parametrize("table", ["memscope_dump", "leaks_dump"])
@pytest.mark.parametrize("write_ahead", [False, True])
def test_only_the_attributes_of_a_database_change(tmp_path: Path, table: str, write_ahead: bool) -> None:  # noqa: FBT001
    """Tables, indexes, versions and all other values are kept."""
    path = tmp_path / "memscope_dump_1.db"
    attributes = database(path, table, write_ahead=write_ahead)
    before = everything(path)
    result = written(path, dict.fromkeys([*attributes, 77], BOTH))
    after = everything(path)
    expected = {
        1: f'{{"allocation_id":"1","size":"64","inefficient_type":"{BOTH}"}}',
        2: attributes[2][:-1] + f',"inefficient_type":"{BOTH}"}}',
        3: f'{{"allocation_id":"3","size":"5","inefficient_type":"{BOTH}"}}',
        4: f'{{"inefficient_type":"{BOTH}"}}',
        5: f'{{"inefficient_type":"{BOTH}"}}',
        6: f"{{allocation_id:6,inefficient_type:{BOTH}}}",
    }
    in_place = next(rows for rows in before[3:] if len(rows) == 18)
    for place, cells in enumerate(in_place):
        if cells[1] == "MALLOC" and cells[5] == 7:
            in_place[place] = (*cells[:9], expected[cells[0]], *cells[10:])
    assert after == before
    assert (result.rows, result.missing) == (6, 1)
    assert no_leftovers(path)


def test_what_lies_in_the_log_beside_a_database_is_kept(tmp_path: Path) -> None:
    """A program that was killed left its rows there; one that still runs is not disturbed."""
    path = tmp_path / "a.db"
    database(path, write_ahead=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO status_info VALUES (2, 'late')")
        connection.commit()
        assert path.with_name("a.db-wal").stat().st_size
        content = path.read_bytes()
        with pytest.raises(DumpError, match="another program is using it"):
            written(path, {1: BOTH})
        assert everything(path)[-1][-1] == (2, "late")
    del content
    assert written(path, {1: BOTH}).rows == 1
    assert (2, "late") in everything(path)[-1]
    assert no_leftovers(path)


def test_a_database_that_would_do_more_is_refused(tmp_path: Path) -> None:
    """A trigger would change what nobody asked for."""
    path = tmp_path / "a.db"
    database(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TRIGGER t AFTER UPDATE ON memscope_dump BEGIN DELETE FROM status_info; END")
    before = path.read_bytes()
    with pytest.raises(DumpError, match="triggers"):
        written(path, {1: BOTH})
    assert path.read_bytes() == before
    assert no_leftovers(path)


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    """The file behind a link is replaced; it is as readable for others as it was."""
    folder, links = tmp_path / "files", tmp_path / "links"
    folder.mkdir()
    links.mkdir()
    path = folder / "dump.csv"
    path.write_text("".join([HEADER, *PLAIN]))
    path.chmod(0o604)
    link = links / "link.csv"
    link.symlink_to(path)
    assert written(link, {2: BOTH}).rows == 1
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert BOTH in path.read_text()
    assert no_leftovers(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"a,b\n1,2\n", "has no column ID, Event, Process Id, Attr"),
        (b"\0\xff\n" * 100, "has no column"),
        (b"SQLite format 3\0" + b"x" * 1000, "cannot be changed"),
    ],
    ids=["empty", "other table", "binary", "broken database"],
)
def test_what_is_no_dump_is_refused_and_left_alone(tmp_path: Path, content: bytes, message: str) -> None:
    """The message names the file and what is wrong."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DumpError, match=message) as caught:
        written(path, {1: BOTH})
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content
    assert no_leftovers(path)


@pytest.mark.parametrize("is_database", [False, True])
def test_a_failure_leaves_the_file_as_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_database: bool,  # noqa: FBT001
) -> None:
    """Here the disk is full when the copy is brought to it."""
    path = tmp_path / "file"
    if is_database:
        database(path)
    else:
        path.write_text("".join([HEADER, *PLAIN]))
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DumpError, match="No space left on device"):
        written(path, {2: BOTH})
    assert path.read_bytes() == before
    assert no_leftovers(path)


def test_a_file_that_changes_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the rows that another program added would be lost."""
    path = tmp_path / "dump.csv"
    path.write_text("".join([HEADER, *PLAIN]))
    real = os.fsync

    def appended(descriptor: int) -> None:
        with path.open("a") as file:
            file.write(PLAIN[1])
        real(descriptor)

    monkeypatch.setattr(os, "fsync", appended)
    with pytest.raises(DumpError, match="another program wrote to it"):
        written(path, {2: BOTH})
    assert path.read_text() == "".join([HEADER, *PLAIN, PLAIN[1]])
    assert no_leftovers(path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    """As everything that cannot be read."""
    for path in (tmp_path / "missing.csv", tmp_path):
        with pytest.raises(DumpError, match=str(path)):
            written(path, {1: BOTH})


@pytest.mark.parametrize("is_database", [False, True])
def test_a_dump_without_the_blocks_is_not_touched(tmp_path: Path, is_database: bool) -> None:  # noqa: FBT001
    """As the file of another device of the process."""
    path = tmp_path / "file"
    if is_database:
        database(path)
    else:
        path.write_text("".join([HEADER, *PLAIN]))
    before = path.stat()
    result = written(path, {1: BOTH, 3: BOTH} if not is_database else {99: BOTH, 98: BOTH})
    assert (result.rows, result.missing) == (0, 2)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert no_leftovers(path)


def test_nothing_to_write_touches_nothing(tmp_path: Path) -> None:
    """Not even a file that is no dump."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    before = path.stat()
    assert written(path, {}).rows == 0
    assert path.stat() == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "{inefficient_type:K}"),
        ("{}", '{"inefficient_type":"K"}'),
        ("{a:1, inefficient_type:early_allocation, b:2}", "{a:1, b:2,inefficient_type:K}"),
        ("{inefficient_type:early_allocation,b:2}", "{b:2,inefficient_type:K}"),
        ("{owner:my inefficient label,b:2}", "{owner:my inefficient label,b:2,inefficient_type:K}"),
        ("{owner:x,inefficient:very}", "{owner:x,inefficient:very,inefficient_type:K}"),
        ('{"a":"1" , "inefficient_type" : "x" , "b":"2"}', '{"a":"1" , "b":"2","inefficient_type":"K"}'),
    ],
)
def test_the_attribute_is_replaced_wherever_it_stands(text: str, expected: str) -> None:
    """And nothing that only looks like it."""
    assert with_inefficient_type(text, "K") == expected


@pytest.mark.parametrize("text", ["{a:1}", '{"a":"1"}', "{}", "", '"{a:1}"', "{b: inefficient,c:2}"])
def test_the_same_kinds_again_change_nothing(text: str) -> None:
    """Whatever stood there before them, which is gone after the first time."""
    once = with_inefficient_type(text, BOTH)
    assert with_inefficient_type(once, BOTH) == once
    assert with_inefficient_type(once, "") == with_inefficient_type(
        with_inefficient_type(once, "late_deallocation"), ""
    )


def test_quotes_within_quotes_take_no_longer_than_letters() -> None:
    """However many stand around the attributes."""
    assert with_inefficient_type('"' * 100_000, "K").count('"') == 100_000
    assert with_inefficient_type('"{a:1}"', "K") == '"{a:1,inefficient_type:K}"'


def test_a_row_of_quotes_is_copied_as_it_is(tmp_path: Path) -> None:
    """Where such a row ends is seen at once; the rows around it are changed."""
    path = tmp_path / "dump.csv"
    odd = '4,MALLOC,"' + '""' * 500_000 + "x\n"
    path.write_text(HEADER + PLAIN[1] + odd, encoding="utf-8")
    assert written(path, {2: BOTH, 4: BOTH}) == WrittenBack(path, 1, 1)
    assert path.read_text(encoding="utf-8") == HEADER + PLAIN[1].replace(*CHANGED[2]) + odd


def test_a_row_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have to fit into memory as a whole."""
    monkeypatch.setattr(csv_attributes, "_SLICE_BYTES", 1 << 10)
    monkeypatch.setattr(csv_attributes, "_MOST_ROW_BYTES", 1 << 12)
    path = tmp_path / "dump.csv"
    content = HEADER + PLAIN[1] + "4,MALLOC,x" * 2_000
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DumpError, match="has a row of more than"):
        written(path, {2: BOTH})
    assert path.read_text(encoding="utf-8") == content
    assert no_leftovers(path)
