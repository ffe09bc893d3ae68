"""The programs of the zoo and their truth, read from their sources without importing them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from msmemscope.analysis.peak.cause_words import Cause, Remedy

FAMILIES = ("training", "device", "serving")
"""Modules with programs of a device: their public functions."""
ONLY_ON_NPUS = frozenset({"device.workspace_growth"})
"""Programs whose cause other devices do not have."""
HOST_FAMILIES = ("host",)
"""Modules with programs of the CPU."""
REPORTED_FAMILIES = ("reported",)
"""Modules with programs after public reports, of a device, that mark no steps."""
CLOSING_GAPS_HELPS = frozenset({Cause.SPLIT, Cause.PINNED_SEGMENTS, Cause.OTHER_STREAM})
"""Causes of programs that finish with expandable segments; the others do not."""
REMEDIES = {
    Cause.LEAK: Remedy.RELEASE_KEPT,
    Cause.KEPT: Remedy.RELEASE_KEPT,
    Cause.FAILED_ATTEMPT: Remedy.LEAVE_EXCEPTION,
    Cause.CYCLES: Remedy.COLLECT_GARBAGE,
    Cause.SECOND_MODEL: Remedy.RELEASE_MODEL,
    Cause.KV_CACHE: Remedy.BOUND_CACHE,
    Cause.BOUNDED: Remedy.BOUND_CACHE,
    Cause.BATCH_JUMP: Remedy.SMALLER_BATCH,
    Cause.MORE_BLOCKS: Remedy.FEWER_BLOCKS,
    Cause.OPTIMIZER_STATE: Remedy.LIGHTER_OPTIMIZER,
    Cause.CHECKPOINT: Remedy.CHECKPOINT_ON_HOST,
    Cause.WORKSPACE: Remedy.SMALLER_WORKSPACE,
    Cause.MODEL_TOO_LARGE: Remedy.SPLIT_MODEL,
    Cause.SPLIT: Remedy.EXPANDABLE_SEGMENTS,
    Cause.PINNED_SEGMENTS: Remedy.LONG_LIVED_FIRST,
    Cause.OTHER_STREAM: Remedy.ONE_STREAM,
    Cause.RESERVED_BY_POOL: Remedy.EMPTY_CACHE,
    Cause.LIMIT: Remedy.RAISE_LIMIT,
    Cause.OTHER_PROCESS: Remedy.FREE_DEVICE,
    Cause.PINNED_HOST: Remedy.REUSE_PINNED,
    Cause.ONE_BLOCK: Remedy.SMALLER_BLOCK,
    Cause.REAL_SHORTAGE: Remedy.USE_LESS,
}
"""The remedy for each cause, as a program's author should hear it."""
SETTINGS = {Remedy.EXPANDABLE_SEGMENTS, Remedy.ALLOCATOR_SETTING}
"""Either helps against splitting: which one serves the request twice depends on the room of the device."""
BY_DAY = (
    "training.batch_jump", "training.leak", "training.checkpoint_copied", "device.fragmentation_by_splitting",
    "device.two_streams", "device.cached_beside_an_arena", "device.other_process",
)  # fmt: skip
"""Those that take a minute of processor time together; all run at night."""

_CAUSE = re.compile(r"#\s*CAUSE (.+)$")


@dataclass(frozen=True)
class Program:
    """One program."""

    family: str
    name: str
    path: Path
    cause: Cause
    line: int
    """The line to blame."""

    @property
    def identity(self) -> str:
        """How it is asked for: `training.leak`."""
        return f"{self.family}.{self.name}"


def programs_of(device: str) -> list[Program]:
    """Returns the programs of a device: `npu`, `cuda`, or those of the host."""
    found = programs(HOST_FAMILIES if device == "cpu" else FAMILIES)
    return found if device == "npu" else [program for program in found if program.identity not in ONLY_ON_NPUS]


def programs(families: tuple[str, ...] = FAMILIES) -> list[Program]:
    """Returns the programs of some families, one after the other."""
    found = []
    for family in families:
        path = Path(__file__).with_name(f"{family}.py")
        text = path.read_text(encoding="utf-8")
        marks = {number: match[1] for number, line in enumerate(text.splitlines(), 1) if (match := _CAUSE.search(line))}
        own: dict[str, tuple[int, str]] = {}
        shared: tuple[int, str] | None = None
        for node in ast.parse(text).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            inside = [(number, cause) for number, cause in marks.items() if number in lines]
            if isinstance(node, ast.ClassDef):
                shared = inside[0] if inside else shared
            elif not node.name.startswith("_"):
                # Programs without a mark of their own run the model that has one.
                mark = inside[0] if inside else shared
                assert mark is not None, node.name
                own[node.name] = mark
        found += [Program(family, name, path, Cause(cause), line) for name, (line, cause) in own.items()]
    return found
