"""The programs of the zoo, and what is true of each: read from their headers, without importing them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.program_headers import read_header

PROGRAMS: Final = Path(__file__).with_name("programs")
KINDS: Final = ("host memory", "healthy")
KEPT_HEAP: Final = "kept heap"
"""Memory that the program has freed and the C library keeps."""
THINGS: Final = (
    "Python objects", "NumPy arrays", "native memory", "threads", "shared memory", "mapped memory", KEPT_HEAP,
)  # fmt: skip


@dataclass(frozen=True)
class HostProgram:
    """One program of the zoo."""

    path: Path
    kind: str
    """One of KINDS."""
    cause: str
    what: str
    """One of THINGS: what grows, or seems to."""
    holders: tuple[str, ...]
    """Words of which the name of the holder has one; empty where no container of Python holds it."""
    mebibytes: tuple[float, float] | None
    """Between which its own count of what it keeps lies; None of a healthy one."""
    lines: frozenset[int]
    """To blame; any of them counts."""

    @property
    def name(self) -> str:
        """Folder and file: `leaks/answer_log`."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def is_healthy(self) -> bool:
        """Whether nothing may be found."""
        return self.kind == "healthy"


def host_programs() -> list[HostProgram]:
    """Read all programs, by name.

    Raises:
        KeyError: A header lacks a field.
        ValueError: A value is no Python literal.
    """
    return [_read(path) for path in sorted(PROGRAMS.glob("*/*.py"))]


def _read(path: Path) -> HostProgram:
    header = read_header(path)
    return HostProgram(
        path=path,
        kind=header.fields["kind"],
        cause=header.fields["cause"],
        what=header.fields["what"],
        holders=tuple(header.fields["holder"]),
        mebibytes=header.mebibytes,
        lines=header.lines,
    )
