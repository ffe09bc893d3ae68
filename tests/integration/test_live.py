"""`msmemscope live` on a program that runs: looked at from outside, again and again, until it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from msmemscope.live.followed_capture import FollowedCapture
from msmemscope.live.snapshot import Life
from tests.support.targets import SOURCES, environment
from tests.support.tool import TOOL, ToolRun, run

if TYPE_CHECKING:
    from tests.support.targets import Builder

MIB = 1 << 20


class Target:
    """A program that does what it is told, under the tool."""

    def __init__(self, library: Path, output: Path, *options: str) -> None:
        program = [sys.executable, str(SOURCES / "allocates_on_request.py"), str(library)]
        self.launcher = subprocess.Popen(
            [*TOOL, "--device=cpu", f"--output={output}", *options, "--", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.process_id = int(self._line().split()[1])

    def does(self, *requests: str) -> None:
        """Wait until it has done something."""
        for request in requests:
            self._stdin.write(f"{request}\n")
            self._stdin.flush()
            assert self._line() == "done"

    def end(self) -> None:
        """Let it end in an orderly way."""
        self._stdin.write("end\n")
        self._stdin.close()
        assert self.launcher.wait(60) == 0

    def _line(self) -> str:
        assert self.launcher.stdout is not None
        return self.launcher.stdout.readline().strip()

    @property
    def _stdin(self) -> IO[str]:
        assert self.launcher.stdin is not None
        return self.launcher.stdin


@pytest.fixture
def target(target_builder: Builder, output: Path) -> Iterator[Target]:
    """One that has allocated 4 MiB. Its events are those it is told to make: there are no samples."""
    program = Target(target_builder.library(), output, "--host=off")
    program.does(f"allocate {4 * MIB}")
    yield program
    program.launcher.kill()
    with program.launcher:
        pass


def live(output: Path, *arguments: object) -> ToolRun:
    """Run the verb, without a terminal."""
    return run([*TOOL, "live", *arguments], output=output, timeout_s=60)


def seen(output: Path, named: object) -> dict[str, Any]:
    """The answer about the only process, as JSON."""
    looked = live(output, named, "--once", "--json")
    assert looked.returncode == 0, looked.stderr
    (process,) = json.loads(looked.stdout)["processes"]
    return dict(process)


def host(process: dict[str, Any]) -> dict[str, Any]:
    """The pool of CPU tensors."""
    return next(pool for pool in process["pools"] if pool["pool"] == "HOST")


def test_from_start_to_end(target: Target, output: Path) -> None:
    """By the number of the process, that of its launcher, and its folder; the program is not touched."""
    for named in (target.process_id, target.launcher.pid, output, *output.glob("msmemscope_*")):
        process = seen(output, named)
        assert process["process_id"] == target.process_id
        assert process["life"] == "running"
        assert host(process)["in_use_bytes"] == 4 * MIB
    (site,) = host(process)["sites"]
    assert "allocates_on_request.py(" in site["site"]
    assert ": keep" in site["site"]
    assert "allocates_on_request.py" in process["program"]
    target.does(f"allocate {8 * MIB}", "step", "free", "step", f"allocate {MIB}", "step")
    process = seen(output, target.process_id)
    assert host(process)["in_use_bytes"] == 5 * MIB
    assert host(process)["peak_bytes"] == 12 * MIB
    assert (process["step_count"], host(process)["growth_per_step_bytes"]) == (3, MIB)
    target.end()
    (capture,) = output.glob("msmemscope_*")
    process = seen(output, capture)
    assert process["life"] == "has ended"
    looked = live(output, capture)
    assert looked.returncode == 0
    assert "next: msmemscope report" in looked.stdout
    assert "one snapshot" in looked.stderr
    gone = live(output, target.process_id)
    assert (gone.returncode, gone.stdout) == (2, "")
    assert "no such process runs" in gone.stderr


def test_any_question_while_it_runs(target: Target, output: Path) -> None:
    """By the number of the process; the answer says that the program goes on. Afterwards there is no such process."""
    target.does(*["step", f"allocate {MIB}"] * 6, "step")
    for verb in (["analyze", "leaks"], ["summary"], ["analyze", "decompose"]):
        asked = run([*TOOL, *verb, target.process_id], output=output, timeout_s=60)
        assert asked.returncode == 0, asked.stderr
        assert "still running" in " ".join(f"{asked.stdout}{asked.stderr}".lower().split())
    leaks = run([*TOOL, "analyze", "leaks", target.process_id, "--json"], output=output, timeout_s=60)
    (process,) = json.loads(leaks.stdout)["processes"]
    assert process["process_id"] == target.process_id
    target.end()
    gone = run([*TOOL, "analyze", "leaks", target.process_id], output=output, timeout_s=60)
    assert (gone.returncode, gone.stdout) == (2, "")
    assert "no such process runs" in gone.stderr


def test_one_follower_sees_what_comes(target: Target, output: Path) -> None:
    """Reading on gives what reading from the start gives, and the end is noticed."""
    (directory,) = output.glob("msmemscope_*")
    capture = FollowedCapture(directory)
    capture.refresh()
    before = capture.state.event_count
    for _ in range(5):
        target.does("churn 20000", f"allocate {MIB}")
        capture.refresh()
    now, anew = capture.now(), FollowedCapture(directory)
    anew.refresh()
    assert now.event_count - before == 5 * 40_001
    assert (now.late_events, now.missed_events, now.lost_events) == (0, 0, 0)
    assert [pool.in_use_bytes for pool in now.pools] == [9 * MIB]
    assert now.pools[0].peak_bytes == 9 * MIB
    assert anew.now().pools[0].sites == now.pools[0].sites
    os.kill(target.process_id, signal.SIGKILL)
    target.launcher.wait(60)
    capture.refresh()
    assert capture.now().life is Life.KILLED


def test_the_flight_recorder(target_builder: Builder, output: Path) -> None:
    """Events that were recycled before they were read are counted. The bytes in use are right all the same."""
    target = Target(target_builder.library(), output, "--max-size=1M")
    with target.launcher:
        target.does(f"allocate {2 * MIB}")
        (directory,) = output.glob("msmemscope_*")
        capture = FollowedCapture(directory)
        capture.refresh()
        target.does(f"allocate {4 * MIB}", "churn 200000", f"allocate {8 * MIB}", "free", f"allocate {MIB}")
        capture.refresh()
        now = capture.now()
        assert now.pools[0].in_use_bytes == 7 * MIB
        assert now.pools[0].block_count == 3
        assert now.missed_events > 50_000
        target.does("churn 60000")
        capture.refresh()
        assert capture.now().pools[0].in_use_bytes == 7 * MIB
        target.end()


def test_the_screen_in_a_terminal(target: Target) -> None:
    """It comes up at the first look, and q ends it; the program goes on."""
    pytest.importorskip("textual", reason="needs the package textual: pip install 'msmemscope[live]'")
    process, terminal = pty.fork()
    if process == 0:
        changed = environment(TERM="xterm-256color", COLUMNS="80", LINES="24")
        os.execve(sys.executable, [*TOOL, "live", str(target.process_id), "--interval=0.2"], changed)  # noqa: S606
    try:
        screen = _until(terminal, b"4.00 MiB")
        assert b"cpu (HOST)" in screen
        os.write(terminal, b"q")
        deadline = time.monotonic() + 30
        while (ended := os.waitpid(process, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            _read(terminal)
        assert ended == (process, 0)
    finally:
        os.close(terminal)
    target.does(f"allocate {MIB}")


def _until(terminal: int, text: bytes) -> bytes:
    """Read what a terminal shows until a text is there."""
    shown = b""
    deadline = time.monotonic() + 60
    while text not in shown and time.monotonic() < deadline:
        shown += _read(terminal)
    assert text in shown, shown[-2000:]
    return shown


def _read(terminal: int) -> bytes:
    if not select.select([terminal], [], [], 0.1)[0]:
        return b""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other end is closed
        return b""
