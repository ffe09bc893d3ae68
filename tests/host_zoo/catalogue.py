"""The programs of the zoo, and what is true of each: read from their headers, without importing them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.program_headers import read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS: Final = Path(__file__).with_name("programs")
HEALTHY: Final = "healthy"
KINDS: Final = ("host memory", HEALTHY)
FIXED: Final = "fixed"
"""The argument with which a program does not keep what it keeps without."""
KEPT_HEAP: Final = "kept heap"
"""Memory that the program has freed and the C library keeps."""
THINGS: Final = (
    "Python objects", "NumPy arrays", "native memory", "threads", "shared memory", "mapped memory", KEPT_HEAP,
)  # fmt: skip


@dataclass(frozen=True)
class HostProgram:
    """One program of the zoo, as it is or repaired."""

    path: Path
    arguments: tuple[str, ...]
    kind: str
    """One of KINDS."""
    cause: str
    what: str
    """One of THINGS: what grows, or seems to."""
    holders: tuple[str, ...]
    """The name of the holder has one of these words; empty where no container of Python holds it."""
    mebibytes: tuple[float, float] | None
    """Between which its own count of what it keeps lies; None of a healthy one."""
    lines: frozenset[int]
    """To blame; any of them counts."""

    @property
    def name(self) -> str:
        """File and arguments: `answer_log fixed`."""
        return " ".join((self.path.stem, *self.arguments))

    @property
    def is_healthy(self) -> bool:
        """Whether nothing may be found."""
        return self.kind == HEALTHY


def host_programs() -> list[HostProgram]:
    """Read all programs, by name.

    Raises:
        KeyError: A header lacks a field.
        ValueError: A value is no Python literal.
    """
    return [program for path in sorted(PROGRAMS.glob("*.py")) for program in _read(path)]


def _read(path: Path) -> Iterator[HostProgram]:
    header = read_header(path)
    fields = header.fields
    yield HostProgram(
        path=path,
        arguments=(),
        kind=fields["kind"],
        cause=fields["cause"],
        what=fields["what"],
        holders=tuple(fields["holder"]),
        mebibytes=header.mebibytes,
        lines=header.lines,
    )
    if FIXED in fields:
        yield HostProgram(
            path=path,
            arguments=(FIXED,),
            kind=HEALTHY,
            cause=fields[FIXED],
            what=fields["what"],
            holders=(),
            mebibytes=None,
            lines=frozenset(),
        )
