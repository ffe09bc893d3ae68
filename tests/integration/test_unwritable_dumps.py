"""Dumps that cannot be written when a program has ended: one line says so, and nothing else suffers."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.model.events import EventKind
from tests.support import tool
from tests.support.recordings import assert_sound, count, events_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import BuildTarget, RunUnderTool
    from tests.support.tool import ToolRun

ALLOCATIONS = 20_000

# The launcher, which is to write the dumps, may write no file beyond a size. Its child has what it had before.
LIMITING = """
import os, resource, sys
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.prlimit(os.getppid(), resource.RLIMIT_FSIZE, (100_000, hard))
os.execv(sys.argv[1], sys.argv[1:])
"""


def error_lines(run: ToolRun) -> list[str]:
    """The lines that say what failed."""
    return [line for line in run.stderr.splitlines() if line.startswith("msmemscope: error: ")]


def assert_only_the_dumps_are_missing(run: ToolRun) -> None:
    """Assert that the log is whole, the summary is there, nothing unfinished lies about, and `recover` makes up for it."""
    events = events_of(run.capture)
    assert_sound(events)
    assert count(events, EventKind.MALLOC) == int(run.report["allocs"]) == ALLOCATIONS
    assert "event_log (no dump files were written)" in run.stderr
    assert "Traceback" not in run.stderr
    assert not [*run.output.rglob("*.partial*"), *run.output.rglob("memscope_dump_*")]


def assert_recover_writes_them(run: ToolRun) -> None:
    """Assert that the dumps can be written once what was in the way is gone."""
    again = tool.run([*tool.TOOL, "recover", run.output], output=run.output)
    assert (again.returncode, error_lines(again)) == (0, [])
    (dump,) = run.capture.directory.glob("device_cpu/dump/memscope_dump_*")
    assert dump.stat().st_size > 100_000


@pytest.mark.parametrize("data_format", ["csv", "db"])
def test_no_room_for_the_dump(build_target: BuildTarget, run_under_tool: RunUnderTool, data_format: str) -> None:
    """A limit on the size of files stands for a full disk: the signal that comes with it does no harm either."""
    command = [sys.executable, "-c", LIMITING, build_target("alloc_free"), str(ALLOCATIONS)]
    run = run_under_tool(command, f"--data-format={data_format}")
    assert run.returncode == 0, run.stderr
    (line,) = error_lines(run)
    written = rf"msmemscope: error: \S+/memscope_dump_\d+\.{data_format} cannot be written: File too large"
    assert re.fullmatch(written, line)
    assert run.stderr.splitlines()[run.stderr.splitlines().index(line) + 1].startswith("hint: make room")
    assert_only_the_dumps_are_missing(run)
    assert_recover_writes_them(run)


def test_a_file_where_the_folder_of_the_dumps_belongs(
    build_target: BuildTarget, run_under_tool: RunUnderTool, output: Path
) -> None:
    """The program's own status is kept, and the line says which folder it is."""
    script = f'"$@"; for capture in {output}/msmemscope_*; do echo mine > "$capture/device_cpu"; done; exit 3'
    run = run_under_tool(["bash", "-c", script, "script", build_target("alloc_free"), str(ALLOCATIONS)])
    assert run.returncode == 3, run.stderr
    folder = run.capture.directory / "device_cpu"
    assert error_lines(run) == [
        f"msmemscope: error: folder {folder} cannot be used: it is a symbolic link or no folder"
    ]
    assert_only_the_dumps_are_missing(run)
    assert folder.read_text(encoding="utf-8") == "mine\n"
    folder.unlink()
    assert_recover_writes_them(run)
