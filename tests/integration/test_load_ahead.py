"""If the program records something, modules for results are loaded while it still runs. Signals still reach it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from msmemscope.launch.load_ahead import FIRST_LOOK_S
from tests.support.targets import environment
from tests.support.tool import TOOL

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

RECORDS = """
import signal, sys, time
import msmemscope
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
msmemscope.start()
msmemscope.describe.describer(owner="a").__enter__()
print("running", flush=True)
time.sleep(60)
"""
RECORDS_NOTHING = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("running", flush=True)
time.sleep(60)
"""


@pytest.fixture
def launcher(request: pytest.FixtureRequest, output: Path) -> Iterator[subprocess.Popen[str]]:
    """A launcher whose program runs."""
    line = [*TOOL, "--device=cpu", f"--output={output}", "--", sys.executable, "-c", request.param]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        yield process
        process.send_signal(signal.SIGTERM)  # passed on: the program ends, too


def has_loaded_polars(process_id: int) -> bool:
    """Whether a process has mapped the library of Polars."""
    return "_polars_runtime" in Path(f"/proc/{process_id}/maps").read_text()


@pytest.mark.parametrize("launcher", [RECORDS], indirect=True)
def test_all_is_there_before_the_program_ends(launcher: subprocess.Popen[str]) -> None:
    """And a signal to the launcher reaches the program from then on, too; its status is that of the launcher."""
    assert not has_loaded_polars(launcher.pid)
    deadline = time.monotonic() + 60
    while not has_loaded_polars(launcher.pid):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert launcher.poll() is None
    launcher.send_signal(signal.SIGTERM)
    _, words = launcher.communicate(timeout=60)
    assert launcher.returncode == 7, words
    assert "report.txt" in words


@pytest.mark.parametrize("launcher", [RECORDS_NOTHING], indirect=True)
def test_nothing_is_loaded_for_a_program_that_records_nothing(launcher: subprocess.Popen[str]) -> None:
    """However long it runs."""
    time.sleep(FIRST_LOOK_S + 1)
    assert not has_loaded_polars(launcher.pid)
    launcher.send_signal(signal.SIGTERM)
    _, words = launcher.communicate(timeout=60)
    assert launcher.returncode == 7, words


def test_nothing_is_loaded_where_memory_is_limited(output: Path) -> None:
    """OpenBLAS ends a process that cannot load it: the launcher outlives the program, whose status it returns."""
    line = [*TOOL, "--device=cpu", f"--output={output}", "--", sys.executable, "-c", RECORDS]
    limited = ["bash", "-c", 'ulimit -v 350000; exec "$@"', "bash", *map(str, line)]
    with subprocess.Popen(
        limited, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        time.sleep(FIRST_LOOK_S + 2)
        assert process.poll() is None
        assert not has_loaded_polars(process.pid)
        process.send_signal(signal.SIGTERM)  # passed on: the program ends, too
