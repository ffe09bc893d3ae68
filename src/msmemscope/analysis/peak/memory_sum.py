"""The parts of memory when an allocation failed: one sum, in one unit, whose parts add up as they are written."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.model.devices import device_name
from msmemscope.recording.failed_allocations import is_in_pieces
from msmemscope.units import adding_up, format_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.peak.figures import MemoryFigures

_OF_TORCH: Final = "torch."
"""The name of the refuser where torch asked no driver."""


@dataclasses.dataclass(frozen=True)
class MemorySum:
    """Parts of memory that add up to a whole."""

    parts: tuple[tuple[str, int], ...]
    """The name of each part, and its bytes; empty parts are left out, except for the first of all."""
    whole_bytes: int
    whole: str
    """The name of the whole: `npu:0`, `RLIMIT_AS`, `the pool`."""

    @property
    def text(self) -> str:
        """The sum: `736.0 MiB in use + 288.0 MiB free = 1024.0 MiB of npu:0`."""
        sizes, whole = adding_up([size for _, size in self.parts])
        parts = " + ".join(f"{size} {word}" for size, (word, _) in zip(sizes, self.parts, strict=True))
        return f"{parts} = {whole} of {self.whole}"


def memory_sum(figures: MemoryFigures) -> MemorySum | None:
    """Return the parts of the memory that refused an allocation; None where figures lack or contradict each other."""
    in_use, free = figures.in_use_bytes, figures.free_bytes
    idle = figures.slack_bytes or 0
    if figures.capacity_bytes is None or free is None:
        if figures.reserved_bytes is None or figures.reserved_bytes < in_use:
            return None
        return _sum([("in use", in_use), ("reserved and idle", idle)], figures.reserved_bytes, "the pool")
    rest = figures.capacity_bytes - free - in_use - idle - figures.pinned_bytes
    if rest < 0:
        return None  # blocks that nobody has touched yet take nothing of the machine
    parts = [("in use", in_use), ("pinned", figures.pinned_bytes), ("reserved and idle", idle)]
    if figures.limit:
        parts.append(("of the rest of the process", rest))
    elif figures.device < 0:
        parts.append(("of anything else", rest))
    else:
        others = min(figures.other_bytes or 0, rest)
        parts += [("outside of the pools", rest - others), ("of other processes", others)]
    where = figures.limit or ("the machine" if figures.device < 0 else device_name(figures.device))
    return _sum([*parts, ("free", free)], figures.capacity_bytes, where)


def sum_sentence(figures: MemoryFigures) -> str:
    """Write the request, the sum, and the limit that refused it where the sum lacks that; empty without a sum."""
    found = memory_sum(figures)
    if found is None:
        return ""
    return f"{least_of(figures)}{format_bytes(figures.request_bytes)} asked for; {found.text}{_refused(figures)}"


def least_of(figures: MemoryFigures) -> str:
    """Return `at least ` where memory was asked for in pieces: nobody knows how many more would have come."""
    return "at least " if is_in_pieces(figures.function) else ""


def _refused(figures: MemoryFigures) -> str:
    if figures.function.startswith(_OF_TORCH):
        reserved = figures.reserved_bytes
        less = f", which is less than {format_bytes(reserved + figures.request_bytes)}" if reserved is not None else ""
        return f"; a limit of torch refused it (set_per_process_memory_fraction){less}"
    if figures.machine_free_bytes is not None:
        return f"; {format_bytes(figures.machine_free_bytes)} of the machine were free"
    free = figures.reported_free_bytes
    if free is None:
        return ""
    more = f"; {format_bytes(free)} of the device were free"
    return f"{more}, so a limit refused it (of torch, or a quota)" if figures.is_refused_with_room else more


def _sum(parts: list[tuple[str, int]], whole: int, where: str) -> MemorySum:
    there = [(word, size) for word, size in parts if size or word == "free"]
    return MemorySum(tuple(there or parts[:1]), whole, where)
