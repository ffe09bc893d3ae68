"""The observed program cannot tell the difference: exit status, signals, streams, process tree."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.nightly import nightly
from tests.support.targets import environment
from tests.support.tool import TOOL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDING_SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGTERM]
MORE_ENDING_SIGNALS = [signal.SIGQUIT, signal.SIGABRT, signal.SIGUSR1, signal.SIGALRM, signal.SIGXFSZ]

DISPOSITIONS = """
import re, sys
status = open("/proc/self/status").read()
# posix_spawn leaves the two signals that the C library keeps for itself (32 and 33) ignored; it sets them up when needed.
own = 0b11 << 31
for name in ("SigIgn", "SigBlk"):
    print(name, hex(int(re.search(name + r":\\s*(\\w+)", status)[1], 16) & ~own))
"""

# os.write and not print: the signal may come while "ready" is still being printed, and print cannot be entered twice.
WAITING = """
import os, signal, sys, time
def note(number, frame):
    os.write(1, f"{signal.Signals(number).name}\\n".encode())
    if number == signal.SIGTERM:
        sys.exit(7)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, note)
os.write(1, f"ready {os.getpid()}\\n".encode())
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The tool, writing into a folder of the test."""
    return [*TOOL, f"--output={tmp_path / 'output'}", "--"]


@contextlib.contextmanager
def started(command: list[str], **options: object) -> Iterator[subprocess.Popen[str]]:
    """A running command that does not outlive the test."""
    process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), **options
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def finished(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    """A command run to its end."""
    result: subprocess.CompletedProcess[str] = subprocess.run(  # type: ignore[call-overload]
        command, capture_output=True, text=True, check=False, timeout=60, env=environment(), **options
    )
    return result


@pytest.mark.parametrize("status", [0, 1, 127, *(pytest.param(status, marks=nightly) for status in (2, 42, 126, 255))])
def test_exit_status(command: list[str], status: int) -> None:
    """Every status is the program's own."""
    assert finished([*command, "sh", "-c", f"exit {status}"]).returncode == status


@pytest.mark.parametrize(
    "number",
    [*ENDING_SIGNALS, *(pytest.param(number, marks=nightly) for number in MORE_ENDING_SIGNALS)],
    ids=lambda number: number.name,
)
def test_death_by_signal(command: list[str], number: signal.Signals) -> None:
    """Our parent sees the same signal, and no core file of ours."""
    result = finished([*command, "sh", "-c", f"kill -{int(number)} $$"], preexec_fn=limit_core_files)
    assert result.returncode == -number


def limit_core_files() -> None:
    """Keep the dying shell of a test from leaving a core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def test_stdin_reaches_the_program(command: list[str]) -> None:
    """To the last byte, and its end too."""
    assert finished([*command, "cat"], input="one\ntwo").stdout == "one\ntwo"


def test_streams_are_not_mixed(command: list[str]) -> None:
    """Only the program writes to stdout. Our own messages go to stderr."""
    result = finished([*command, "sh", "-c", "echo data; echo words >&2"])
    assert result.stdout == "data\n"
    assert "words\n" in result.stderr


def test_arguments_and_environment(command: list[str]) -> None:
    """Arguments as they are, the user's variables as they were."""
    code = "import os, sys; print(sys.argv[1:], os.environ['COLOUR'], os.environ['PYTHONPATH'].split(':')[-1])"
    result = subprocess.run(
        [*command, sys.executable, "-c", code, "a b", "--level=0", "", "*"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(COLOUR="blue", PYTHONPATH=f"{os.environ.get('PYTHONPATH', '')}:/somewhere"),
    )
    assert result.stdout == "['a b', '--level=0', '', '*'] blue /somewhere\n"


def test_a_variable_without_a_name_keeps_nothing_from_starting(command: list[str]) -> None:
    """`env =1` makes one, and Python starts no program with it."""
    assert finished(["env", "=1", *command, "echo", "started"]).stdout == "started\n"


def test_dispositions_of_signals_are_as_without_us(command: list[str]) -> None:
    """The program does not ignore the signals that Python and the launcher ignore for themselves."""
    program = [sys.executable, "-S", "-c", DISPOSITIONS]
    assert finished([*command, *program]).stdout == finished(program).stdout


def test_ignored_signals_stay_ignored(command: list[str]) -> None:
    """`nohup`, and background jobs of scripts."""
    program = [sys.executable, "-S", "-c", DISPOSITIONS]
    ignore = ["sh", "-c", 'trap "" HUP INT QUIT; exec "$@"', "sh"]
    assert finished([*ignore, *command, *program]).stdout == finished([*ignore, *program]).stdout


def test_a_parent_that_ignores_its_children(command: list[str]) -> None:
    """Ignoring SIGCHLD makes the system forget exit statuses; ours is still right."""
    code = f"import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execvp({command[0]!r}, {command!r} + ['sh', '-c', 'exit 9'])"
    assert finished([sys.executable, "-c", code]).returncode == 9


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2], ids=lambda number: number.name)
def test_signals_to_the_launcher_reach_the_program(command: list[str], number: signal.Signals) -> None:
    """A scheduler knows our process id only."""
    with started([*command, sys.executable, "-c", WAITING]) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        process.send_signal(number)
        assert process.stdout.readline() == f"{number.name}\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "SIGTERM\n"
        assert process.wait(timeout=60) == 7


def test_ctrl_c_is_for_the_program(command: list[str]) -> None:
    """The terminal sends it to the whole group; a program that handles it decides how it ends."""
    code = """
import sys, time
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("saved", flush=True)
    sys.exit(3)
"""
    with started([*command, sys.executable, "-c", code], start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "saved\n"
        assert process.wait(timeout=60) == 3


def test_ctrl_c_that_ends_the_program_ends_us(command: list[str]) -> None:
    """A shell loop around us stops, as it would around the program."""
    with started([*command, "sh", "-c", "echo ready; exec sleep 60"], start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT


def test_stop_and_continue(command: list[str]) -> None:
    """Ctrl-Z stops the group; continued, everything goes on."""
    program = ["sh", "-c", "echo ready; read line; exit 4"]
    # A group of our session: the system discards the signal in a session of its own, where nobody could continue it.
    with started([*command, *program], stdin=subprocess.PIPE, preexec_fn=os.setpgrp) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGTSTP)
        deadline = time.monotonic() + 10
        while state_of(process.pid) != "T" and time.monotonic() < deadline:
            time.sleep(0.02)
        assert state_of(process.pid) == "T"
        os.killpg(process.pid, signal.SIGCONT)
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.wait(timeout=60) == 4


def state_of(process_id: int) -> str:
    """The letter of /proc: T is stopped."""
    with open(f"/proc/{process_id}/stat", encoding="utf-8") as file:  # noqa: PTH123
        return file.read().rpartition(")")[2].split()[0]


def test_the_program_is_in_our_process_group(command: list[str]) -> None:
    """Job control of the shell covers both."""
    code = "import os; print(os.getpgrp() == os.getpgid(os.getppid()), os.getpgrp())"
    result = finished([*command, sys.executable, "-c", code], start_new_session=True)
    assert result.stdout.startswith("True ")


def test_inherited_descriptors(command: list[str], tmp_path: Path) -> None:
    """Whatever the parent left open for the program (a jobserver, a lock) arrives."""
    path = tmp_path / "inherited"
    with path.open("w") as file:
        code = f"import os; os.write({file.fileno()}, b'arrived')"
        finished([*command, sys.executable, "-c", code], pass_fds=[file.fileno()])
    assert path.read_text() == "arrived"


def test_script_without_an_interpreter_line(command: list[str], tmp_path: Path) -> None:
    """The shell runs it, as `execvp` does."""
    script = tmp_path / "script"
    script.write_text('echo "$0" "$1"; exit 6\n')
    script.chmod(0o755)
    result = finished([*command, str(script), "word"])
    assert (result.returncode, result.stdout) == (6, f"{script} word\n")


def test_script_whose_interpreter_is_missing(command: list[str], tmp_path: Path) -> None:
    """The status of shells, a message, and no results folder."""
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    result = finished([*command, str(script)])
    assert result.returncode == 127
    assert "interpreter" in result.stderr
    assert not (tmp_path / "output").exists()


def test_options_of_the_program_stay_its_own(tmp_path: Path) -> None:
    """Training scripts have options of the same names; nothing is said about them, and ours keep their defaults."""
    options = ["--device", "cpu", "--output", "runs/1", "--steps", "1000", "--device=cpu", "--steps=7", "--watch=5"]
    result = finished([*TOOL, f"--output={tmp_path / 'output'}", "echo", *options], cwd=tmp_path)
    assert result.stdout == f"{' '.join(options)}\n"
    assert "taken as" not in result.stderr
    assert not (tmp_path / "runs").exists()


def test_printed_forms_after_the_program_are_taken_with_a_line(tmp_path: Path) -> None:
    """After the program, options in the printed forms are still ours, and one line says so.

    After --, the program gets them.
    """
    forms = ["--analysis=inefficient", "--watch=start:0,end,full-content", "--steps=3", "--level=kernel"]
    output = f"--output={tmp_path / 'output'}"
    result = finished([*TOOL, output, "echo", "a", *forms, "b"])
    assert result.stdout == "a b\n"
    lines = [line for line in result.stderr.splitlines() if "taken as options of msmemscope" in line]
    assert len(lines) == 1
    assert ", ".join(forms) in lines[0]
    result = finished([*TOOL, output, "--", "echo", "a", *forms])
    assert result.stdout == f"a {' '.join(forms)}\n"
    assert "taken as" not in result.stderr


def test_closed_stderr_changes_nothing(command: list[str]) -> None:
    """A message that cannot be written does not cost the program its exit status."""
    result = finished(["sh", "-c", '"$@" 2>&-', "sh", *command, "sh", "-c", "exit 5"])
    assert result.returncode == 5
