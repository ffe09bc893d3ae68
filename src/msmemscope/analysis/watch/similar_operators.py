"""Operators with names like one that was asked for and never ran: of another overload or library, or mistyped."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST: Final = 3
_SHORTEST_PART: Final = 2
_LEAST_LIKENESS: Final = 0.75
_TORCH_OPERATORS: Final = "torch._ops."
_SEVERAL_PARTS: Final = 3


def similar_operators(wanted: str, ran: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are most like a name, the nearest first, at most three.

    Args:
        wanted: As in `--watch`.
        ran: Names of operators and kernels.
    """
    part = _part(wanted)
    ranked = []
    for place, name in enumerate(ran):
        rank = _rank(part, _part(name))
        if rank is not None:
            ranked.append((rank, place, name))
    return tuple(name for _, _, name in sorted(ranked)[:_MOST])


def _part(name: str) -> str:
    """Return the part of a name that says the operator's purpose, in small letters.

    `mm` of torch._ops.aten.mm.default, of aten.mm, and of 0_MmOperation/0_Mm; `neg` of the kernel Neg_b574e8fb_0.
    """
    if name.startswith(_TORCH_OPERATORS):
        part = name.removeprefix(_TORCH_OPERATORS).partition(".")[2].partition(".")[0]
    elif "/" in name:
        part = name.rpartition("/")[2]
    elif "." in name:
        parts = name.split(".")
        has_library = len(parts) >= _SEVERAL_PARTS or parts[0] == "aten"
        part = parts[1] if has_library else parts[0]
    elif name[:1].isupper():
        part = name.partition("_")[0]
    else:
        part = name
    return re.sub(r"^[_0-9]+|_+$", "", part).lower()


def _rank(wanted: str, other: str) -> float | None:
    """Return how far apart two parts are; None if they are not alike."""
    if not wanted or not other:
        return None
    if wanted == other:
        return 0.0
    likeness = difflib.SequenceMatcher(None, wanted, other, autojunk=False).ratio()
    if likeness >= _LEAST_LIKENESS:
        return 1 - likeness
    is_part = wanted in other or other in wanted
    return 1.0 if is_part and min(len(wanted), len(other)) >= _SHORTEST_PART else None
