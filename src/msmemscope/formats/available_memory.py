"""How much memory this process can still take, so that an input that needs more is refused instead of ending it."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MACHINE: Final = Path("/proc/meminfo")
_OWN_SIZE: Final = Path("/proc/self/statm")
_GROUP: Final = Path("/sys/fs/cgroup")
"""Of a container; of the root group there are no such files."""


def available_memory_bytes() -> int | None:
    """Return how much memory this process can take beyond what it has; None if nothing is known."""
    found = [*_of_machine(), *_of_group(), *_of_limit()]
    return max(min(found), 0) if found else None


def _of_machine() -> Iterator[int]:
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", _text(_MACHINE), re.MULTILINE)
    if match:
        yield int(match[1]) << 10


def _of_group() -> Iterator[int]:
    most, used = (_text(_GROUP / name).strip() for name in ("memory.max", "memory.current"))
    if most.isdecimal() and used.isdecimal():
        yield int(most) - int(used)


def _of_limit() -> Iterator[int]:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(_OWN_SIZE).partition(" ")[0]
    if soft != resource.RLIM_INFINITY and pages.isdecimal():
        yield soft - int(pages) * resource.getpagesize()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
