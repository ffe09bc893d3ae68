"""Texts that a spreadsheet would take for formulas are shown as text, and are what they were when they are read again."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope import load
from msmemscope.configuration import Config, DataFormat
from msmemscope.formats.dump import write_dumps
from msmemscope.formats.dump.csv_writer import cell_of
from msmemscope.formats.event_log import Capture
from msmemscope.model.cell_texts import cell_of_text, text_of_cell
from tests.fakes.event_log_builder import ATEN_START, MARK, EventLogBuilder
from tests.support.nightly import examples

FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-1+1",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\uff1d1",
    "'=1",
    "''@1",
    "' +1",
]
HARMLESS = ["aten.add", "N/A", "", "'", "''", "'text", "a=1", "(=1)", '"=1"', "1-2", "5", "/home/me/=.py(1): f"]
texts = st.lists(st.sampled_from([*"'=+-@ \t\r\n\"a1", "\uff1d"]), max_size=6).map("".join) | st.text(max_size=6)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_marked_as_text(text: str) -> None:
    """By an apostrophe in front of it."""
    assert cell_of_text(text) == f"'{text}"


@pytest.mark.parametrize("text", HARMLESS)
def test_other_texts_are_written_as_they_are(text: str) -> None:
    """So that files of most programs look as they always did."""
    assert cell_of_text(text) == text


@given(texts)
def test_reading_takes_away_what_writing_added(text: str) -> None:
    """Whatever the text is, apostrophes of its own included."""
    assert text_of_cell(cell_of_text(text)) == text


@given(st.lists(texts, max_size=5))
def test_columns_are_written_like_single_texts(column: list[str]) -> None:
    """Polars and Python have the same idea of a formula."""
    cells = pl.Series("text", column, dtype=pl.String).to_frame().select(cell_of(pl.col("text"))).to_series()
    assert cells.to_list() == [cell_of_text(text) for text in column]


def cells_of(path: Path) -> list[str]:
    """All cells of a CSV file."""
    return [cell for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")) for cell in row]


# The recorder writes control characters as escapes, and older tools leave quotes around names.
names_of_programs = texts.filter(lambda text: text.strip('"') == text and not re.search(r"[\x00-\x08\x0b-\x1f]", text))


@examples(by_day=25)
@given(st.lists(names_of_programs, min_size=1, max_size=4), st.sampled_from(DataFormat))
def test_names_and_stacks_survive_a_dump(names: list[str], data_format: DataFormat) -> None:
    """Operators, marks and files of any name are read back as they were recorded, and no cell of the file is a formula."""
    with tempfile.TemporaryDirectory() as root:
        builder = EventLogBuilder(Path(root))
        for name in names:
            stack = builder.python_stack((builder.code(f"{name}.py", "f", 1), 0))
            builder.add(ATEN_START, name_id=builder.string(name), python_stack_id=stack)
            builder.add(MARK, name_id=builder.string(name))
        log = load(builder.write())
        files = write_dumps(Capture(builder.directory), Config(output=root, data_format=data_format, python_stack=True))
        dump = load((*files.csv_files, *files.db_files)[0])
        if files.csv_files:
            assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells_of(files.csv_files[0]))
    for texts_of, column in (("strings", "name_id"), ("python_stacks", "python_stack_id")):
        found = []
        for recording in (dump, log):
            table = dict(getattr(recording, texts_of).rows())
            found.append([table.get(number, "") for number in recording.events[column].to_list()])
        assert found[0] == found[1]
