"""Prints the table of measures: `python -m tests.measures`, or `make measures`.

Every program that knows the truth about itself runs under the tool. It runs on each device that is there: the CPU, the
virtual NPU, an emulated CUDA device. `--device=cuda` takes one of them. The answers are compared with that truth. The programs are the leak zoo, the zoo of host memory, planted inefficiencies and owners of
tensors. There are also reasons to run out of memory, and programs after public reports.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.host_zoo.catalogue import host_programs
from tests.host_zoo.measure import as_measure as as_measure_of_host
from tests.host_zoo.measure import measure as measure_host
from tests.leak_zoo import catalogue as leaks
from tests.leak_zoo.scoring import measure as measure_leaks
from tests.leak_zoo.scoring import run_zoo
from tests.oom_zoo import catalogue as failures
from tests.oom_zoo.measure import measure as measure_failures
from tests.owner_truths.measure import measure as measure_owners
from tests.reports.catalogue import reports
from tests.reports.measure import Outcome, as_measure
from tests.reports.measure import measure as measure_reports
from tests.support.ascend import NotInstalledError
from tests.support.inefficiency_measure import measure as measure_inefficient
from tests.support.measures import Measure, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DEVICES = ("cpu", "npu", "cuda")


def main() -> int:
    """Print the table of the devices that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=DEVICES, help="the only device; otherwise all")
    chosen = parser.parse_args().device
    rows: list[Measure] = []
    for device in (chosen,) if chosen else DEVICES:
        for question in QUESTIONS:
            sys.stderr.write(f"{device}: {question.__name__}\n")
            try:
                with tempfile.TemporaryDirectory() as folder:
                    rows += question(Path(folder), device)
            except NotInstalledError as missing:
                sys.stderr.write(f"{device}: {missing}\n")
    sys.stdout.write(f"{table(rows)}\n")
    return 0


def leaking_lines(folder: Path, device: str) -> Iterable[Measure]:
    """Call sites that leak."""
    programs = leaks.programs_of(device)
    processes = run_zoo(folder / "output", programs, device)
    return measure_leaks(folder / "output", processes, programs, device)


def inefficient_blocks(folder: Path, device: str) -> Iterable[Measure]:
    """Blocks that are allocated early, freed late, or idle."""
    return measure_inefficient(folder / "output", device)


def owners(_folder: Path, device: str) -> Iterable[Measure]:
    """Bytes of each owner."""
    rows = measure_owners(device)
    for owner in sorted({row.owner for row in rows}):
        of_owner = [row for row in rows if row.owner == owner]
        yield Measure(
            "owners",
            owner,
            device,
            "bytes",
            true=sum(row.true_bytes for row in of_owner),
            found=sum(row.found_bytes for row in of_owner),
            right=sum(row.common_bytes for row in of_owner),
        )


def public_reports(_folder: Path, device: str) -> Iterable[Measure]:
    """First screens of programs after public reports, each on the first of its devices; those that are not right are named."""
    judged = list(measure_reports([one for one in reports() if one.devices[0] == device]))
    for row in judged:
        if row.outcome is not Outcome.RIGHT:
            repaired = " fixed" if row.is_repaired else ""
            sys.stderr.write(f"{device}: {row.outcome.value}: {row.report.name}{repaired}: {row.verdict}\n")
    return as_measure(judged, device)


def host_memory(_folder: Path, device: str) -> Iterable[Measure]:
    """Growth of host memory, on the CPU alone; programs that are not right are named."""
    if device != "cpu":
        return ()
    judged = list(measure_host(host_programs()))
    for row in judged:
        if row.outcome is not Outcome.RIGHT:
            sys.stderr.write(f"{device}: {row.outcome.value}: {row.program.name}: {row.verdict}\n")
    return as_measure_of_host(judged, device)


def causes(folder: Path, device: str) -> Iterable[Measure]:
    """Reasons why memory ran out, each with its line and its remedy."""
    rows = measure_failures(folder, failures.programs_of(device), device)
    true, found = Counter(row.cause for row in rows), Counter(row.found for row in rows)
    right = Counter(row.cause for row in rows if row.right)
    for cause in sorted(true.keys() | (found.keys() - {""})):
        yield Measure("oom", cause, device, "programs", true[cause], found[cause], right[cause])


QUESTIONS: tuple[Callable[[Path, str], Iterable[Measure]], ...] = (
    leaking_lines, host_memory, inefficient_blocks, owners, causes, public_reports,
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main())
