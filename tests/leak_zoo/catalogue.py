"""The programs of the zoo and their truth, read from their sources without importing them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

FAMILIES = ("containers", "functions", "autograd", "training", "unmarked")
"""Modules with programs: their public functions. Those of the last one say nothing of steps."""
DEVICE_FAMILIES = (*FAMILIES, "pinned")
"""Those that run where there is a device."""
LOADED_ON_THE_CPU = frozenset({"training.batches_kept"})
"""Programs whose leak is another line where batches are copied to a device."""

_LEAK = re.compile(r"#\s*LEAK\b")


@dataclass(frozen=True)
class Program:
    """One program."""

    family: str
    name: str
    path: Path
    leaking_lines: frozenset[int]
    """Lines that leak; none for a program that does not."""

    @property
    def identity(self) -> str:
        """How it is asked for: `containers.forgotten_list`."""
        return f"{self.family}.{self.name}"


def programs_of(device: str) -> list[Program]:
    """Returns the programs whose marked lines leak where tensors are on a device: `cpu`, `npu` or `cuda`."""
    if device == "cpu":
        return programs()
    return [program for program in programs(DEVICE_FAMILIES) if program.identity not in LOADED_ON_THE_CPU]


def programs(families: tuple[str, ...] = FAMILIES) -> list[Program]:
    """Returns the programs of some families, one after the other."""
    found = []
    for family in families:
        path = Path(__file__).with_name(f"{family}.py")
        text = path.read_text(encoding="utf-8")
        marked = {number for number, line in enumerate(text.splitlines(), 1) if _LEAK.search(line)}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                found.append(Program(family, node.name, path, frozenset(marked.intersection(lines))))
    return found
