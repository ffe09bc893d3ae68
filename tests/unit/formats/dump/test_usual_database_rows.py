"""The fast reader of DB dumps says what the patient one says, however rows lie in the pages of the file."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.errors import InputError
from msmemscope.formats.dump import sqlite_reader, usual_rows
from msmemscope.formats.dump.columns import COLUMNS, database_types
from msmemscope.formats.dump.sqlite_reader import database_pieces
from tests.support.nightly import examples
from tests.unit.formats.dump.test_usual_rows import meaning

if TYPE_CHECKING:
    from collections.abc import Sequence

ROW = (7, "MALLOC", "PTA", "N/A", 1_700_000_000_000_001_000, 42, 43, "0", "0x0000000000010000", "", "", "")
BLOCK = '{"allocation_id":"7","addr":"0x0000000000010000","size":"512"'
ATTRIBUTES = [
    "", "{}", f"{BLOCK}}}", f'{BLOCK},"total":"1024","used":"512"}}', f'{BLOCK},"used":"5","process_used":"7","device_used":"9"}}',
    f'{BLOCK},"pinned":"true","used":"1"}}', f'{BLOCK},"pinned":"false"}}', f'{BLOCK},"used":"","total":"3"}}',
    f'{BLOCK},"used":5,"owner":"a"}}', f'{BLOCK}, "used":"5"}}', f'{BLOCK},"used":"5"}}}}', BLOCK, f"{BLOCK},",
    f'{BLOCK},"used":"3","owner":"PTA@a, \\"b\\": \\\\ \u6743","page_type":"huge"}}', f'{BLOCK},"owner":"a","used":"3"}}',
    f'{BLOCK},"inefficient_type":"early_allocation"}}', f'{BLOCK},"shadow":"true"}}', f'{BLOCK},"type":"PTA","dtype":"float32"}}',
    '{"allocation_id":"7","addr":"0x10","size":"-512"}', '{"allocation_id":"7","addr":"10","size":"5"}',
    '{"allocation_id":"7","addr":"0x10","size":"99999999999999999999"}', '{"addr":"0x10","size":"5","allocation_id":"3"}',
    '{"streamId":"2","taskId":"9"}', '{"streamId":"2","taskId":"9","blockDim":"4"}', '{"streamId":"4294967297","taskId":"9"}',
    '{"req_size":"4096","func":"halMemAlloc"}', "{allocation_id:7,addr:0x10,size:5,total:3}", "free text", None, 5,
]  # fmt: skip
FIELDS: dict[str, list[Any]] = {
    "ID": [0, 1, 127, 128, 2**23, 2**31, 2**47, 2**63 - 1, -1, None, "x"],
    "Event": ["FREE", "ACCESS", "OP_LAUNCH", "MSTX", "KERNEL_LAUNCH", "SYSTEM", "SOMETHING", "malloc", "", None],
    "Event Type": ["HAL", "PTA", "HOST_PINNED", "WRITE", "ATEN_START", "Range_end", "Mark", "STEP", "", None],
    "Name": ["N/A", "", "aten.add", "Range end from id 3", "4", 'a,"b"', "two\nlines", "a\0b", "a\x1eb", "a\x1fb", "x" * 9000, 4],
    "Timestamp(ns)": [0, 1, -5, None, 12.5],
    "Process Id": [0, 1, 2**32, "N/A", None],
    "Thread Id": [0, 77, 2**32, "N/A", None],
    "Device Id": ["N/A", "cpu", "1", "npu:1", "300", "", None, 0],
    "Ptr": ["N/A", "", "0x10", "0xFFFFFFFFFFFFFFFF", "0x1FFFFFFFFFFFFFFFF", "65536", "12c000000000", "0x", None],
    "Attr": ATTRIBUTES,
    "Call Stack(Python)": ["a.py(3): f\nb.py(9): g\n", "NA", "one", "stack\n" * 2000, b"\xff"],
    "Call Stack(C)": ["libc.so.6(malloc+0x10)\nmain\n", "N/A"],
}  # fmt: skip
_NAMES = COLUMNS.names()

rows = st.lists(
    st.builds(
        lambda changes, attributes: tuple(
            {"Attr": attributes, **changes}.get(name, field) for name, field in zip(_NAMES, ROW, strict=True)
        ),
        st.just({})
        | st.fixed_dictionaries({}, optional={name: st.sampled_from(texts) for name, texts in FIELDS.items()}),
        st.sampled_from(ATTRIBUTES),
    ),
    min_size=1,
    max_size=6,
)


def write(path: Path, table: Sequence[Sequence[Any]], page_bytes: int = 4096) -> None:
    """Make a database of some rows."""
    definitions = ", ".join(f'"{name}" {kind}' for name, kind in database_types(COLUMNS).items())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(f"PRAGMA page_size={page_bytes}")
        connection.execute(f"CREATE TABLE memscope_dump ({definitions})")
        connection.executemany(f"INSERT INTO memscope_dump VALUES ({','.join('?' * len(_NAMES))})", table)
        connection.commit()


class Content(NamedTuple):
    """The rows of a file, its problems, and its unknown words, as a reader found them."""

    rows: list[dict[str, Any]]
    problems: list[str]
    unknown: dict[str, int]


def read(path: Path, *, patiently: bool) -> Content | str:
    """The content that one of the readers finds, or the text of its error."""
    content = Content([], [], {})
    with pytest.MonkeyPatch.context() as patch:
        if patiently:
            patch.setattr(usual_rows.DatabaseLeaves, "of_table", lambda *_: None)
        try:
            for piece in database_pieces(path):
                content.rows.extend(meaning(piece).to_dicts())
                content.problems.extend(piece.problems.lines())
                for words, count in piece.unknown.items():
                    content.unknown[words] = content.unknown.get(words, 0) + count
        except InputError as error:
            return str(error)
    return content


@examples(by_day=30)
@given(rows, st.sampled_from([512, 1024, 4096, 65536]))
def test_both_readers_say_the_same(table: list[tuple[Any, ...]], page_bytes: int) -> None:
    """Rows of every kind, in pages of every size, with texts that go on in further pages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.db"
        write(path, table, page_bytes)
        assert read(path, patiently=False) == read(path, patiently=True)


@pytest.mark.parametrize("name, value", [(name, value) for name, values in FIELDS.items() for value in values])
def test_fields_one_by_one(name: str, value: Any, tmp_path: Path) -> None:
    """Each alone, between rows that are as usual."""
    path = tmp_path / "dump.db"
    changed = tuple(value if column == name else field for column, field in zip(_NAMES, ROW, strict=True))
    usual = (*ROW[:9], f"{BLOCK}}}", "", "")
    write(path, [(6, *usual[1:]), (*changed[:9], changed[9] or f"{BLOCK}}}", *changed[10:]), (8, *usual[1:])])
    assert read(path, patiently=False) == read(path, patiently=True)


@examples(by_day=50)
@given(rows, st.data())
def test_both_readers_say_the_same_of_damaged_files(table: list[tuple[Any, ...]], data: st.DataObject) -> None:
    """Or the fast one leaves it to the other; what is damaged beyond that, no reader finds twice in the same words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.db"
        write(path, table * 8, 512)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
        fast = read(path, patiently=False)
        assert isinstance(fast, (Content, str))


def test_many_leaves_in_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order; a part with something unusual is read by the other reader, and only that part."""
    path = tmp_path / "dump.db"
    table = [(number, *ROW[1:9], f"{BLOCK}}}", "", "") for number in range(1, 2001)]
    table[1200] = (*table[1200][:10], "a stack\n" * 900, "")
    table[1500] = (1501, "MALLOC", "PTA", "N/A", -1, *table[1500][5:])
    write(path, table, 1024)
    monkeypatch.setattr(sqlite_reader, "_PIECE_BYTES", 8192)
    asked: list[Any] = []
    original = sqlite_reader._TableReader.pieces

    def noted(self: Any, row_range: tuple[int, int] | None = None) -> Any:
        asked.append(row_range)
        return original(self, row_range)

    monkeypatch.setattr(sqlite_reader._TableReader, "pieces", noted)
    found = read(path, patiently=False)
    assert isinstance(found, Content)
    assert [row["sequence"] for row in found.rows] == [number for number in range(1, 2001) if number != 1501]
    assert found.problems == ["row 1501: its Timestamp(ns) is negative"]
    ((first, last),) = asked
    assert first <= 1501 <= last < first + 100
    assert found == read(path, patiently=True)


def test_usual_dumps_are_read_by_the_fast_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that are not usual are left to the other reader."""
    usual, other = tmp_path / "usual.db", tmp_path / "other.db"
    write(usual, [(*ROW[:9], text, "", "") for text in (f"{BLOCK}}}", '{"streamId":"2","taskId":"9"}', "{}")])
    definitions = ", ".join(f'"{name}" {kind}' for name, kind in database_types(COLUMNS).items())
    with closing(sqlite3.connect(other)) as connection:
        connection.execute(f"CREATE TABLE memscope_dump ({definitions}, PRIMARY KEY (ID)) WITHOUT ROWID")
        connection.execute(f"INSERT INTO memscope_dump VALUES ({','.join('?' * len(_NAMES))})", ROW)
        connection.commit()
    original = usual_rows._piece_of
    for path, count in ((usual, 1), (other, 0)):
        taken: list[object] = []

        def noted(found: dict[str, Any], taken: list[object] = taken) -> Any:
            taken.append(found)
            return original(found)

        monkeypatch.setattr(usual_rows, "_piece_of", noted)
        assert isinstance(read(path, patiently=False), Content)
        assert len(taken) == count
        monkeypatch.undo()
