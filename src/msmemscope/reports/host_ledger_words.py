"""The host memory of a process in two lines, for the summary of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.analysis.host.host_ledger import BEFORE, EARLIER, KEPT_FREE
from msmemscope.units import format_bytes, format_signed_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.host.host_ledger import HostLedger

_SHORT: Final = {BEFORE: "libraries", EARLIER: "before the log", KEPT_FREE: "kept free"}
_LEAST_PART: Final = 0.01
"""Of the resident memory, that a part must have to be named."""


def host_memory_heading(found: HostLedger) -> str:
    """Return the resident memory of a process at its peak and at its end, and the limit that it is under.

    Args:
        found: With figures.
    """
    limit = f", limit {format_bytes(found.group_limit_bytes)}" if found.group_limit_bytes else ""
    return (
        f"Host memory: {format_bytes(found.peak_bytes)} at the peak, {format_bytes(found.end_bytes)} at the end{limit}"
    )


def host_memory_parts(found: HostLedger, width: int) -> str:
    """Return the largest parts of it at the peak, with their bytes: as many as one line has room for.

    Args:
        found: With figures.
        width: Columns of the line.
    """
    named = [
        (part, size)
        for part, size in found.parts.select("part", "peak_bytes").iter_rows()
        if abs(size) >= _LEAST_PART * found.peak_bytes
    ]
    named.sort(key=lambda one: -abs(one[1]))
    texts = [f"{_SHORT.get(part, part)} {format_signed_bytes(size)}" for part, size in named]
    while len(texts) > 1 and len(", ".join(texts)) > width:
        texts.pop()
    return ", ".join(texts)
