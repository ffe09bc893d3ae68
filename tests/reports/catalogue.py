"""The programs after public reports, and what is true of each: read from their headers, without importing them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.program_headers import read_header

PROGRAMS: Final = Path(__file__).with_name("programs")
TOPICS: Final = ("training", "inference", "serving", "reinforcement learning", "data loading", "distributed")
KINDS: Final = (
    "leak", "growth", "peak", "out of memory", "fragmentation", "reserved", "overwritten", "host memory", "healthy",
)  # fmt: skip


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
    header = read_header(path)
    fields = header.fields
    return Report(
        path=path,
        link=fields["report"],
        topic=fields["topic"],
        kind=fields["kind"],
        symptom=fields["symptom"],
        cause=fields["cause"],
        devices=tuple(fields["devices"]),
        memory=fields.get("memory", ""),
        holders=tuple(fields["holder"]),
        mebibytes=header.mebibytes,
        options=tuple(fields["options"]),
        has_repair=fields["fixed"],
        lines=header.lines,
    )
