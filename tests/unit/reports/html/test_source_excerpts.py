"""Lines of source around a blamed line: read with care, and honest about what cannot be shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from msmemscope.reports.html.source_excerpts import LINES_AROUND, SourceExcerpt, SourceExcerpts


def excerpt(site: str, began_ns: int = 0) -> SourceExcerpt:
    """The excerpt around one call site."""
    excerpts = SourceExcerpts(began_ns)
    number = excerpts.number(site)
    assert number == 0
    return excerpts.excerpts[0]


def test_the_lines_around_the_blamed_one_are_shown(tmp_path: Path) -> None:
    """With tabs as blanks; letters that steer are replaced."""
    file = tmp_path / "train.py"
    lines = [f"line {number}" for number in range(1, 21)]
    lines[9] = "\tkept.append(loss)  # \u202e<script>\x1b[31m"
    file.write_text("\n".join(lines), encoding="utf-8")
    found = excerpt(f"{file}(10): keep")
    assert found.first_line == 10 - LINES_AROUND
    assert len(found.lines) == 2 * LINES_AROUND + 1
    assert (
        found.lines[LINES_AROUND]
        == "    kept.append(loss)  # \N{REPLACEMENT CHARACTER}<script>\N{REPLACEMENT CHARACTER}[31m"
    )
    assert not found.note


def test_the_first_line_has_none_before_it(tmp_path: Path) -> None:
    """A module's body is named without a function."""
    file = tmp_path / "train.py"
    file.write_text("one\ntwo\n", encoding="utf-8")
    found = excerpt(f"{file}(1)")
    assert (found.first_line, found.lines) == (1, ("one", "two", ""))


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    """No file, no such line, no source text, no regular file."""
    file = tmp_path / "train.py"
    file.write_text("one\n", encoding="utf-8")
    secret = tmp_path / "passwords"
    secret.write_text("secret\n", encoding="utf-8")
    folder = tmp_path / "folder.py"
    folder.mkdir()
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    notes = {
        tmp_path / "gone.py": "could not be read",
        secret: "no file of source text",
        folder: "Is a directory",
        pipe: "no regular file",
    }
    for path, note in notes.items():
        found = excerpt(f"{path}(1): main")
        assert note in found.note, path
        assert found.lines == ()
    assert "has 2 lines now, and no line 7" in excerpt(f"{file}(7): main").note


def test_a_file_that_changed_after_the_run_began_is_remarked(tmp_path: Path) -> None:
    """Its lines may have moved."""
    file = tmp_path / "train.py"
    file.write_text("one\n", encoding="utf-8")
    os.utime(file, ns=(2_000, 2_000))
    assert "was changed after" in excerpt(f"{file}(1): main", 1_000).note
    assert not excerpt(f"{file}(1): main", 3_000).note


def test_a_line_is_read_once(tmp_path: Path) -> None:
    """Call sites that share it have the same number; what is no line has none."""
    file = tmp_path / "train.py"
    file.write_text("one\ntwo\n", encoding="utf-8")
    excerpts = SourceExcerpts()
    assert [excerpts.number(f"{file}({line}): main") for line in (1, 2, 1)] == [0, 1, 0]
    assert excerpts.number("aten.mm") is None
    assert excerpts.number("") is None


@pytest.mark.parametrize("name", ["a\0b.py", "x" * 5000 + ".py", "\udcff.py"])
def test_impossible_names_are_no_error(name: str) -> None:
    """They come from recordings, which may hold anything."""
    assert "could not be read" in excerpt(f"{name}(1): main").note
