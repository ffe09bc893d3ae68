"""Runs the zoo of host memory as users would, and judges each first line: `python -m tests.host_zoo.measure [names]`.

A right first line about growth says that host memory grows, by nearly the true amount. It also names a line to blame or
the holder. A line is half right if it only says that host memory grows. Silence is a first line that finds nothing: of
a healthy program it is right. Everything else is wrong. The truth is what the program counted in that run.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.host_zoo.catalogue import KEPT_HEAP, HostProgram, host_programs
from tests.reports.measure import NOTHING, Outcome
from tests.support import tool
from tests.support.measures import Measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DEVICE: Final = "cpu"
_TITLE: Final = "msmemscope: "
_GROWTH: Final = "host memory"
"""How a first line about growth begins."""
_HELD_BY: Final = "held by "
"""The words before the name of the holder."""
_KEPT_FREE: Final = "kept by the C library"
"""The words of a first line about memory that is kept though it is free: no line has made it."""
_TRUTH: Final = re.compile(r"^truth: ([\d.]+) resident: (-?[\d.]+)$", re.MULTILINE)
_SIZE: Final = re.compile(r"([\d.]+) (KiB|MiB|GiB)")
_MEBIBYTES: Final = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}
_ROOM: Final = 0.1
"""Of the truth, by which an amount may differ from it."""


@dataclass(frozen=True)
class Judged:
    """The first line about one program."""

    program: HostProgram
    outcome: Outcome
    verdict: str
    """The first line."""
    truth_mebibytes: float
    """The amount that the program keeps by its own count."""
    resident_mebibytes: float
    """By which its resident memory grew."""


def first_line(screen: str) -> str:
    """Return the first sentence of the summary at the end of a run, without the name of the tool."""
    blocks = re.split(r"\n\s*\n", screen.strip())
    # Lines of the run before the summary begin alike: a blank line stands between.
    title = next((block for block in reversed(blocks) if block.startswith(_TITLE)), "")
    return " ".join(title.split()).removeprefix(_TITLE).split(" next: ")[0]


def judge(program: HostProgram, verdict: str, truth_mebibytes: float) -> Outcome:
    """Judge what the tool says of a program.

    Args:
        program: With its lines and holders.
        verdict: The first line.
        truth_mebibytes: By which its memory grew.
    """
    is_silent = verdict.startswith(NOTHING)
    if program.is_healthy:
        return Outcome.RIGHT if is_silent else Outcome.WRONG
    if not verdict.startswith(_GROWTH):
        return Outcome.SILENT if is_silent else Outcome.WRONG
    is_placed = any(f"{program.path.name}({line})" in verdict for line in program.lines)
    held_by = verdict.partition(_HELD_BY)[2]  # the name of a file can have the word, too
    is_placed |= any(holder in held_by for holder in program.holders)
    is_placed |= program.what == KEPT_HEAP and _KEPT_FREE in verdict
    size = _SIZE.search(verdict)
    grown = float(size[1]) * _MEBIBYTES[size[2]] if size is not None else 0.0
    is_near = abs(grown - truth_mebibytes) <= _ROOM * truth_mebibytes
    return Outcome.RIGHT if is_placed and is_near else Outcome.HALF


def run_program(program: HostProgram, folder: Path, on_npu: Mapping[str, str] | None = None) -> Judged:
    """Run a program under the tool and judge its first line.

    Args:
        program: Which.
        folder: An empty one, for what is written.
        on_npu: The variables of the virtual NPU, if its tensors are to be there; None: they are on the CPU.

    Raises:
        ValueError: It did not say what it keeps: it failed.
    """
    output = folder / "out"
    runner = () if on_npu is None else (Path(__file__).with_name("on_npu.py"),)
    words = [*tool.TOOL, f"--output={output}", "--", sys.executable, *runner, program.path.name, *program.arguments]
    run = tool.run(words, output=output, folder=program.path.parent, variables=on_npu)
    counted = _TRUTH.search(run.stdout)
    if counted is None:
        message = f"{program.name} failed: {run.stderr[-2000:]}"
        raise ValueError(message)
    truth, resident = float(counted[1]), float(counted[2])
    verdict = first_line(run.stderr)
    return Judged(program, judge(program, verdict, truth), verdict, truth, resident)


def measure(chosen: Sequence[HostProgram]) -> Iterable[Judged]:
    """Run programs, one after the other."""
    for program in chosen:
        with tempfile.TemporaryDirectory() as folder:
            yield run_program(program, Path(folder))


def as_measure(judged: Iterable[Judged], device: str) -> list[Measure]:
    """Sum up as rows of the table of measures: growth that is found, and healthy programs without a finding.

    Every first line that finds something counts as found, also of a healthy program.

    Args:
        judged: The result of `measure`.
        device: Where the programs have their tensors.
    """
    rows = list(judged)
    growing = [row for row in rows if not row.program.is_healthy]
    healthy = [row for row in rows if row.program.is_healthy]
    found = sum(row.outcome is not Outcome.SILENT for row in growing)
    found += sum(row.outcome is Outcome.WRONG for row in healthy)
    right, silent = (sum(row.outcome is Outcome.RIGHT for row in part) for part in (growing, healthy))
    return [
        Measure("host zoo", "growth of host memory", device, "programs", len(growing), found, right),
        Measure("host zoo", "healthy, silent", device, "programs", len(healthy), len(healthy), silent),
    ]


def main() -> int:
    """Print what is said of each program; with names as arguments, of those whose name contains one."""
    names = sys.argv[1:]
    rows = []
    for row in measure([one for one in host_programs() if not names or any(name in one.name for name in names)]):
        rows.append(row)
        counts = f"keeps {row.truth_mebibytes:.1f} MiB, resident {row.resident_mebibytes:+.1f} MiB"
        sys.stdout.write(f"{row.outcome.value:6}  {row.program.name} ({DEVICE}): {counts}\n        {row.verdict}\n")
        sys.stdout.flush()
    growth, _ = as_measure(rows, DEVICE)
    sys.stdout.write(f"precision {growth.precision:.4f}, recall {growth.recall:.4f}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
