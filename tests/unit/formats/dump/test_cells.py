"""Rows as native code writes them, against SQLite and a plain reader of CSV files."""

from __future__ import annotations

import csv
import io
import os
import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from msmemscope import _native
from msmemscope.formats.dump.cells import Part, TableRows, TextCells, TextsByKey, decimal, hexadecimal

if TYPE_CHECKING:
    from pathlib import Path

MOST = 1 << 40
INTEGERS = (0, 1, 2, 127, 128, 32767, 32768, 1 << 23, (1 << 31) - 1, 1 << 31, (1 << 47) - 1, 1 << 47, (1 << 63) - 1)
LENGTHS = (0, 1, 57, 58, 100, 3900, *range(4030, 4075), 4096, 8192, 20000, 200_000)
"""Of texts: around what a page holds, and where the length takes another byte."""


def texts_of(texts: list[str | None], *, is_csv: bool) -> TextCells:
    """A column of texts, each with a key of its own."""
    known = {place + 1: text for place, text in enumerate(texts) if text is not None}
    return TextCells(((TextsByKey.of(known, is_csv=is_csv).part(np.arange(1, len(texts) + 1)),),))


def csv_of(columns: list[np.ndarray | TextCells], count: int, most_bytes: int = MOST) -> list[list[str]]:
    """The rows as a reader of CSV files has them."""
    content, begin = b"", 0
    part: Any
    while begin < count:
        part, begin = _native.csv_rows(columns, count, None, begin, most_bytes)
        content += bytes(part)
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def database_of(
    path: Path, columns: list[np.ndarray | TextCells], count: int, most_bytes: int = MOST
) -> list[tuple[Any, ...]]:
    """The rows, and an integrity check of SQLite."""
    writer = _native.DatabaseWriter()
    names = ", ".join(f'"{place}"' for place in range(len(columns)))
    table = writer.add_table("rows", f'CREATE TABLE "rows" ({names})')
    empty = writer.add_table("empty", 'CREATE TABLE "empty" ("a" TEXT)')
    assert (table, empty) == (0, 1)
    begin = 0
    content: Any
    with path.open("wb") as file:
        while begin < count:
            content, begin = writer.put_rows(table, columns, count, None, begin, most_bytes)
            file.write(memoryview(content))
        content, first = writer.finish()
        file.write(memoryview(content))
        file.seek(0)
        file.write(first)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM empty").fetchone() == (0,)
        return connection.execute("SELECT rowid, * FROM rows ORDER BY rowid").fetchall()


@pytest.mark.parametrize("most_bytes", [1, MOST])
def test_rows_of_all_sizes_in_a_database(tmp_path: Path, most_bytes: int) -> None:
    """Rows that fit into a page, that just do not, and that go on over many pages."""
    rng = random.Random(5)  # noqa: S311 - the same each time
    texts: list[str | None] = [chr(97 + rng.randrange(26)) * length for length in LENGTHS] * 3
    numbers = np.array([rng.choice(INTEGERS) for _ in texts], dtype=np.uint64)
    rows = database_of(tmp_path / "dump.db", [numbers, texts_of(texts, is_csv=False)], len(texts), most_bytes)
    assert rows == [(place + 1, int(numbers[place]), text) for place, text in enumerate(texts)]


def test_many_rows_in_a_database(tmp_path: Path) -> None:
    """So many that pages lead to pages that lead to pages; numbers that SQLite has no room for are none."""
    count = 300_000
    numbers = np.arange(count, dtype=np.uint64) << np.uint64(40)
    cells = TextCells(((decimal(np.arange(count)).between("<" * 90),),))
    rows = database_of(tmp_path / "dump.db", [numbers, cells], count)
    expected = [(row + 1, row << 40 if row << 40 < 1 << 63 else None, "<" * 90 + str(row)) for row in range(count)]
    assert rows == expected


def test_no_rows_in_a_database(tmp_path: Path) -> None:
    """A table without a row is one empty page."""
    assert database_of(tmp_path / "dump.db", [np.zeros(0, dtype=np.uint64)], 0) == []


@pytest.mark.skipif("MSMEMSCOPE_NIGHTLY" not in os.environ, reason="a gigabyte")
def test_a_database_that_goes_over_the_page_that_sqlite_locks(tmp_path: Path) -> None:
    """The page of byte 2^30 stays empty."""
    count = 1200
    texts = TextsByKey.of({1: "x" * (1 << 20)}, is_csv=False)
    cells = TextCells(((texts.part(np.ones(count, dtype=np.uint8)),),))
    rows = database_of(tmp_path / "dump.db", [cells], count, 16 << 20)
    assert len(rows) == count
    assert {text for _, text in rows} == {"x" * (1 << 20)}


@pytest.mark.parametrize("most_bytes", [1, 100, MOST])
def test_texts_in_csv(most_bytes: int) -> None:
    """Whatever is in a text, a reader finds it again; an empty one is told from none."""
    texts: list[str | None] = ["a", "a,b", 'a "quoted" b', '"', '""', "two\nlines", "a\rb", "", None, "ü,é", "x" * 5000]
    numbers = np.arange(len(texts), dtype=np.uint64)
    columns: list[np.ndarray | TextCells] = [numbers, texts_of(texts, is_csv=True), numbers]
    assert csv_of(columns, len(texts), most_bytes) == [
        [str(place), text or "", str(place)] for place, text in enumerate(texts)
    ]
    content: Any
    content, _ = _native.csv_rows([texts_of(["", None], is_csv=True)], 2, None, 0, MOST)
    assert bytes(content) == b'""\n\n'


def test_parts_of_texts() -> None:
    """Parts are left out where a flag or a text is missing; a row without a part has what stands for it."""
    flags = np.array([True, False, False])
    keys = np.array([1, 2, 0], dtype=np.uint8)
    known = TextsByKey.of({1: 'say "one"', 2: "two"}, is_csv=True)
    signed = np.array([-1, 0, 1], dtype=np.int16)
    first = (Part("flag;").only(flags), known.part(keys).between("<", ">"))
    cells = TextCells((first, (decimal(signed).between("n"),)), np.array([0, 0, 1], dtype=np.uint8))
    addresses = hexadecimal(np.array([0, 255, 1 << 63], dtype=np.uint64)).between("0x").only(~flags)
    pointers = TextCells(((addresses,),), otherwise=(Part("N/A"),))
    process = np.broadcast_to(np.array([7], dtype=np.uint32), 3)
    assert csv_of([cells, pointers, process], 3) == [
        ['flag;<say "one">', "N/A", "7"],
        ["<two>", "0x00000000000000ff", "7"],
        ["n1", "0x8000000000000000", "7"],
    ]


def test_chosen_rows() -> None:
    """Only some rows, and numbers that lie apart in memory."""
    numbers = np.arange(20, dtype=np.uint32).reshape(10, 2)[:, 1]
    content: Any
    rows = TableRows([numbers], 10).only(numbers % 3 == 0)
    content, end = _native.csv_rows(*rows.described(), 0, MOST)
    assert bytes(content) == b"3\n9\n15\n"
    assert end == rows.height == 3


def test_texts_are_looked_up_once() -> None:
    """Each number once; one that has no text is not asked for again."""
    asked: list[int] = []

    def look_up(fresh: list[int]) -> list[tuple[int, str]]:
        asked.extend(fresh)
        return [(key, f"text {key}") for key in fresh if key != 3]

    texts = TextsByKey(is_csv=True)
    for keys in ([1, 2, 1, 0], [3, 3, 2, 0], [3, 1, 1 << 40, 4]):
        cells = TextCells(((texts.part(np.array(keys, dtype=np.uint64), look_up),),))
        expected = [[f"text {key}"] if key not in (0, 3) else [] for key in keys]
        assert csv_of([cells], 4) == expected
    assert asked == [1, 2, 3, 1 << 40, 4]


def test_columns_that_do_not_fit() -> None:
    """Columns that would read outside of an array are refused."""
    numbers = np.arange(3)
    for columns, count in (([numbers], 4), ([TextCells(((),), np.array([1], dtype=np.uint8))], 1), ([np.zeros(3)], 3)):
        with pytest.raises((ValueError, TypeError)):
            _native.csv_rows(columns, count, None, 0, MOST)
    with pytest.raises(ValueError, match="a row that is none"):
        _native.csv_rows([numbers], 3, np.array([3], dtype=np.uint32), 0, MOST)
