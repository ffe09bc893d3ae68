"""Tables of many rows are the same ones, whether they lie in memory or in files."""

from __future__ import annotations

import gc
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from msmemscope.recording import large_tables
from msmemscope.recording.large_tables import collected_table, filtered_table
from msmemscope.recording.schema import EVENT_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 10_000


def events() -> pl.DataFrame:
    """Numbers in every column of events that differ from row to row and from column to column."""
    row = pl.int_range(ROWS)
    return pl.select(
        ((row * (17 + place) + place) % (100 if kind == pl.UInt8 else 30_000)).cast(kind).alias(name)
        for place, (name, kind) in enumerate(EVENT_SCHEMA.items())
    )


def pieces(table: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Some of several chunks, one of no rows."""
    yield table[:1]
    yield table[1:1]
    yield pl.concat([table[1:4000], table[4000:5000]], rechunk=False)
    yield table[5000:]


def mapped_bytes() -> int:
    """Of files without names."""
    total = 0
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if line.endswith("(deleted)") and "/tmp" in line:
            begin, end = (int(one, 16) for one in line.split()[0].split("-"))
            total += end - begin
    return total


@pytest.fixture
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the tables of a test are large ones."""
    monkeypatch.setattr(large_tables, "MOST_ROWS_IN_MEMORY", 100)
    monkeypatch.setattr(large_tables, "PIECE_ROWS", 777)


@pytest.mark.usefixtures("is_large")
def test_a_large_table_lies_in_files_and_is_the_same() -> None:
    """Its columns are mapped, in one piece, and let go of with it."""
    table, before = events(), mapped_bytes()
    found = collected_table(EVENT_SCHEMA, table.height, lambda: pieces(table))
    assert mapped_bytes() - before >= table.estimated_size()
    assert found.n_chunks() == 1
    assert_frame_equal(found, table)
    chosen = filtered_table(found, pl.col("kind") % 3 == 0)
    del found
    gc.collect()
    # A table made of it does not need it any more, and holds files of its own.
    assert_frame_equal(chosen, table.filter(pl.col("kind") % 3 == 0))
    del chosen
    gc.collect()
    assert mapped_bytes() == before


def test_a_small_table_lies_in_memory() -> None:
    """No file is made for it."""
    table, before = events(), mapped_bytes()
    found = collected_table(EVENT_SCHEMA, table.height, lambda: pieces(table))
    assert mapped_bytes() == before
    assert found.n_chunks() == 1
    assert_frame_equal(found, table)


@pytest.mark.usefixtures("is_large")
@pytest.mark.parametrize("row_count", [0, 101])
def test_no_rows_are_a_table(row_count: int) -> None:
    """A log may have fewer events than were counted while it was still written."""
    found = collected_table(EVENT_SCHEMA, row_count, lambda: iter(()))
    assert_frame_equal(found, EVENT_SCHEMA.to_frame())


@pytest.mark.usefixtures("is_large")
def test_where_no_file_can_be_written_memory_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder is missing."""
    monkeypatch.setattr(large_tables, "_folder", lambda: str(tmp_path / "missing"))
    table = events()
    assert_frame_equal(collected_table(EVENT_SCHEMA, table.height, lambda: pieces(table)), table)


@pytest.mark.usefixtures("is_large")
def test_where_the_disk_is_full_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "w+b", buffering=0))  # noqa: SIM115, PTH123
    table = events()
    assert_frame_equal(collected_table(EVENT_SCHEMA, table.height, lambda: pieces(table)), table)


@pytest.mark.usefixtures("is_large")
def test_the_folder_of_the_user_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TMPDIR counts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # it is remembered from the first time on
    table = events()
    found = collected_table(EVENT_SCHEMA, table.height, lambda: pieces(table))
    assert str(tmp_path) in Path("/proc/self/maps").read_text(encoding="utf-8")
    assert_frame_equal(found, table)


@pytest.mark.usefixtures("is_large")
def test_a_disk_is_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others would have less room left than the files take, memory is taken."""
    table, before = events(), mapped_bytes()
    usage = shutil.disk_usage("/")
    needed = 2 * int(table.estimated_size())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed - 1))
    found = collected_table(EVENT_SCHEMA, table.height, lambda: pieces(table))
    assert mapped_bytes() == before
    assert_frame_equal(found, table)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed))
    found = collected_table(EVENT_SCHEMA, table.height, lambda: pieces(table))
    assert mapped_bytes() > before
    assert_frame_equal(found, table)


@pytest.mark.usefixtures("is_large")
def test_what_is_null_stays_null() -> None:
    """In a damaged dump a cell may be missing."""
    table = events().with_columns(size=pl.when(pl.col("size") % 7 == 0).then(None).otherwise("size"))
    is_chosen = pl.col("kind") % 3 == 0
    assert_frame_equal(filtered_table(table, is_chosen), table.filter(is_chosen))
