"""Compares what is found in runs of the zoo with the truth."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from msmemscope.analysis.leaks.growth import GrowthBasis
from msmemscope.analysis.leaks.overview import find_leaks
from msmemscope.formats.reading import load_all
from tests.support import tool
from tests.support.devices import device_of_tests
from tests.support.measures import Measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from msmemscope.analysis.leaks.overview import LeakOverview
    from msmemscope.analysis.leaks.step_leaks import StepLeakOptions
    from tests.leak_zoo.catalogue import Program

LONG_LEAK_STEPS = 4
"""Steps from which on a leak must be found, and nothing else be called one."""

RUNNER = Path(__file__).parents[1] / "support" / "run_programs.py"
_REPORT = re.compile(r"^program=(\S+) pid=(\d+) status=(-?\d+)$", re.MULTILINE)
_LINE = re.compile(r"(.*)\((\d+)\)")


@dataclass
class Score:
    """Call sites that leak: those found and those that are true."""

    found_true: int = 0
    found_false: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    programs: int = 0

    def measure(self, what: str, device: str) -> Measure:
        """Sum it up as a row of the table of measures."""
        found, true = self.found_true + len(self.found_false), self.found_true + len(self.missed)
        return Measure("leaks", what, device, "call sites", true, found, self.found_true)


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
            # An allocation in a thread of autograd has no line of the program. Its operator is the site, and no mark
            # is.
            lines = {line for line in lines if isinstance(line, int)}
        result.programs += 1
        result.found_true += len(lines & program.leaking_lines)
        result.found_false.extend(f"{program.identity}: {line}" for line in lines - program.leaking_lines)
        result.missed.extend(f"{program.identity}: {line}" for line in program.leaking_lines - lines)
    return result


def run_zoo(output: Path, programs: Sequence[Program], device: str, *, leaves_results: bool = True) -> dict[str, int]:
    """Run programs under the tool.

    Args:
        output: Where their captures go.
        programs: The programs to run.
        device: Where they have their tensors: `cpu`, `npu` or `cuda`.
        leaves_results: Whether dumps and reports are written, too, besides the event logs.

    Returns:
        Program to process.

    Raises:
        NotInstalledError: If there is no such device.
        AssertionError: If a program failed.
    """
    variables = {"LEAK_ZOO_DEVICE": device}
    if not leaves_results:
        variables["LEAVES_NO_RESULTS"] = "1"
    target = device_of_tests(device)
    variables |= target.variables
    options = [f"--device={target.observed}", "--call-stack=python", f"--output={output}"]
    identities = [program.identity for program in programs]
    command = [*tool.TOOL, *options, "--", target.python, RUNNER, "tests.leak_zoo", *identities]
    finished = tool.run(command, output=output, variables=variables, timeout_s=400)
    expected_status = 0 if leaves_results else -signal.SIGKILL
    assert finished.returncode == expected_status, f"{finished.stdout}\n{finished.stderr}"
    processes = process_ids(finished.stdout)
    assert set(processes) == set(identities)
    return processes


def measure(output: Path, processes: dict[str, int], programs: Iterable[Program], device: str) -> list[Measure]:
    """Sum up runs of the zoo: programs that mark their steps, and those that say nothing of steps.

    Args:
        output: Where the captures are.
        processes: The result of `run_zoo`.
        programs: That were run.
        device: Where they had their tensors.
    """
    all_programs = list(programs)
    return [
        score([one for one in all_programs if (one.family == "unmarked") is is_unmarked], processes, output).measure(
            what, device
        )
        for what, is_unmarked in (("over marked steps", False), ("without an edit", True))
    ]
