"""A process that records is told to stop, to begin again, and to record more; the program does not notice."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.cli.main import main
from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from tests.support import tool
from tests.support.targets import SOURCES, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.recording import Recording

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("tracing")]

PROGRAM = SOURCES / "attached.py"


@contextlib.contextmanager
def observed(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The training program under the tool; the process is that of the launcher."""
    command = [*map(str, tool.TOOL), f"--output={folder}", *options, sys.executable, str(PROGRAM), "training"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "ready\n"
        try:
            yield launcher
        finally:
            launcher.kill()


def control(number: int, folder: Path, *words: str) -> str:
    """Tell a process, and return what is said."""
    run = tool.run([*tool.TOOL, "control", str(number), *words], output=folder)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    return run.stderr


def recorded(launcher: subprocess.Popen[str], folder: Path) -> Recording:
    """End the program, and read what it has recorded."""
    _, errors = launcher.communicate("\n", timeout=120)
    assert launcher.returncode == 0, errors
    (capture,) = folder.glob("msmemscope_*_ascend")
    return load(capture)


def test_collection_is_turned_off_and_on(tmp_path: Path) -> None:
    """By the number of the launcher, which stands for the process that records; a snapshot is a row."""
    with observed(tmp_path) as launcher:
        time.sleep(1.5)
        assert "done in process" in control(launcher.pid, tmp_path, "stop")
        control(launcher.pid, tmp_path, "snapshot")
        time.sleep(1.5)
        control(launcher.pid, tmp_path, "start")
        time.sleep(1.5)
        events = recorded(launcher, tmp_path).events
    counts = {
        kind: events.filter(pl.col("kind") == kind).height
        for kind in (EventKind.STOP_TRACE, EventKind.START_TRACE, EventKind.SNAPSHOT)
    }
    assert counts == {EventKind.STOP_TRACE: 1, EventKind.START_TRACE: 1, EventKind.SNAPSHOT: 1}
    stopped, started = (
        events.filter(pl.col("kind") == kind)["timestamp_ns"][0]
        for kind in (EventKind.STOP_TRACE, EventKind.START_TRACE)
    )
    allocations = events.filter(pl.col("kind") == EventKind.MALLOC)["timestamp_ns"]
    assert allocations.filter((allocations > stopped) & (allocations < started)).is_empty()
    assert (allocations < stopped).any()
    assert (allocations > started).any()


def test_a_program_that_waits_for_its_start_begins(tmp_path: Path) -> None:
    """It has recorded nothing until then."""
    with observed(tmp_path, "--collect-mode=deferred") as launcher:
        time.sleep(1.5)
        (child,) = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text(encoding="ascii").split()
        control(int(child), tmp_path, "start")
        time.sleep(1.5)
        assert recorded(launcher, tmp_path).blocks.height


def test_more_is_recorded_from_then_on(tmp_path: Path) -> None:
    """Accesses, for example; the losses are those of a run that nobody told anything."""
    with observed(tmp_path, "--events=alloc,free") as launcher:
        time.sleep(1.5)
        control(launcher.pid, tmp_path, "set", "events=alloc,free,launch,access")
        time.sleep(2)
        kinds = recorded(launcher, tmp_path).events["kind"]
    assert kinds.is_in([EventKind.ACCESS_READ, EventKind.ACCESS_WRITE]).any()


def test_orders_while_torch_is_imported(tmp_path: Path) -> None:
    """The thread that imports torch, and ours, each need a lock that the other one holds."""
    command = [*map(str, tool.TOOL), f"--output={tmp_path}", sys.executable, str(PROGRAM), "training"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as run:
        try:
            children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
            while not (words := children.read_text(encoding="ascii").split()):
                time.sleep(0.01)
            maps = Path(f"/proc/{words[0]}/maps")
            while "libtorch_cpu.so" not in maps.read_text(encoding="utf-8"):
                time.sleep(0.01)
            for order in ("stop", "start", "snapshot"):
                control(int(words[0]), tmp_path, order)
            run.communicate("\n", timeout=60)
            assert run.returncode == 0
        finally:
            run.kill()


def test_another_thread_may_begin_and_stop_at_any_moment(tmp_path: Path) -> None:
    """The mode that sees operators of the main thread comes and goes between its operators; the losses are the same."""
    program = str(SOURCES / "toggled.py")
    alone = tool.run([sys.executable, program], output=tmp_path)
    toggled = tool.run([sys.executable, program, tmp_path / "out"], output=tmp_path / "out")
    assert toggled.returncode == 0, toggled.stderr
    assert toggled.stdout == alone.stdout
    assert "mode=None" in alone.stdout


def test_a_program_that_does_not_record_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says how it is recorded."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment()) as program:
        try:
            assert main(["control", str(program.pid), "stop"]) == 2
        finally:
            program.kill()
    assert "is not observed, nor is any that it has started" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no", "stop"], "PID: is no number of a process: 'no'"),
        (["1", "pause"], "invalid choice: 'pause'"),
        (["1", "set"], "OPTION=VALUE: is needed for set"),
        (["1", "stop", "events=alloc"], "OPTION=VALUE: is not for stop: 'events=alloc'"),
        (["1", "set", "output=elsewhere"], "OPTION=VALUE: cannot be set in a process that runs: 'output=elsewhere'"),
        (["1", "set", "level=everything"], "--level: not a level: 'everything'"),
    ],
)
def test_bad_input_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is done to any process."""
    assert main(["control", *words]) == 2
    assert said in capsys.readouterr().err
