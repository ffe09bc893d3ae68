"""Our messages do no harm: nobody has to read them, and they never go where the program writes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.nightly import NIGHT
from tests.support.targets import environment
from tests.support.tool import TOOL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import BuildTarget

TIMEOUT_S = 60
SLOWNESS_S = 3 if NIGHT else 2
STOPPED = "recording stopped: growing the event log: file size limit reached"


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which a program is observed without the launcher, whose own stderr would be in the way."""
    command = [sys.executable, "-c", "import os; print('\\0'.join(f'{k}={v}' for k, v in os.environ.items()))"]
    output = tmp_path_factory.mktemp("preloaded") / "output"
    shown = subprocess.run(
        [*TOOL, "--device=cpu", f"--output={output}", "--", *command],
        env=environment(), capture_output=True, text=True, check=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    return dict(line.split("=", 1) for line in shown.stdout.rstrip("\n").split("\0"))


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that blocks whoever writes to it when it is full."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture(scope="module", autouse=True)
def unread(build_target: BuildTarget, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A launcher whose program fills a pipe that nobody reads: it has seconds of patience, in which the other tests run."""
    ends = os.pipe()
    output = tmp_path_factory.mktemp("unread") / "output"
    command = [*TOOL, "--device=cpu", f"--output={output}", "--", str(build_target("own_stderr")), "full"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=ends[1], text=True) as launcher:
        yield launcher
        launcher.kill()
    for end in ends:
        os.close(end)


@pytest.mark.parametrize("state", ["unread", "full", "replaced", "as it was"])
def test_the_end_of_recording_is_no_harm(
    build_target: BuildTarget, preloaded: dict[str, str], pipe: tuple[int, int], tmp_path: Path, state: str
) -> None:
    """SIGPIPE, a full pipe, and a data file that got the number 2."""
    data = tmp_path / "data"
    command = [str(build_target("own_stderr")), state, str(data)]
    reader, writer = pipe
    if state == "unread":
        unread = os.pipe()
        os.close(unread[0])
        writer = unread[1]
    run = subprocess.run(
        command, env=preloaded, stdout=subprocess.PIPE, stderr=writer, text=True, check=False, timeout=TIMEOUT_S
    )
    if state == "unread":
        os.close(writer)
    assert (run.returncode, run.stdout) == (0, "allocs=20000 frees=20000\n")
    if state == "replaced":
        assert data.read_bytes() == b""
    if state == "as it was":
        assert STOPPED in os.read(reader, 4096).decode()


def test_the_launcher_waits_for_a_slow_reader(build_target: BuildTarget, tmp_path: Path) -> None:
    """A reader who is late gets all of it."""
    reader, writer = os.pipe()
    received = bytearray()

    def read_slowly() -> None:
        time.sleep(SLOWNESS_S)
        while piece := os.read(reader, 65536):
            received.extend(piece)

    thread = threading.Thread(target=read_slowly)
    thread.start()
    command = [*TOOL, "--device=cpu", f"--output={tmp_path / 'output'}", "--", str(build_target("own_stderr")), "full"]
    run = subprocess.run(
        command, env=environment(), stdout=subprocess.PIPE, stderr=writer, text=True, check=False, timeout=TIMEOUT_S
    )
    os.close(writer)
    thread.join(TIMEOUT_S)
    os.close(reader)
    assert run.returncode == 0
    assert "Files in" in received.lstrip(b"x").decode()


WITHOUT_LAUNCHER = """
import os, sys
import msmemscope
msmemscope.config(device="cpu", output=sys.argv[1])
msmemscope.start()
from msmemscope import _native
_native.record_event(1, -1)
os.close(2)
assert os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY, 0o600) == 2
msmemscope.tracer.stop()
"""


def test_results_at_exit_do_not_go_into_a_file_of_the_program(tmp_path: Path) -> None:
    """Neither our lines nor the summary."""
    data = tmp_path / "data"
    command = [sys.executable, "-c", WITHOUT_LAUNCHER, str(tmp_path / "output"), str(data)]
    run = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert run.returncode == 0, run.stderr
    assert data.read_text() == ""
    assert list((tmp_path / "output").glob("msmemscope_*"))


def test_warnings_of_the_core_are_left_out_where_errors_alone_are_asked_for(tmp_path: Path) -> None:
    """They stand in the log all the same."""
    program = "import msmemscope; msmemscope.step(); msmemscope.tracer.stop()"
    warning = "tracer.stop(): the tracer is not on"
    for level, is_printed in (("error", False), ("warn", True)):
        output = tmp_path / level
        options = ("--device=cpu", f"--log-level={level}", f"--output={output}")
        run = tool.run([*TOOL, *options, "--", sys.executable, "-c", program], output=output)
        assert (f"msmemscope: {warning}\n" in run.stderr) is is_printed
        assert run.capture.facts["message"] == (warning,)


def test_the_end_of_the_launcher_does_not_wait_for_a_reader(unread: subprocess.Popen[str]) -> None:
    """The program fills the pipe and ends; nobody reads; its exit status still comes back."""
    printed, _ = unread.communicate(timeout=TIMEOUT_S)
    assert (unread.returncode, printed) == (0, "allocs=20000 frees=20000\n")


@pytest.mark.parametrize("stderr", ["2> >(true)", "2>/dev/full", "2>&-"], ids=["no reader", "full", "closed"])
def test_the_exit_status_is_that_of_the_program_where_nothing_can_be_said(stderr: str, tmp_path: Path) -> None:
    """Also where what is left to write fails once more when the interpreter of the launcher ends."""
    program = [sys.executable, "-c", "raise SystemExit(3)"]
    command = shlex.join([*TOOL, "--device=cpu", f"--output={tmp_path / 'output'}", "--", *program])
    run = subprocess.run(
        ["bash", "-c", f"{command} {stderr}"], env=environment(), capture_output=True, check=False, timeout=TIMEOUT_S
    )
    assert run.returncode == 3
