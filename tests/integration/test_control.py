"""A process that records is told to stop, to begin again, and to record more; the program does not notice."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.cli.main import main
from msmemscope.formats.reading import load
from msmemscope.launch.attaching.order_files import OrderDesk
from msmemscope.model.events import ACCESS_KINDS, EventKind
from tests.support import tool
from tests.support.nightly import nightly
from tests.support.targets import SOURCES, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msmemscope.recording import Recording

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("tracing")]

PROGRAM = SOURCES / "attached.py"
OLDER_SYSTEM = (
    sys.executable,
    "-c",
    "import os\ndel os.pidfd_open\nfrom msmemscope.cli.main import command\ncommand()",
)
"""The launcher where processes have no descriptors: before Linux 5.3."""
ALLOCATES = pl.col("kind") == EventKind.MALLOC


@contextlib.contextmanager
def observed(
    folder: Path, *options: str, launcher_words: Sequence[object] = tool.TOOL
) -> Iterator[subprocess.Popen[str]]:
    """The training program under the tool; the process is that of the launcher."""
    command = [*map(str, launcher_words), f"--output={folder}", *options, sys.executable, str(PROGRAM), "training"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "ready\n"
        try:
            yield launcher
        finally:
            launcher.kill()


def control(target: int | Path, folder: Path, *words: str, within: tuple[str, ...] = ()) -> str:
    """Tell a process, or the launcher of a folder, by a command that another one may start; return what is said."""
    run = tool.run([*within, *tool.TOOL, "control", str(target), *words], output=folder)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    return run.stderr


def await_events(folder: Path, wanted: pl.Expr) -> None:
    """Wait until the program, which runs on, has recorded such an event: a busy machine takes its time."""
    until = time.monotonic() + 60
    while not any(load(capture).events.filter(wanted).height for capture in folder.glob("msmemscope_*_ascend")):
        assert time.monotonic() < until, "it never came"
        time.sleep(0.3)


def recorded(launcher: subprocess.Popen[str], folder: Path) -> Recording:
    """End the program, and read what it has recorded."""
    _, errors = launcher.communicate("\n", timeout=120)
    assert launcher.returncode == 0, errors
    (capture,) = folder.glob("msmemscope_*_ascend")
    return load(capture)


def test_collection_is_turned_off_and_on(tmp_path: Path) -> None:
    """By the number of the launcher, which stands for the process that records; a snapshot is a row."""
    with observed(tmp_path) as launcher:
        await_events(tmp_path, ALLOCATES)
        assert "done in process" in control(launcher.pid, tmp_path, "stop")
        control(launcher.pid, tmp_path, "snapshot")
        time.sleep(1.5)
        control(launcher.pid, tmp_path, "start")
        begun = pl.col("sequence") > pl.col("sequence").filter(pl.col("kind") == EventKind.START_TRACE).max()
        await_events(tmp_path, ALLOCATES & begun)
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


@nightly
def test_a_program_that_waits_for_its_start_begins(tmp_path: Path) -> None:
    """It has recorded nothing until then."""
    with observed(tmp_path, "--collect-mode=deferred") as launcher:
        time.sleep(1.5)
        (child,) = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text(encoding="ascii").split()
        control(int(child), tmp_path, "start")
        await_events(tmp_path, ALLOCATES)
        recorded(launcher, tmp_path)


def test_more_is_recorded_from_then_on(tmp_path: Path) -> None:
    """Accesses, for example; the losses are those of a run that nobody told anything."""
    with observed(tmp_path, "--events=alloc,free") as launcher:
        await_events(tmp_path, ALLOCATES)
        (capture,) = tmp_path.glob("msmemscope_*_ascend")
        assert not load(capture).kind_counts.keys() & set(ACCESS_KINDS)
        control(launcher.pid, tmp_path, "set", "events=alloc,free,launch,access")
        await_events(tmp_path, pl.col("kind").is_in(ACCESS_KINDS))
        recorded(launcher, tmp_path)


@pytest.mark.parametrize("words", [tool.TOOL, pytest.param(OLDER_SYSTEM, marks=nightly)], ids=["usual", "older"])
def test_the_launcher_passes_orders_on(tmp_path: Path, words: Sequence[object]) -> None:
    """By the folder of results, and by one capture in it; no file of them is left."""
    with observed(tmp_path, launcher_words=words) as launcher:
        await_events(tmp_path, ALLOCATES)
        assert "done in process" in control(tmp_path, tmp_path, "stop")
        (capture,) = tmp_path.glob("msmemscope_*_ascend")
        assert "done in process" in control(capture, tmp_path, "start")
        assert not list(tmp_path.glob(".launch_*/orders"))
        events = recorded(launcher, tmp_path).events
    for kind in (EventKind.STOP_TRACE, EventKind.START_TRACE):
        assert events.filter(pl.col("kind") == kind).height == 1
    assert not list(tmp_path.glob(".launch_*"))


def test_an_order_from_where_no_process_can_be_seen(tmp_path: Path) -> None:
    """As from another container that shares the folder: collection waits for it, and begins."""
    apart = ("unshare", "--pid", "--mount", "--fork", "--mount-proc")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], check=False).returncode != 0:
        pytest.skip("no namespaces for processes here")
    with observed(tmp_path, "--collect-mode=deferred") as launcher:
        control(tmp_path, tmp_path, "start", within=apart)
        await_events(tmp_path, ALLOCATES)
        recorded(launcher, tmp_path)


def test_a_folder_that_nobody_writes_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A launcher that was killed leaves its folder; nobody looks there, and nothing is left of the order."""
    (tmp_path / ".launch_1_20260101000000").mkdir()
    assert main(["control", str(tmp_path), "stop"]) == 2
    assert "no launcher writes there now" in capsys.readouterr().err
    assert not list(tmp_path.glob(".launch_*/*"))


def test_an_order_of_somebody_else_is_no_order(tmp_path: Path) -> None:
    """Nor is a file with other content: each has an answer that says why, and the next one is looked at."""
    obeyed = []

    def obey(process: int, words: Sequence[str]) -> str:
        obeyed.append((process, list(words)))
        return ""

    desk = OrderDesk(tmp_path, obey)
    (tmp_path / "processes").write_text(f"capture\t{os.getpid()}\t/out/msmemscope_1_2_ascend\n", encoding="utf-8")
    orders = tmp_path / "orders"
    orders.mkdir()
    (orders / "a.order").symlink_to("/etc/passwd")
    (orders / "b.order").write_text("[1]", encoding="utf-8")
    (orders / "c.order").write_text('{"words": ["stop"], "captures": "all"}', encoding="utf-8")
    (orders / "c2.order").write_text("[" * 16000, encoding="utf-8")
    (orders / "d.order").write_text('{"words": ["stop"], "captures": []}', encoding="utf-8")
    desk.begin()
    while not (orders / "d.answer").exists():
        time.sleep(0.05)
    answers = [
        json.loads((orders / f"{name}.answer").read_text(encoding="utf-8")) for name in ("a", "b", "c", "c2", "d")
    ]
    desk.end()
    assert [len(answer["failed"]) for answer in answers] == [1, 1, 1, 1, 0]
    assert all(answer["failed"][0].startswith("the order cannot be ") for answer in answers[:4])
    assert obeyed == [(os.getpid(), ["stop"])]
    assert not orders.exists()


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
        (["no", "stop"], "PID|DIR: is neither a process nor a folder: 'no'"),
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
