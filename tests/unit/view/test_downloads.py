"""Files that are saved against the pages of the same table: every row, in the same order, with the same texts."""

from __future__ import annotations

import io
import json
import resource
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmemscope.errors import MsmemscopeError
from msmemscope.view import downloads
from msmemscope.view.answers import Answers
from msmemscope.view.downloads import Rows, download
from msmemscope.view.parameters import Parameters
from msmemscope.view.queries.tables import TABLES, Page, hexadecimal, table_page
from tests.fakes.traces import Trace
from tests.support.nightly import NIGHT
from tests.support.random_traces import recordings
from tests.unit.view.viewed import viewed

if TYPE_CHECKING:
    from msmemscope.recording import Recording


@settings(max_examples=settings().max_examples if NIGHT else 20)
@given(recordings, st.data())
def test_a_file_has_the_rows_of_the_pages(recording: Recording, data: st.DataObject) -> None:
    """However many pieces it is made of, filtered, sorted or not."""
    process = viewed(recording)
    table = data.draw(st.sampled_from(sorted(TABLES)))
    asked = {
        "sort": data.draw(st.sampled_from(["", "size", "address"])),
        "descending": data.draw(st.sampled_from("01")),
        "filter": data.draw(st.sampled_from(["", json.dumps({"size": {"least": 4000}})])),
        "search": data.draw(st.sampled_from(["", "aten"])),
    }
    page = Page(table, 0, 1000, asked["sort"] or None, asked["descending"] == "1", asked["filter"], asked["search"])
    expected = table_page(process, page).table
    with patch.object(downloads, "PIECE_ROWS", data.draw(st.sampled_from([1, 2, 7, 100]))):
        parquet, csv = (
            Answers([process]).download(Parameters({"what": table, "format": file_format, **asked}))
            for file_format in ("parquet", "csv")
        )
        content = b"".join(parquet.content)
        assert pl.read_parquet(io.BytesIO(content)).equals(expected)
        assert parquet.byte_count == len(content)
        assert b"".join(csv.content).decode() == expected.write_csv()


def test_only_what_is_sent_is_made() -> None:
    """A file of many rows is not held: its pieces are made when they are asked for."""
    asked: list[tuple[int, int]] = []

    def part(begin: int, end: int) -> pl.DataFrame:
        asked.append((begin, end))
        return pl.DataFrame({"row": np.arange(begin, end)})

    rows = Rows(10 * downloads.PIECE_ROWS, part)
    content = download("rows", "csv", rows).content
    next(content)
    assert asked == [(0, downloads.PIECE_ROWS)]
    file = b"".join(download("rows", "parquet", rows).content)
    assert pl.read_parquet(io.BytesIO(file))["row"].to_list() == list(range(rows.count))


def test_a_file_without_rows_has_its_columns() -> None:
    """In both forms."""
    rows = Rows.of(pl.DataFrame(schema={"block": pl.Int64(), "owner": pl.String()}))
    assert b"".join(download("rows", "csv", rows).content) == b"block,owner\n"
    file = b"".join(download("rows", "parquet", rows).content)
    assert pl.read_parquet(io.BytesIO(file)).schema == {"block": pl.Int64(), "owner": pl.String()}


def test_a_file_that_has_no_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its folder and what helps; nothing of it stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(MsmemscopeError, match=f"the file cannot be made in {tmp_path}: File too large") as raised:
            download("rows", "parquet", Rows.of(pl.DataFrame({"row": np.random.default_rng(1).random(10_000)})))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.hint == "make room there, or set TMPDIR to another folder"
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_read_to_its_end_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is removed before it is sent."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    next(download("rows", "parquet", Rows.of(pl.DataFrame({"row": [1]}))).content)
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.integers(0, (1 << 64) - 1) | st.sampled_from([0, 1, 15, 16, 65535, 65536, 1 << 32, (1 << 64) - 1])))
def test_hexadecimal_texts(values: list[int]) -> None:
    """As Python writes them, a column at once."""
    assert hexadecimal(np.array(values, dtype=np.uint64)).to_list() == [hex(value) for value in values]


def test_many_rows_with_few_texts_are_made_presentable_like_few_rows() -> None:
    """Texts of all rows, and those of one row."""
    trace = Trace()
    for number in range(40):
        trace.malloc(512, f"/a\u202e.py({number % 3}): f")
    process = viewed(trace.recording())
    every = table_page(process, Page("blocks", 0, 1000)).table
    ones = pl.concat([table_page(process, Page("blocks", number, 1)).table for number in range(every.height)])
    assert ones.equals(every)
    assert every["site"][0] == "/a\ufffd.py(0): f"


def test_a_difference_has_all_its_groups() -> None:
    """The page names the largest ones; the file is the whole answer."""
    trace = Trace()
    for line in range(700):
        trace.malloc(512 * (line + 1), f"/home/me/train.py({line + 1}): load")
    answers = Answers([viewed(trace.recording())])
    asked = {"row": "-1", "other_row": "699", "by": "site"}
    page = answers.by_name["difference"](Parameters(asked))
    assert (page.table.height, page.info["more"]["groups"]) == (500, 200)
    file = answers.download(Parameters({**asked, "what": "difference", "format": "parquet"}))
    rows = pl.read_parquet(io.BytesIO(b"".join(file.content)))
    assert rows.head(500).equals(page.table)
    assert rows["difference"].to_list() == [512 * (700 - number) for number in range(700)]
