"""A program that nobody prepared is recorded for a while: what it leaks is named, and it goes on as if nothing had been."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from msmemscope.cli.main import main
from msmemscope.errors import UsageError
from msmemscope.formats.reading import load
from msmemscope.launch.attaching.target_process import target_process
from msmemscope.model.events import EventFlag
from tests.support import tool
from tests.support.nightly import NIGHT, nightly
from tests.support.targets import SOURCES, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM: Final = SOURCES / "attached.py"
TIMES: Final = 100 if NIGHT else 3


@contextlib.contextmanager
def running(kind: str, *steps: object, python: str = sys.executable) -> Iterator[subprocess.Popen[str]]:
    """The program as one of its kinds, when it has begun; it is ended at last."""
    command = [python, str(PROGRAM), kind, *map(str, steps)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n", program.stderr and program.stderr.read()
        try:
            yield program
        finally:
            program.kill()


def ended(program: subprocess.Popen[str]) -> dict[str, str]:
    """Have the program end; returns what it says of itself."""
    said, errors = program.communicate("\n", timeout=120)
    assert (program.returncode, errors) == (0, "")
    return dict(word.split("=") for word in said.split())


def attach(
    program: subprocess.Popen[str], folder: Path, *options: str, variables: Mapping[str, str] | None = None
) -> str:
    """Attach to it, and return what the summary says, in one line."""
    run = tool.run(
        [*tool.TOOL, "attach", str(program.pid), f"--output={folder}", *options], output=folder, variables=variables
    )
    said = " ".join(run.stderr.split())
    assert run.returncode == 0, said
    assert run.stdout == ""
    assert f"msmemscope: attached to process {program.pid}: " in said
    assert f"msmemscope: detached from process {program.pid}; a thread of it stood still for " in said
    return said


@pytest.mark.usefixtures("tracing")
def test_a_leak_of_a_running_program_is_named(tmp_path: Path) -> None:
    """With its line and its holder; attaching again records anew, and nothing is left in the program."""
    with running("training") as program:
        for _ in range(TIMES):
            said = attach(program, tmp_path, "--steps=20", "--for=60s")
            form = r"msmemscope: leak: .* on cpu at \S*attached\.py\(\d+\): keep, 6\d\.\d KiB per step, .* held by __main__\.KEPT"
            assert re.search(form, said), said
            (capture,) = tmp_path.glob("msmemscope_*_ascend")
            is_older = load(capture).blocks["flags"].to_numpy() & EventFlag.SHADOW != 0
            assert is_older.any()  # OLD, and what was kept until then
        found = ended(program)
    with running("training") as alone:
        usual = ended(alone)
    assert (found["threads"], found["descriptors"]) == (usual["threads"], usual["descriptors"])
    assert len([*tmp_path.glob("msmemscope_*_ascend")]) == 1


@pytest.mark.usefixtures("tracing")
def test_a_program_that_never_waits_computes_the_same(tmp_path: Path) -> None:
    """It has one thread, which is stopped where it evaluates Python code."""
    steps = 4000
    with running("busy", steps) as program:
        attach(program, tmp_path, "--for=0.5s")
        found = ended(program)
    with running("busy", steps) as alone:
        assert found["losses"] == ended(alone)["losses"]


@pytest.mark.usefixtures("tracing")
def test_a_program_that_makes_python_objects_alone(tmp_path: Path) -> None:
    """Its one thread neither waits nor calls the C library's allocator."""
    until = tmp_path / "until"
    with running("spinning", 1, until) as program:
        attach(program, tmp_path, "--for=0.5s")
        until.touch()
        ended(program)


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("kind", ["serving", "threads", pytest.param("long_call", marks=nightly)])
def test_programs_that_wait_and_such_with_many_threads(kind: str, tmp_path: Path) -> None:
    """In `epoll`, in 64 threads, and in a long call of C."""
    with running(kind) as program:
        said = attach(program, tmp_path, "--for=1s")
        assert "Peak on cpu (HOST): " in said
        ended(program)


@pytest.mark.usefixtures("tracing")
def test_signals_of_the_program_stop_no_call(tmp_path: Path) -> None:
    """A timer, and signals of others all the time; the folder for temporary files has unusual letters."""
    folder = tmp_path / 'a "folder" \\ with ü'
    folder.mkdir()
    with running("signals") as program:
        is_over = threading.Event()

        def send() -> None:
            while not is_over.wait(0.002):
                program.send_signal(signal.SIGUSR1)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            for _ in range(3):
                attach(program, tmp_path, "--for=0.3s", variables={"TMPDIR": str(folder)})
        finally:
            is_over.set()
            sender.join()
        assert int(ended(program)["signals"]) > 500
    assert [*folder.iterdir()] == []


@nightly
@pytest.mark.usefixtures("tracing")
def test_a_profiler_traces_the_program_meanwhile(tmp_path: Path) -> None:
    """It holds each thread for moments; both have what they ask for."""
    sampler = shutil.which("py-spy")
    if sampler is None:
        pytest.skip("py-spy is not installed")
    profile = tmp_path / "profile.txt"
    with running("training") as program:
        options = ["--format=raw", "--rate=100", "--duration=5", f"--output={profile}", f"--pid={program.pid}"]
        with subprocess.Popen([sampler, "record", *options], stderr=subprocess.PIPE, text=True) as profiler:
            time.sleep(0.5)
            for _ in range(2):
                attach(program, tmp_path, "--for=0.5s")
            errors = profiler.communicate(timeout=60)[1]
        assert profiler.returncode == 0, errors
        assert "train (" in profile.read_text(encoding="utf-8")
        ended(program)


@nightly
@pytest.mark.usefixtures("tracing")
def test_a_program_that_stands_still_is_left_alone(tmp_path: Path) -> None:
    """It stands still as before, and goes on when it is told to."""
    with running("training") as program:
        program.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        run = tool.run([*tool.TOOL, "attach", str(program.pid), "--for=1s"], output=tmp_path)
        assert run.returncode == 1
        assert f"error: process {program.pid} gave no safe moment within 5 s" in run.stderr
        assert "or it is stopped" in run.stderr
        assert Path(f"/proc/{program.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T"
        program.send_signal(signal.SIGCONT)
        ended(program)


@nightly
@pytest.mark.usefixtures("tracing")
def test_who_attached_may_be_killed(tmp_path: Path) -> None:
    """Then the program stops recording by itself, and goes on."""
    with running("training") as program:
        command = [*map(str, tool.TOOL), "attach", str(program.pid), f"--output={tmp_path}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as attached:
            assert attached.stderr is not None
            assert "attached to process" in attached.stderr.readline()
            time.sleep(0.5)
            attached.send_signal(signal.SIGKILL)
        (capture,) = tmp_path.glob("msmemscope_*_ascend")
        before = -1
        for _ in range(100):
            time.sleep(0.3)
            size = sum(file.stat().st_size for file in (capture / "event_log").iterdir())
            if size == before:
                break
            before = size
        assert size == before
        ended(program)


@pytest.mark.usefixtures("tracing")
def test_an_interrupt_ends_the_recording(tmp_path: Path) -> None:
    """The program gets no signal, and the summary is shown."""
    with running("training") as program:
        command = [*map(str, tool.TOOL), "attach", str(program.pid), f"--output={tmp_path}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as attached:
            assert attached.stderr is not None
            assert "attached to process" in attached.stderr.readline()
            time.sleep(1)
            attached.send_signal(signal.SIGINT)
            said = attached.stderr.read()
            assert attached.wait() == 0
        assert "detached from process" in said
        ended(program)


def other_python() -> str | None:
    """A Python of another version, where the machine has one."""
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3")):
        if mine not in path.parts[-3] and path.parts[-3].startswith(("3.10", "3.12", "3.13")):
            return str(path)
    return None


@pytest.mark.usefixtures("tracing")
@pytest.mark.skipif(other_python() is None, reason="there is no other Python in ~/.pyenv")
def test_another_python_is_left_alone(tmp_path: Path) -> None:
    """With the advice that helps."""
    code = "import time\nprint('ready', flush=True)\ntime.sleep(600)"
    with subprocess.Popen([str(other_python()), "-c", code], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        program.stdout.readline()
        try:
            run = tool.run([*tool.TOOL, "attach", str(program.pid), "--for=1s"], output=tmp_path)
            assert run.returncode == 1
            assert re.search(r"error: process \d+ was left alone: it runs Python 3\.\d+", run.stderr)
            assert "hint: this msmemscope is for Python " in run.stderr
            assert program.poll() is None
        finally:
            program.kill()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no"], "PID: is no number of a process: 'no'"),
        (["999999999"], "PID: is no process that runs: '999999999'"),
        (["1", "--for=soon"], "--for: is no length of time: 'soon' (accepted: a number with s, min or h, such as 60s)"),
        (["1", "--steps=0"], "--steps: is no number of steps: '0'"),
        (["1", "--level=everything"], "--level: "),
    ],
)
def test_bad_input_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is done to any process."""
    assert main(["attach", *words]) == 2
    assert said in capsys.readouterr().err


def test_what_is_no_python_is_told() -> None:
    """And so is a program that runs under the tool already."""
    with subprocess.Popen(["sleep", "600"]) as program:
        try:
            with pytest.raises(UsageError, match="has no Python in it"):
                target_process(str(program.pid))
        finally:
            program.kill()
    observed = environment(MSMEMSCOPE_SETTINGS="")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=observed) as program:
        try:
            time.sleep(0.5)
            with pytest.raises(UsageError, match="runs under msmemscope already"):
                target_process(str(program.pid))
        finally:
            program.kill()
