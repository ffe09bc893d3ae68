"""The programs after public reports, and what is true of each: read from their headers, without importing them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).with_name("programs")
TOPICS: Final = ("training", "inference", "serving", "reinforcement learning", "data loading", "distributed")
KINDS: Final = (
    "leak", "growth", "peak", "out of memory", "fragmentation", "reserved", "overwritten", "host memory", "healthy",
)  # fmt: skip

_FIELD: Final = re.compile(r"# (\w+): (.+)")
_BLAMED: Final = re.compile(r"#\s*BLAME\b")


@dataclass(frozen=True)
class Report:
    """One public report as a program."""

    path: Path
    link: str
    topic: str
    """One of TOPICS."""
    kind: str
    """One of KINDS."""
    symptom: str
    cause: str
    devices: tuple[str, ...]
    """Where its tensors can be; the first one by default."""
    memory: str
    """Of the virtual card, `768MiB`; empty where it does not matter."""
    holders: tuple[str, ...]
    """Any of them must be named as what keeps the memory; empty where there is no single holder."""
    mebibytes: tuple[float, float] | None
    """Between which the amount of the first line lies; None where no amount is sensible."""
    options: tuple[str, ...]
    """Of the tool, which such a user would give."""
    has_repair: bool
    """Whether the argument `fixed` runs it as the thread repaired it."""
    lines: frozenset[int]
    """To blame; any of them counts."""

    @property
    def name(self) -> str:
        """Folder and file: `allocator/varied_lengths`."""
        return f"{self.path.parent.name}/{self.path.stem}"


def reports() -> list[Report]:
    """Read all programs, by name.

    Raises:
        KeyError: A header lacks a field.
        ValueError: A value is no Python literal.
    """
    return [_read(path) for path in sorted(PROGRAMS.glob("*/*.py"))]


def _read(path: Path) -> Report:
    text = path.read_text(encoding="utf-8").splitlines()
    header = {}
    for line in text:
        match = _FIELD.fullmatch(line)
        if match is None:
            break
        header[match[1]] = ast.literal_eval(match[2])
    blamed = frozenset(number for number, line in enumerate(text, 1) if _BLAMED.search(line))
    amounts = header["mebibytes"]
    return Report(
        path=path,
        link=header["report"],
        topic=header["topic"],
        kind=header["kind"],
        symptom=header["symptom"],
        cause=header["cause"],
        devices=tuple(header["devices"]),
        memory=header.get("memory", ""),
        holders=tuple(header["holder"]),
        mebibytes=(float(amounts[0]), float(amounts[1])) if amounts else None,
        options=tuple(header["options"]),
        has_repair=header["fixed"],
        lines=blamed,
    )
