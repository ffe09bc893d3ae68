"""Runs programs after public reports as a tired engineer would, and judges the first screen: `python -m tests.reports.measure`.

A first line is right if its kind is true, it names a line to blame or the holder, and its amount is nearly true. It is
half right if only the kind is right. It is half right too if the first line or the coverage says that this was not
looked at. Silence is a first line that finds nothing. Everything else is wrong.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.reports.catalogue import Report, reports
from tests.support import tool
from tests.support.ascend import NotInstalledError
from tests.support.devices import device_of_tests
from tests.support.measures import Measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOTHING: Final = ("nothing found", "nothing was", "leaks not judged", "leaks and failed", "growth not judged")
"""How a first line begins that finds nothing; of what was not judged it says so."""
_WORDS: Final = {
    "leak": ("leak", "slow leak"),
    "growth": ("leak", "slow leak"),
    "peak": NOTHING,
    "out of memory": ("out of memory",),
    "fragmentation": ("out of memory",),
    "reserved": ("reserved", "out of memory"),
    "overwritten": ("overwritten",),
    "host memory": ("host memory",),
    "healthy": NOTHING,
}
"""How a first line of each kind begins. Of a peak the pictures below it name the line."""
_ALSO_A_CAUSE: Final = ("fragmentation", "reserved")
"""Kinds that are why memory ran out where it did: then the first line has their word."""
_NOT_LOOKED_AT: Final = re.compile(r"not (?:seen|judged|observed|looked at)")
_TITLE: Final = "msmemscope: "
_COVERAGE: Final = "Coverage"
"""How the section of the summary begins that says what could not be observed or judged."""
_SIZE: Final = re.compile(r"([\d.]+) (KiB|MiB|GiB)")
_MEBIBYTES: Final = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}
_ROOM: Final = 0.1
"""By which an amount may lie outside of what the header says."""


class Outcome(Enum):
    """The grade of a first screen."""

    RIGHT = "right"
    HALF = "half"
    SILENT = "silent"
    WRONG = "wrong"


@dataclass(frozen=True)
class Judged:
    """The first screen of one program on one device."""

    report: Report
    device: str
    is_repaired: bool
    outcome: Outcome
    verdict: str
    """The first line."""


def judge(report: Report, screen: str, *, is_repaired: bool) -> tuple[Outcome, str]:
    """Judge what the summary of a run shows.

    Args:
        report: The truth about the program.
        screen: The output of the tool.
        is_repaired: Whether the program ran as the thread repaired it.

    Returns:
        The outcome, and the first line.
    """
    text = " ".join(screen.split())
    # The summary stands behind a blank line; lines of the run before it begin alike.
    blocks = re.split(r"\n\s*\n", screen.strip())
    place = max((number for number, block in enumerate(blocks) if block.startswith(_TITLE)), default=len(blocks))
    title, *below = blocks[place:] or [""]
    found = " ".join(title.split())
    verdict = re.split(r" next: ", found.removeprefix(_TITLE))[0]
    if is_repaired:
        return (Outcome.RIGHT if verdict.startswith(NOTHING) else Outcome.WRONG), verdict
    is_kind = verdict.startswith(_WORDS[report.kind])
    if report.kind in _ALSO_A_CAUSE:
        is_kind = is_kind and report.kind in verdict
    if not is_kind:
        coverage = [block for block in below if block.startswith(_COVERAGE)]
        if any(_NOT_LOOKED_AT.search(" ".join(block.split())) for block in (title, *coverage)):
            return Outcome.HALF, verdict
        return (Outcome.SILENT if verdict.startswith(NOTHING) else Outcome.WRONG), verdict
    if report.kind == "healthy":
        return Outcome.RIGHT, verdict
    shown = text if report.kind == "peak" else verdict
    is_placed = any(f"{report.path.name}({line})" in shown for line in report.lines)
    is_placed |= any(holder in shown for holder in report.holders)
    return (Outcome.RIGHT if is_placed and _is_amount(report, verdict) else Outcome.HALF), verdict


def _is_amount(report: Report, verdict: str) -> bool:
    if report.mebibytes is None or report.kind == "peak":
        return True
    low, high = report.mebibytes
    sizes = [float(number) * _MEBIBYTES[unit] for number, unit in _SIZE.findall(verdict)]
    return any(low * (1 - _ROOM) <= size <= high * (1 + _ROOM) for size in sizes)


def run_report(report: Report, device: str, folder: Path, *, is_repaired: bool) -> Judged:
    """Run a program under the tool and judge its first screen.

    Args:
        report: Which.
        device: `cpu` or `npu`.
        folder: An empty one, for what is written.
        is_repaired: Whether to run it as the thread repaired it.

    Raises:
        NotInstalledError: There is no such device.
    """
    target = device_of_tests(device)
    variables = {"DEV": device, **target.variables}
    if device == "npu" and report.memory:
        variables["VNPU_MEMORY"] = report.memory
    output = folder / "out"
    words = [*tool.TOOL, f"--output={output}", *report.options, "--", target.python, report.path.name]
    run = tool.run(
        [*words, *(["fixed"] if is_repaired else [])],
        output=output,
        variables=variables,
        folder=report.path.parent,
        timeout_s=180,
    )
    outcome, verdict = judge(report, run.stderr, is_repaired=is_repaired)
    return Judged(report, device, is_repaired, outcome, verdict)


def measure(chosen: Sequence[Report], *, with_repairs: bool = True) -> Iterable[Judged]:
    """Run programs, each on the first of its devices; those that lack something here are passed over with a line."""
    for report in chosen:
        for is_repaired in (False, True) if with_repairs and report.has_repair else (False,):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    yield run_report(report, report.devices[0], Path(folder), is_repaired=is_repaired)
                except NotInstalledError as missing:
                    sys.stderr.write(f"{report.name}: {missing}\n")


def as_measure(judged: Iterable[Judged], device: str) -> list[Measure]:
    """Sum up as rows of the table of measures: first screens of the faults, and of the repaired programs.

    Args:
        judged: The result of `measure`.
        device: Where the programs have their tensors.
    """
    rows = list(judged)
    found = []
    for what, is_repaired in (("first screens", False), ("repaired, silent", True)):
        of_kind = [row for row in rows if row.is_repaired is is_repaired]
        right = sum(row.outcome is Outcome.RIGHT for row in of_kind)
        claimed = sum(row.outcome in {Outcome.RIGHT, Outcome.WRONG} for row in of_kind)
        found.append(Measure("reports", what, device, "programs", len(of_kind), claimed, right))
    return found


def main() -> int:
    """Print what is said of each program; with names as arguments, of those whose name contains one."""
    names = sys.argv[1:]
    chosen = [one for one in reports() if not names or any(name in one.name for name in names)]
    for row in measure(chosen):
        repaired = " fixed" if row.is_repaired else ""
        sys.stdout.write(f"{row.outcome.value:6}  {row.report.name}{repaired} ({row.device})\n        {row.verdict}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
