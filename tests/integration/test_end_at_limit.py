"""A program that needs more than its control group may have: its summary names what filled the memory, and who holds it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from msmemscope.launch.ended_by import end_noted
from tests.support import tool

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

LIMIT: Final = 192 << 20
PROGRAM: Final = """
import time
class Cache:
    def __init__(self):
        self.answers = {}
cache = Cache()
for request in range(20_000):
    cache.answers[request] = str(request).zfill(60_000)
    time.sleep(0.0005)
"""
_HIERARCHIES: Final = Path("/sys/fs/cgroup")


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory; skips where this user may make none."""
    first = (_HIERARCHIES / "memory").is_dir()
    folder = (_HIERARCHIES / "memory" if first else _HIERARCHIES) / f"msmemscope_test_{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        try:
            (folder / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(LIMIT), encoding="ascii")
        except OSError as error:
            pytest.skip(f"a control group cannot be given a limit: {error}")
        yield folder
    finally:
        folder.rmdir()


def test_what_filled_the_memory_is_named(tmp_path: Path, group: Path) -> None:
    """Also where nobody is left who saw the end: the log says how near the limit was."""
    program = tmp_path / "serve.py"
    program.write_text(PROGRAM)
    output = tmp_path / "out"
    command = [*map(str, tool.TOOL), f"--output={output}", sys.executable, str(program)]
    run = tool.run(["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec {shlex.join(command)}"], output=output)
    (capture,) = run.captures
    filled = "Python objects"
    said = " ".join(run.stderr.split())
    assert "out of memory on cpu: the kernel ended the process, its control group may have 192 MiB; it had 1" in said
    assert f"MiB of {filled}" in said
    assert "held by Cache.answers, from __main__.cache (dict of int to str" in said
    assert end_noted(capture.log).signal_name == "SIGKILL"
    for note in capture.directory.rglob("ended_by"):
        note.unlink()
    summary = tool.run([*tool.TOOL, "summary", output], output=output)
    lost = " ".join(summary.stdout.split())
    assert "out of memory on cpu: the process was lost when its control group used 1" in lost
    assert "of 192 MiB; it had 1" in lost
    assert f"MiB of {filled}" in lost
    assert "next: msmemscope analyze host" in lost
