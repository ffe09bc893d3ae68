"""Compares what is found in runs of the zoo with the truth."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from msmemscope.analysis.leaks.growth import GrowthBasis
from msmemscope.analysis.leaks.overview import find_leaks
from msmemscope.formats.reading import load_all

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from msmemscope.analysis.leaks.overview import LeakOverview
    from msmemscope.analysis.leaks.step_leaks import StepLeakOptions
    from tests.leak_zoo.catalogue import Program

LONG_LEAK_STEPS = 4
"""Steps from which on a leak must be found, and nothing else be called one."""

_REPORT = re.compile(r"^program=(\S+) pid=(\d+) status=(-?\d+)$", re.MULTILINE)
_LINE = re.compile(r"(.*)\((\d+)\)")


@dataclass(frozen=True)
class MeasureRow:
    """One line of a table of measures."""

    measure: str
    device: str
    programs: int
    true: int
    """What is there to be found."""
    found: int
    """Of that."""
    false: int
    """What was found and is not there."""

    @property
    def precision(self) -> float:
        """Of what was found, the share that is true."""
        return self.found / (self.found + self.false) if self.found + self.false else 1.0

    @property
    def recall(self) -> float:
        """Of what is true, the share that was found."""
        return self.found / self.true if self.true else 1.0


@dataclass
class Score:
    """Call sites that leak: those found and those that are true."""

    found_true: int = 0
    found_false: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    programs: int = 0

    @property
    def precision(self) -> float:
        """Of the sites found, the share that leaks."""
        found = self.found_true + len(self.found_false)
        return self.found_true / found if found else 1.0

    @property
    def recall(self) -> float:
        """Of the sites that leak, the share that was found."""
        true = self.found_true + len(self.missed)
        return self.found_true / true if true else 1.0

    def __str__(self) -> str:
        """One line for the log of the tests."""
        return (
            f"leak zoo: {self.programs} programs, {self.found_true + len(self.missed)} leaking call sites, "
            f"precision {self.precision:.3f}, recall {self.recall:.3f}"
        )


def process_ids(stdout: str) -> dict[str, int]:
    """Read what `run_programs.py` printed: program to process.

    Raises:
        AssertionError: If a program failed.
    """
    found = {}
    for identity, process_id, status in _REPORT.findall(stdout):
        assert status == "0", f"{identity} failed with status {status}\n{stdout}"
        found[identity] = int(process_id)
    return found


def found_leaks(output: Path, process_id: int, options: StepLeakOptions | None = None) -> LeakOverview:
    """Read the capture of a process and find its leaks."""
    (directory,) = output.glob(f"msmemscope_{process_id}_*_ascend*")
    (dataset,) = load_all(directory)
    return find_leaks(dataset, options=options)


def leaking_lines(program: Program, found: LeakOverview) -> set[int | str]:
    """Lines of the program that leaked in at least LONG_LEAK_STEPS, or grow where there are no steps.

    Text for a call site elsewhere.
    """
    lines: set[int | str] = set()
    sites = found.step_leaks.leaking_sites.filter(pl.col("leaking_steps") >= LONG_LEAK_STEPS)["site"].to_list()
    if found.slow_leaks.basis is GrowthBasis.PARTS:
        sites += found.slow_leaks.sites["site"].to_list()
    for site in sites:
        match = _LINE.match(site)
        lines.add(int(match[2]) if match is not None and match[1] == str(program.path) else site)
    return lines


def score(
    programs: Iterable[Program], processes: dict[str, int], output: Path, options: StepLeakOptions | None = None
) -> Score:
    """Score the runs of some programs."""
    result = Score()
    for program in programs:
        lines = leaking_lines(program, found_leaks(output, processes[program.identity], options))
        if program.leaking_lines:
            # What a thread of autograd allocates has no line of the program: its operator is the site, and no mark is.
            lines = {line for line in lines if isinstance(line, int)}
        result.programs += 1
        result.found_true += len(lines & program.leaking_lines)
        result.found_false.extend(f"{program.identity}: {line}" for line in lines - program.leaking_lines)
        result.missed.extend(f"{program.identity}: {line}" for line in program.leaking_lines - lines)
    return result


def measure(output: Path, processes: dict[str, int], programs: Iterable[Program], device: str) -> list[MeasureRow]:
    """Sum up runs of the zoo as rows of a table: programs that mark their steps, and those that say nothing of steps.

    Args:
        output: Where the captures are.
        processes: What `process_ids` read.
        programs: That were run.
        device: Where they had their tensors.
    """
    rows = []
    for name, is_unmarked in (("leaks over marked steps", False), ("leaks without an edit", True)):
        chosen = [program for program in programs if (program.family == "unmarked") is is_unmarked]
        result = score(chosen, processes, output)
        true = result.found_true + len(result.missed)
        rows.append(MeasureRow(name, device, result.programs, true, result.found_true, len(result.found_false)))
    return rows
