"""Runs many inputs in worker processes, watches them, and collects what failed.

    python -m tests.fuzzing.campaign COUNT [--form FORM] [--first NUMBER] [--jobs 2] [--keep FOLDER]

runs COUNT inputs of all forms, and writes each new failure as a text file that can go into the corpus.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tests.fuzzing.forms import SHARES, make_input
from tests.fuzzing.worker import PROCESSOR_SECONDS, signature_of

WORKER: Final = [sys.executable, "-m", "tests.fuzzing.worker"]
ROOT: Final = Path(__file__).parents[2]
WALL_SECONDS: Final = 8 * PROCESSOR_SECONDS
"""For one input; what takes so long without using the processor waits for something."""
_POLL_SECONDS: Final = 0.05
_PIECE: Final = 2_000
"""Inputs of one process."""


@dataclass(frozen=True)
class Finding:
    """An input that failed."""

    form: str
    number: int
    failure: str

    @property
    def signature(self) -> str:
        """The text that findings of the same cause have in common."""
        return signature_of(self.failure)


def run_inputs(form: str, first: int, count: int) -> list[Finding]:
    """Runs inputs in processes of their own, the next one where one ends before its time.

    Args:
        form: Of `forms.FORMS`.
        first: Number of the first input.
        count: How many.
    """
    findings: list[Finding] = []
    end = first + count
    while first < end:
        with tempfile.TemporaryDirectory() as folder:
            first = _run_worker(form, first, end - first, Path(folder), findings)
    return findings


def _run_worker(form: str, first: int, count: int, folder: Path, findings: list[Finding]) -> int:
    """Runs inputs in one process, and returns the number of the first one that was not run."""
    progress = folder / "progress"
    progress.write_bytes(struct.pack("<Q", first))
    command = [*WORKER, form, str(first), str(count), str(progress)]
    # With one thread of Polars memory and time are those of the input.
    variables = {**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONHASHSEED": "0"}
    with (folder / "stdout").open("w+b") as out, (folder / "stderr").open("w+b") as err:
        with subprocess.Popen(
            command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        ) as worker:
            stopped = _watch(worker, progress)
        findings.extend(
            Finding(form, entry["number"], entry["failure"]) for entry in map(json.loads, _content(out).splitlines())
        )
        if worker.returncode == 0:
            return first + count
        number = _number(progress)
        reason = stopped or _end_of(worker.returncode)
        findings.append(Finding(form, number, f"{reason}\n{_content(err)[-4000:]}"))
        return number + 1


def _watch(worker: subprocess.Popen[bytes], progress: Path) -> str | None:
    """Waits for the end of a worker; one that runs the same input for too long is stopped, and why is returned."""
    number, since = _number(progress), time.monotonic()
    while worker.poll() is None:
        time.sleep(_POLL_SECONDS)
        now = _number(progress)
        if now != number:
            number, since = now, time.monotonic()
        elif time.monotonic() - since > WALL_SECONDS:
            worker.kill()
            return f"no end after {WALL_SECONDS:.0f} seconds"
    return None


def _end_of(status: int) -> str:
    if status == -27:
        return f"more than {PROCESSOR_SECONDS:.0f} seconds of processor time"
    return f"the process ended with status {status}"


def _number(progress: Path) -> int:
    return int(struct.unpack("<Q", progress.read_bytes())[0])


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def pieces(count: int, first: int = 0, piece: int = _PIECE) -> list[tuple[str, int, int]]:
    """Divides inputs among forms and processes.

    Args:
        count: Inputs of all forms.
        first: Number of the first input of each form.
        piece: Most inputs of one process.

    Returns:
        Form, number of the first input, and how many, of each process.
    """
    found: list[tuple[str, int, int]] = []
    for form, share in SHARES.items():
        of_form = max(round(count * share), 1)
        found.extend((form, first + start, min(piece, of_form - start)) for start in range(0, of_form, piece))
    return found


def _main() -> None:
    parser = argparse.ArgumentParser(description="Run many inputs, and keep those that fail.")
    parser.add_argument("count", type=int)
    parser.add_argument("--form", choices=list(SHARES))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "fuzzing_findings")
    arguments = parser.parse_args()
    work = pieces(arguments.count, arguments.first)
    if arguments.form:
        starts = range(0, arguments.count, _PIECE)
        work = [(arguments.form, arguments.first + start, min(_PIECE, arguments.count - start)) for start in starts]
    arguments.keep.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    known: dict[str, int] = {}
    done = 0
    with ThreadPoolExecutor(max_workers=arguments.jobs) as workers:
        for (_, _, count), findings in zip(work, workers.map(lambda piece: run_inputs(*piece), work), strict=True):
            done += count
            for finding in findings:
                known[finding.signature] = known.get(finding.signature, 0) + 1
                if known[finding.signature] == 1:
                    _keep(finding, arguments.keep)
            rate = done / (time.monotonic() - begin)
            print(f"{done} inputs, {rate:.0f} per second, {len(known)} causes", flush=True)  # noqa: T201
    for signature, times in sorted(known.items(), key=lambda entry: -entry[1]):
        print(f"{times:6} {signature}")  # noqa: T201


def _keep(finding: Finding, folder: Path) -> None:
    name = re.sub(r"[^A-Za-z0-9]+", "_", f"{finding.form} {finding.number} {finding.signature}")[:100]
    (folder / f"{name}.json").write_text(
        make_input(finding.form, finding.number).to_text(finding.signature), encoding="ascii"
    )
    (folder / f"{name}.txt").write_text(finding.failure, encoding="utf-8", errors="replace")
    print(f"{finding.form} {finding.number}: {finding.signature}", flush=True)  # noqa: T201


if __name__ == "__main__":
    _main()
