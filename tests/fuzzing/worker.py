"""Runs inputs one after the other in this process, which has limits of memory and of processor time.

    python -m tests.fuzzing.worker FORM FIRST COUNT PROGRESS

Writes a line of JSON to stdout for each input that failed. PROGRESS is a file of eight bytes: the number of the input
that is running. From it a watcher knows which input ended or stopped this process.
"""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import re
import resource
import signal
import struct
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msmemscope
from msmemscope.cli.main import main
from msmemscope.errors import MsmemscopeError
from tests.fuzzing.forms import make_input
from tests.fuzzing.inputs import LOAD

if TYPE_CHECKING:
    from tests.fuzzing.inputs import FuzzInput

MEMORY_BYTES: Final = 1 << 30
"""Address space that inputs may take beyond what the process has before the first one."""
PROCESSOR_SECONDS: Final = 20.0
"""For one input, on all threads together: a hundred times what the slowest one needs."""

_FAULT: Final = re.compile(r"fault of msmemscope|Traceback \(most recent|panicked at|memory ran out")
_ACCEPTED_STATUSES: Final = (0, 1, 2)


def failure_of(fuzz_input: FuzzInput) -> str | None:
    """Runs an input in this process.

    Returns:
        The failure, or None. An error in one sentence is no failure: damaged inputs should get one.
    """
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        fuzz_input.write(Path(folder))
        for command in fuzz_input.commands:
            failure = _failure_of([argument.replace("{0}", folder) for argument in command])
            if failure is not None:
                return f"{' '.join(command)}\n{failure}"
    return None


def _failure_of(arguments: list[str]) -> str | None:
    # As a pipe: what cannot be encoded would be seen.
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    status = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            if arguments[0] == LOAD:
                with contextlib.suppress(MsmemscopeError):
                    msmemscope.load_all(arguments[1])
            else:
                status = main(arguments)
    except BaseException:  # noqa: BLE001 - whatever comes out of an entry point is a finding; a panic of Polars is no Exception
        return traceback.format_exc()
    errors, output = (stream.buffer.getvalue().decode(errors="replace") for stream in (err, out))
    if _FAULT.search(errors) or _FAULT.search(output):
        return errors + output
    if status not in _ACCEPTED_STATUSES:
        return f"exit status {status}\n{errors}"
    if status and not re.search("^msmemscope: ", errors, re.MULTILINE):
        return f"exit status {status} without a word\n{errors}"
    if "--json" in arguments and output:
        try:
            json.loads(output, parse_constant=_refuse)
        except ValueError as error:
            return f"no JSON on stdout: {error}"
    return None


def _refuse(constant: str) -> None:
    message = f"{constant} is no JSON"
    raise ValueError(message)


def _fast_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def signature_of(failure: str) -> str:
    """Returns what failures of the same cause have in common: the last line of ours in the traceback, and the error's type."""
    fault = re.search(r"fault of msmemscope: (\w+)[^\n]*\(([^()\s]+)\)", failure)
    if fault:
        return f"{fault[2]} {fault[1]}"
    places = re.findall(r'File ".*?/msmemscope/(\S+\.py)", line (\d+)', failure)
    errors = re.findall(r"^([A-Za-z_.]+(?:Error|Exception|Warning|Interrupt))\b", failure, re.MULTILINE)
    place = ":".join(places[-1]) if places else failure.partition("\n")[2][:60]
    return f"{place} {errors[-1] if errors else ''}".strip()


def run(form: str, first: int, count: int, progress: mmap.mmap) -> None:
    """Runs inputs, and reports each that failed."""
    os.environ.update(MSMEMSCOPE_TRACEBACK="1", COLUMNS="500")
    limit_memory()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for number in range(first, first + count):
        progress[:8] = struct.pack("<Q", number)
        fuzz_input = make_input(form, number)
        signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
        failure = failure_of(fuzz_input)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if failure is not None:
            sys.stdout.write(json.dumps({"number": number, "failure": failure}) + "\n")
            sys.stdout.flush()


def limit_memory() -> None:
    """Lets this process have `MEMORY_BYTES` more address space than now, and write no core."""
    failure_of(make_input("csv", 0))  # starts threads and loads libraries
    in_use = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY_BYTES, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _main() -> None:
    form, first, count, progress = sys.argv[1:]
    with Path(progress).open("r+b") as file:
        run(form, int(first), int(count), mmap.mmap(file.fileno(), 8))


if __name__ == "__main__":
    _main()
