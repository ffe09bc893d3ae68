"""Files of watched memory where the disk is full: writing them ends, and neither the program nor the watching does."""

from __future__ import annotations

import csv
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.nightly import nightly
from tests.support.small_disk import small_disk
from tests.support.watching import changes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

DISK_MIB = 24
TENSOR_BYTES = 4 << 20
LINE = "no more is written of watched memory, changes are still looked for"
VERDICT = "Files of watched memory are incomplete: nothing more was written after"

PROGRAM = """
import ctypes, signal, sys
import torch
import msmemscope

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # ends the process where Python would have an OSError
victim = torch.ones(ELEMENTS)
msmemscope.watcher.watch(victim, name="victim")
x = torch.ones(8)
BEFORE
for _ in range(10):
    x.sin()
ctypes.memset(victim.data_ptr() + 128, 0xa5, 128)
x.cos()
print("finished")
"""
# Somebody takes all that is left of the disk; some more rows fit into the last page of the table.
FILL = """
x.sin()
with open(sys.argv[1] + "/filler", "wb", buffering=0) as filler:
    page = bytes(4096)
    try:
        while filler.write(page):
            pass
    except OSError as error:
        print("full", error.errno)
for _ in range(200):
    x.sin()
"""


@pytest.fixture
def on_small_disk(tmp_path: Path) -> tuple[list[str], Path, Path]:
    """A prefix of a command line that runs it on a small disk, the disk's folder, and where its content is copied."""
    return small_disk(tmp_path, DISK_MIB << 10)


def program(tmp_path: Path, before: str = "", tensor_bytes: int = TENSOR_BYTES) -> Path:
    """Write a program that watches a tensor, runs 10 operators, and then writes where no operator did."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("ELEMENTS", str(tensor_bytes // 4)).replace("BEFORE", before))
    return path


def assert_the_program_went_on(run: tool.ToolRun) -> None:
    """Assert that the program ended as it does, and that one line and the verdict say what is missing."""
    assert run.returncode == 0, run.stderr
    assert "finished" in run.stdout
    assert run.stderr.count(LINE) == 1, run.stderr
    said = " ".join(run.stderr.split())
    # A full disk may end the event log first. Then it has no room for that fact, and its own end is what is said.
    if "recording stopped early: No space left on device" in said:
        return
    assert VERDICT in said
    again = tool.run((*tool.TOOL, "analyze", "watch", run.capture.directory), output=run.output)
    assert VERDICT in " ".join(again.stdout.split())


def assert_the_wrong_write_was_found(run: tool.ToolRun) -> None:
    """Assert that changes were looked for after the files had ended."""
    assert "outside of any operator, between aten.sin.default" in " ".join(run.stderr.split())
    wrong = [change for change in changes(run.capture) if change.is_unexpected]
    assert [change.attributes["first"] for change in wrong] == ["128"]


def test_contents_leave_room_for_the_event_log(tmp_path: Path, on_small_disk: tuple[list[str], Path, Path]) -> None:
    """Whole contents until the disk is nearly full, and then none."""
    prefix, disk, copy = on_small_disk
    options = ("--device=cpu", f"--output={disk / 'output'}", "--watch=torch._ops.aten.cos.default,full-content")
    run = tool.run([*prefix, *tool.TOOL, *options, sys.executable, program(tmp_path)], output=copy / "output")
    assert_the_program_went_on(run)
    assert_the_wrong_write_was_found(run)
    assert "kept free for the event log" in run.stderr
    contents = list((copy / "output" / "watch_dump").glob("*.bin"))
    assert 2 <= len(contents) < DISK_MIB * (1 << 20) / TENSOR_BYTES
    assert {content.stat().st_size for content in contents} == {TENSOR_BYTES}


def test_a_table_on_a_full_disk_has_whole_rows(tmp_path: Path, on_small_disk: tuple[list[str], Path, Path]) -> None:
    """Somebody else filled the disk meanwhile, which ends the event log too: the row that did not fit is not there in part."""
    prefix, disk, copy = on_small_disk
    options = ("--device=cpu", f"--output={disk / 'output'}")
    line = [*prefix, *tool.TOOL, *options, sys.executable, program(tmp_path, FILL, 512), disk]
    run = tool.run(line, output=copy / "output")
    assert "full 28" in run.stdout, run.stderr
    assert_the_program_went_on(run)
    assert "the table of checksums: No space left on device" in run.stderr
    (table,) = (copy / "output" / "watch_dump").glob("*.csv")
    text = table.read_text()
    assert text.endswith("\n")
    rows = list(csv.reader(text.splitlines()))
    assert len(rows) > 2
    assert all(len(row) == 2 for row in rows)
    assert all(len(checksum) == 16 for _, checksum in rows[1:])


def test_a_limit_on_the_size_of_files_does_not_end_the_program(tmp_path: Path) -> None:
    """A file that may not grow raises a signal, which ends the program; a content that is too large is not begun."""
    output = tmp_path / "output"
    options = ("--device=cpu", f"--output={output}", "--watch=torch._ops.aten.cos.default,full-content")
    limited = ["bash", "-c", f'ulimit -f {DISK_MIB * 1024}; exec "$@"', "limited"]
    path = program(tmp_path, tensor_bytes=(DISK_MIB + 1) << 20)
    run = tool.run([*limited, *tool.TOOL, *options, sys.executable, path], output=output)
    assert run.returncode != -signal.SIGXFSZ
    assert_the_program_went_on(run)
    assert_the_wrong_write_was_found(run)
    assert "File too large" in run.stderr
    assert list((output / "watch_dump").iterdir()) == []


@nightly
def test_the_limit_of_the_option_is_said(tmp_path: Path) -> None:
    """`--watch-max-size` ends the writing likewise."""
    output = tmp_path / "output"
    most = f"--watch-max-size={2 * TENSOR_BYTES}"
    options = ("--device=cpu", f"--output={output}", "--watch=torch._ops.aten.cos.default,full-content", most)
    run = tool.run([*tool.TOOL, *options, sys.executable, program(tmp_path)], output=output)
    assert_the_program_went_on(run)
    assert_the_wrong_write_was_found(run)
    assert f"nothing more was written after 8.00 MiB ({most} bytes would be exceeded)" in " ".join(run.stderr.split())
    contents = list((output / "watch_dump").glob("*.bin"))
    assert [content.stat().st_size for content in contents] == [TENSOR_BYTES] * 2
