"""The words about a process that was ended, or lost, for lack of host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.analysis.host.host_ledger import KEPT_FREE
from msmemscope.analysis.host.host_samples import TENSORS
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from msmemscope.reports.run_summary import ProcessSummary


def parts_at_its_end(process: ProcessSummary) -> list[str]:
    """Return the largest parts of its memory besides CPU tensors; none where these had the most, or nothing is known.

    Args:
        process: That was ended for lack of host memory.
    """
    ledger = process.host_memory
    parts = ledger.largest_of_program() if ledger is not None else []
    if not parts or parts[0][0] == TENSORS:
        return []
    short = {KEPT_FREE: "memory that the C library keeps"}
    return [f"{format_bytes(size)} of {short.get(part, part)}" for part, size in parts]


def words_of_end(process: ProcessSummary) -> str:
    """Return the verdict on such a process: the limit, and the memory that the process had.

    Args:
        process: That was ended for lack of host memory.
    """
    limit, ledger = process.killed_at_bytes, process.host_memory
    if limit is not None:
        may = f"its control group may have {format_bytes(limit)}" if limit else "the machine had no more"
        end = f"the kernel ended the process, {may}"
    else:
        used, of = (ledger.group_end_bytes, ledger.group_limit_bytes) if ledger is not None else (0, 0)
        end = f"the process was lost when its control group used {format_bytes(used)} of {format_bytes(of)}"
    if parts := parts_at_its_end(process):
        return f"out of memory on cpu: {end}; it had {', '.join(parts)}"
    peaks = process.overview.peaks if process.overview is not None else ()
    tensors = max((peak.peak_bytes for peak in peaks if (peak.device, peak.pool) == (DEVICE_CPU, Pool.HOST)), default=0)
    return f"out of memory on cpu: {end}; CPU tensors had {format_bytes(tensors)} at most"
