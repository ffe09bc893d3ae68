"""An unexpected exception is one line, with what to report; one damaged capture never costs the results of others."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from msmemscope.cli.commands.doctor import DoctorCommand
from msmemscope.cli.main import main
from msmemscope.launch import captures
from msmemscope.launch.faults import fault_text
from msmemscope.questions import QUESTIONS
from tests.fakes.event_log_builder import FREE, HAL, MARK, PTA, STATE_OPEN, EventLogBuilder
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.recording import Recording

OOM = 54


def panicking() -> None:
    """Raise what Polars raises where it meets a fault of its own: no Exception."""
    message = "index out of bounds\nwith advice"
    raise pl.exceptions.PanicException(message)


def failing(error: BaseException) -> Callable[..., Any]:
    """Returns a function that raises an error whatever it is given."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise error

    return fail


def lines_of(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    """The exit status and the lines on stderr of a command in which an error is raised."""
    monkeypatch.setattr(DoctorCommand, "run", failing(error))
    status = main(["doctor"])
    return status, capsys.readouterr().err.splitlines()


def test_a_fault_is_one_line_and_a_hint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The type, the message, and the place where it was raised; status 1."""
    status, lines = lines_of(OverflowError("int too big"), monkeypatch, capsys)
    assert status == 1
    assert len(lines) == 2
    assert lines[0].startswith("msmemscope: error: this is a fault of msmemscope: OverflowError: int too big (cli/")
    assert lines[1].startswith("hint: please report it with ")
    assert "msmemscope doctor" in lines[1]
    assert "MSMEMSCOPE_TRACEBACK=1" in lines[1]


def test_the_traceback_is_shown_where_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is what we need to find the cause."""
    monkeypatch.setenv("MSMEMSCOPE_TRACEBACK", "1")
    status, lines = lines_of(KeyError("x"), monkeypatch, capsys)
    assert status == 1
    assert "Traceback (most recent call last):" in lines
    assert any("this is a fault of msmemscope: KeyError" in line for line in lines)


def test_a_panic_of_polars_is_a_fault(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Although it is no Exception; only the first line of its message is shown."""
    with pytest.raises(pl.exceptions.PanicException) as panic:
        panicking()
    status, lines = lines_of(panic.value, monkeypatch, capsys)
    assert status == 1
    assert "PanicException: index out of bounds (" in lines[0]


@pytest.mark.parametrize(
    "error, text",
    [
        (MemoryError(), "memory ran out"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "Permission denied: /x"),
    ],
)
def test_what_the_machine_lacks_is_no_fault_of_ours(
    error: BaseException, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names what is missing, and asks for no report."""
    status, lines = lines_of(error, monkeypatch, capsys)
    assert status == 1
    assert lines[0] == f"msmemscope: error: {text}"
    assert "report" not in " ".join(lines)


def test_an_odd_error_of_a_file_is_a_fault() -> None:
    """A seek before the begin of a file is our mistake."""
    assert "fault of msmemscope" in fault_text(OSError(errno.EINVAL, "Invalid argument"))


@pytest.mark.parametrize("command", [["events", "{}"], ["analyze", "oom", "{}"]])
def test_a_full_disk_behind_stdout_is_one_line(command: list[str], tmp_path: Path) -> None:
    """Also what is still in a buffer when the command ends."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 64)
    arguments = [argument.format(log.write()) for argument in command]
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "msmemscope", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 1
    assert run.stderr.startswith("msmemscope: error: ")
    assert run.stderr.endswith(": No space left on device\n")
    assert run.stderr.count("\n") == 1


def test_a_reader_that_goes_away_is_no_fault() -> None:
    """As `msmemscope --help | true` has it."""
    command = f"{sys.executable} -c 'import time; from msmemscope.cli.main import main; time.sleep(1); exit(main([\"--help\"]))'"
    run = subprocess.run(
        ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 141
    assert run.stderr == ""


WITHOUT_READER = """
import json, os, signal, sys
import msmemscope.launch.captures, msmemscope.questions
from msmemscope.cli.main import main
for command in json.loads(sys.argv[1]):
    if (child := os.fork()) == 0:
        status = main(command)
        assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN
        sys.exit(status)
    _, status = os.waitpid(child, 0)
    sys.stderr.write(f"{command[:2]} {os.waitstatus_to_exitcode(status)}\\n")
"""


def test_a_reader_of_an_answer_goes_away(tmp_path: Path) -> None:
    """As with `| head`: the status is the shell's for it, nothing is printed, and how signals are handled stays as it was.

    A process that dies of a pipe without a reader is also killed by a worker of its own that was lost.
    """
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 64)
    capture = str(log.write())
    commands = [
        ["events", capture],
        ["analyze", "peak", capture],
        ["analyze", "card", capture],
        ["summary", capture],
        ["top", capture],
        ["tree", capture],
        ["stats", capture],
        ["stats", "--json", capture],
    ]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as without_reader:
        run = subprocess.run(
            [sys.executable, "-c", WITHOUT_READER, json.dumps(commands)],
            stdout=without_reader,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    # Each is a process of its own, forked where the tool has been imported.
    assert run.stderr == "".join(f"{command[:2]} 141\n" for command in commands)
    assert run.returncode == 0


def two_captures(root: Path) -> tuple[Path, Path]:
    """A capture that the tests damage, and a healthy one."""
    for process_id in (1001, 1002):
        log = EventLogBuilder(root, process_id=process_id, state=STATE_OPEN)
        log.malloc(0x1000, 4096)
        log.write()
    first, second = sorted(root.glob("msmemscope_*"))
    return first, second


def dumps_in(capture: Path) -> int:
    """How many dump files a capture has."""
    return len(list(capture.glob("device_*/dump/*")))


@pytest.mark.parametrize(
    "error", [OverflowError("surprise"), pl.exceptions.PanicException("surprise")], ids=["error", "panic"]
)
@pytest.mark.parametrize("function", ["write_dumps", "memory_overview"])
def test_one_capture_that_fails_does_not_cost_the_others(
    function: str,
    error: BaseException,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its line names it and what to send us; the other one has its dumps, and both are in the summary."""
    damaged, healthy = two_captures(tmp_path)
    original = getattr(captures, function)

    def fail(capture: Any, *arguments: Any, **options: Any) -> Any:
        if capture.directory == damaged:
            raise error
        return original(capture, *arguments, **options)

    monkeypatch.setattr(captures, function, fail)
    status = main(["recover", str(tmp_path)])
    assert status == (1 if function == "write_dumps" else 0)
    assert dumps_in(healthy) == 1
    text = capsys.readouterr().err
    assert f"{damaged}: " in text
    assert "this is a fault of msmemscope" in text
    assert f"please report it with the folder {damaged}" in text
    assert "of 2 processes" in text


def write_header_of_nonsense(root: Path) -> None:
    """Every field has all its bits."""
    fields = (
        "start_ns",
        "end_ns",
        "process_start_ticks",
        "session",
        "dropped_recycled",
        "dropped_failure",
        "log_bytes",
    )
    values = {**dict.fromkeys(fields, 2**64 - 1), "failure_errno": 2**32 - 1}
    log = EventLogBuilder(root, process_id=1001, state=3, header_fields=values)
    log.malloc(0x1000, 64)
    log.write()


def write_failure_of_all_numbers(root: Path) -> None:
    """An allocation that failed asks for more rows than there are numbers."""
    log = EventLogBuilder(root, process_id=1001)
    log.malloc(0x1000, 64, pool=PTA, device=0)
    log.add(OOM, device=0, extra=2**64 - 1)
    log.write()


def write_module_above_its_addresses(root: Path) -> None:
    """The file address of a return address is below zero, or beyond 64 bits."""
    log = EventLogBuilder(root, process_id=1001)
    stack = log.native_stack(0x2000, 2**64 - 1, 0, 1)
    build_id = b""
    from elftools.elf.elffile import ELFFile

    with Path(sys.executable).open("rb") as file:
        section = ELFFile(file).get_section_by_name(".note.gnu.build-id")
        build_id = bytes.fromhex(next(section.iter_notes())["n_desc"]) if section else b""
    log.module(sys.executable, 0x1000, 2**64 - 1, load_bias=2**64 - 1, build_id=build_id)
    log.malloc(0x1000, 64, native_stack_id=stack)
    log.write()


def write_times_of_no_clock(root: Path) -> None:
    """Times, numbers and sizes of 64 bits. Reports make differences and sums of them."""
    log = EventLogBuilder(root, process_id=1001)
    log.fact("setting.analysis", "leaks,inefficient,decompose")
    for step in range(1, 5):
        block = log.malloc(0x1000 * step, 2**62, timestamp_ns=2**64 - 1, pool=HAL, device=0)
        log.add(MARK, timestamp_ns=2**63)
        log.add(44, size=step, device=0)
        log.add(FREE, extra=block, address=0x1000 * step, size=-(2**63), pool=HAL, device=0)
    log.add(MARK, sequence=2**64 - 2, timestamp_ns=1)
    log.write()


def write_facts_of_nonsense(root: Path) -> None:
    """The notes of the recorder about itself, with other words in them."""
    log = EventLogBuilder(root, process_id=1001)
    for key, value in {
        "setting.output": "a\tb", "setting.watch": "auto", "watch.coverage": "operators=x,rounds", "watch.files_ended": "1,2",
        "setting.analysis": "decompose",
    }.items():  # fmt: skip
        log.fact(key, value)
    log.add(55, attribute_id=log.string("watch=auto\nneighbour=-1\nid=9999999999999999999999"))
    log.add(53, attribute_id=log.string("\u00b2label\n@"), extra=1)
    log.malloc(0x1000, 64, pool=99, device=1)
    log.write()


DAMAGES = (
    write_header_of_nonsense, write_failure_of_all_numbers, write_module_above_its_addresses, write_times_of_no_clock,
    write_facts_of_nonsense,
)  # fmt: skip


@pytest.mark.parametrize("write", DAMAGES, ids=lambda write: write.__name__.removeprefix("write_"))
@pytest.mark.parametrize("option", ["--data-format=csv", pytest.param("--data-format=db", marks=nightly)])
def test_a_damaged_capture_is_finished_like_any_other(
    write: Callable[[Path], None], option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it is a fault of ours, and the healthy one beside it is finished."""
    log = EventLogBuilder(tmp_path, process_id=1002)
    log.malloc(0x1000, 64)
    healthy = log.write()
    write(tmp_path)
    (damaged,) = tmp_path.glob("msmemscope_1001_*")
    assert main(["recover", str(tmp_path), option, "--call-stack=c,python"]) == 0
    assert dumps_in(healthy) == 1
    assert dumps_in(damaged) >= 1
    for kind in QUESTIONS:
        assert main(["analyze", kind, str(tmp_path)]) == 0
        assert main(["analyze", kind, str(next(damaged.glob("device_*/dump/*")))]) in {0, 2}
    assert main(["events", str(damaged), "--definitions"]) == 0
    assert "fault" not in capsys.readouterr().err


def test_a_capture_that_cannot_be_analysed_does_not_cost_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, with what to send us; the others are reported."""
    damaged, healthy = two_captures(tmp_path)
    original = QUESTIONS["oom"]

    def examine(recording: Recording, options: Any) -> Any:
        if recording.source == str(damaged):
            raise OverflowError
        return original.examine(recording, options)

    monkeypatch.setitem(QUESTIONS, "oom", dataclasses.replace(original, examine=examine))
    assert main(["analyze", "oom", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert str(healthy) in captured.out
    assert f"oom of {damaged}: this is a fault of msmemscope: OverflowError" in captured.err
    assert f"please report it with {damaged}" in captured.err
