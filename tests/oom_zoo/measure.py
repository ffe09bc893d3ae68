"""Runs the programs of the zoo, observed or bare, and compares what is said of them with the truth."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.analysis.peak.out_of_memory import analyze_out_of_memory
from msmemscope.formats.reading import load
from tests.oom_zoo.catalogue import REMEDIES, REPORTED_FAMILIES, SETTINGS
from tests.support import tool
from tests.support.devices import TestDevice, device_of_tests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from msmemscope.analysis.peak.cause import OutOfMemoryCause
    from tests.oom_zoo.catalogue import Program

ZOO = Path(__file__).parent
CARDS = {
    "npu": {
        "VNPU_COMPUTE": "none", "VNPU_MEMORY": "1GiB", "VNPU_DEVICES": "1", "VNPU_WORKSPACE": "16MiB",
        "VNPU_OVERHEAD": "RUNTIME=128MiB,AICPU=64MiB,OP=32MiB",
    },
    "cuda": {"EMULATED_CUDA_BYTES": str(1 << 30), "EMULATED_CUDA_CONTEXT": str(224 << 20)},
    "cpu": {},
}  # fmt: skip
"""A card of 1 GiB. The driver's modules or the context take 224 MiB of it, and operators only allocate."""

_REPORT = re.compile(r"^program=(\S+) pid=(\d+) outcome=(\w+)$", re.MULTILINE)
_LINE = re.compile(r"(.*)\((\d+)\)")


@dataclass(frozen=True)
class Row:
    """The findings about one program."""

    program: str
    cause: str
    """The true one."""
    found: str
    """The one that was named; empty if none was."""
    is_line_right: bool
    is_remedy_right: bool
    sentence: str
    need_bytes: int = 0
    """The most that the step would have had in use, as it was estimated; 0 where nothing was said."""

    @property
    def right(self) -> bool:
        """Whether cause, line and remedy are the true ones."""
        return self.cause == self.found and self.is_line_right and self.is_remedy_right


def measure(folder: Path, programs: Sequence[Program], device: str = "npu") -> list[Row]:
    """Run programs under the tool and judge what is said of each.

    Args:
        folder: An empty one, for what is written.
        programs: Of families of one kind of device.
        device: Where they have their tensors; those of the host have them on the CPU.

    Returns:
        A row per program, in their order.
    """
    processes = observe(folder, programs, device)
    return [_row(program, folder / "out", processes[program.identity]) for program in programs]


def observe(folder: Path, programs: Sequence[Program], device: str = "npu") -> dict[str, int]:
    """Run programs that all run out of memory under the tool; returns the process of each.

    Args:
        folder: An empty folder; files are written into its folder `out`.
        programs: Programs of families of one kind of device.
        device: As of `measure`.
    """
    target = _target(folder, programs, device)
    options = [f"--device={target.observed}", "--call-stack=python"]
    if all(program.family not in REPORTED_FAMILIES for program in programs):
        options.append("--analysis=")  # they mark their steps
    command = [*tool.TOOL, f"--output={folder / 'out'}", *options, "--", *_command(target, programs)]
    run = tool.run(command, output=folder / "out", variables=target.variables, folder=folder, timeout_s=900)
    outcomes = _outcomes(run.stdout)
    assert {outcome for _, outcome in outcomes.values()} == {"exhausted"}, f"{outcomes}\n{run.stdout}\n{run.stderr}"
    return {program: process_id for program, (process_id, _) in outcomes.items()}


def outcomes_of(folder: Path, programs: Sequence[Program], variables: Mapping[str, str]) -> dict[str, str]:
    """Run programs on the virtual NPU or the CPU without the tool; returns `finished` or `exhausted` for each.

    Args:
        folder: An empty one, for what is written.
        programs: Of families of one kind of device.
        variables: Changes of their environment.
    """
    target = _target(folder, programs, "npu")
    chosen = {**target.variables, **variables}
    run = tool.run(_command(target, programs), output=folder, variables=chosen, folder=folder, timeout_s=600)
    return {program: outcome for program, (_, outcome) in _outcomes(run.stdout).items()}


def precision_and_recall(rows: Iterable[Row]) -> dict[str, tuple[float, float]]:
    """Return both for each cause that is true of a program or was named."""
    judged = list(rows)
    found: dict[str, tuple[float, float]] = {}
    for cause in sorted({row.cause for row in judged} | {row.found for row in judged}):
        right = sum(row.right for row in judged if row.cause == cause)
        named = sum(row.found == cause for row in judged)
        true = sum(row.cause == cause for row in judged)
        found[cause] = (right / named if named else 1.0, right / true if true else 1.0)
    return found


def cause_of(output: Path, process_id: int) -> OutOfMemoryCause | None:
    """Return why memory ran out in a process; None if nothing is said of it."""
    (directory,) = output.glob(f"msmemscope_{process_id}_*_ascend*")
    failures = analyze_out_of_memory(load(directory)).failures
    return failures[-1].cause if failures else None


def _row(program: Program, output: Path, process_id: int) -> Row:
    cause = cause_of(output, process_id)
    if cause is None:
        return Row(program.identity, program.cause.value, "", is_line_right=False, is_remedy_right=False, sentence="")
    match = _LINE.match(cause.site)
    return Row(
        program.identity,
        program.cause.value,
        cause.cause.value,
        is_line_right=match is not None and (match[1], int(match[2])) == (str(program.path), program.line),
        is_remedy_right=cause.remedy is REMEDIES[program.cause] or {cause.remedy, REMEDIES[program.cause]} == SETTINGS,
        sentence=cause.verdict,
        need_bytes=cause.figures.need_bytes,
    )


def _command(target: TestDevice, programs: Sequence[Program]) -> list[object]:
    return [target.python, ZOO / "run_programs.py", *(program.identity for program in programs)]


def _outcomes(stdout: str) -> dict[str, tuple[int, str]]:
    return {identity: (int(process_id), outcome) for identity, process_id, outcome in _REPORT.findall(stdout)}


def _target(folder: Path, programs: Sequence[Program], device: str) -> TestDevice:
    """Returns the device of programs, with a card of a known size, and the other process that one of them calls."""
    if all(program.family == "host" for program in programs):
        device = "cpu"
    target = device_of_tests(device)
    others = {"LD_PRELOAD": str(_other_process(folder))} if device == "npu" else {}
    variables = {**target.variables, **CARDS[device], **others, "OOM_ZOO_DEVICE": device}
    return dataclasses.replace(target, variables=variables)


def _other_process(folder: Path) -> Path:
    """Builds what tells of another process on an NPU; the emulated CUDA runtime has such a function itself."""
    library = folder / "libanother.so"
    source = ZOO / "another_process.c"
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libdcmi.so", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library
