"""The text of source lines that is kept beside an event log."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.log_folder import SOURCE_LINES_FILE
from msmemscope.formats.event_log.source_texts import read_source_lines, source_lines_text
from msmemscope.formats.reading import load
from tests.fakes.event_log_builder import EventLogBuilder

if TYPE_CHECKING:
    from pathlib import Path


def program(tmp_path: Path) -> Path:
    """A program of three lines, older than its run."""
    path = tmp_path / "train.py"
    path.write_text("import torch\n    kept = torch.ones(8)  \nprint(kept)\n", encoding="utf-8")
    os.utime(path, (1, 1))
    return path


def run_of(tmp_path: Path, *files: str, line: int = 2) -> Path:
    """A capture with a block for each file."""
    log = EventLogBuilder(tmp_path / "runs", header_fields={"start_ns": 1_700_000_000_000_000_000})
    for number, file in enumerate(files, 1):
        log.malloc(0x1000 * number, 64, python_stack_id=log.python_stack((log.code(file, "main", line), 0)))
    return log.write()


def test_lines_that_allocate_are_kept(tmp_path: Path) -> None:
    """Without the blanks around them; libraries, files that are gone and what is no source are left out."""
    path = program(tmp_path)
    notes = tmp_path / "notes.txt"
    notes.write_text("a\nb\n")
    library = "/usr/lib/python3/site-packages/torch/nn/functional.py"
    capture = run_of(tmp_path, str(path), str(tmp_path / "gone.py"), str(notes), library, "<string>")
    text = source_lines_text(Capture(capture))
    assert text is not None
    assert json.loads(text) == {str(path): {"2": "kept = torch.ones(8)"}}


def test_a_file_that_was_changed_since_is_not_believed(tmp_path: Path) -> None:
    """And neither is a line that it does not have."""
    path = program(tmp_path)
    assert source_lines_text(Capture(run_of(tmp_path, str(path), line=9))) == json.dumps({str(path): {}}) + "\n"
    os.utime(path)
    assert source_lines_text(Capture(run_of(tmp_path, str(path)))) is None


def test_they_are_kept_once(tmp_path: Path) -> None:
    """The run's end notes them; who recovers a run later finds other lines there."""
    path = program(tmp_path)
    capture = run_of(tmp_path, str(path))
    assert main(["recover", str(capture)]) == 0
    assert load(capture).source_texts == {(str(path), 2): "kept = torch.ones(8)"}
    path.write_text("\nx = 1\n", encoding="utf-8")
    os.utime(path, (1, 1))
    assert main(["recover", str(capture), "--data-format=db"]) == 0
    assert load(capture).source_texts == {(str(path), 2): "kept = torch.ones(8)"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "1",
        '{"a": 1}',
        '{"a": {"x": "y", "-1": "z", "3": 4, "99999999999999": "w"}}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_damaged_file_says_nothing(content: str, tmp_path: Path) -> None:
    """The recording is read all the same."""
    capture = run_of(tmp_path, "/gone/train.py")
    (capture / "event_log" / SOURCE_LINES_FILE).write_bytes(content.encode("utf-8", "surrogateescape"))
    assert read_source_lines((capture / "event_log" / SOURCE_LINES_FILE).read_bytes()) == {}
    assert load(capture).source_texts == {}


def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    """A recording can come from anybody."""
    capture = run_of(tmp_path, "/gone/train.py")
    os.mkfifo(capture / "event_log" / SOURCE_LINES_FILE)
    assert Capture(capture).log.source_lines() == b""
    assert load(capture).source_texts == {}


def test_archives_have_them_too(tmp_path: Path) -> None:
    """And the folder that is made of one again; one without them has no such member."""
    path = program(tmp_path)
    capture = run_of(tmp_path, str(path))
    assert main(["export", str(capture), "--to=archive", "-o", str(tmp_path / "before")]) == 0
    assert load(tmp_path / "before").source_texts == {}
    assert main(["recover", str(capture)]) == 0
    known = load(capture).source_texts
    assert known
    assert main(["export", str(capture), "--to=archive", "-o", str(tmp_path / "after")]) == 0
    assert load(tmp_path / "after").source_texts == known
    shutil.rmtree(capture)
    (tmp_path / "after").rename(capture.parent / "after")
    assert main(["recover", str(capture.parent / "after")]) == 0
    assert load(capture).source_texts == known
