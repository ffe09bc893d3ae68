"""The words about ranks that ended before the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.cluster.answer.ranks import INDEX, who_text
from msmemscope.cluster.summary import ProcessEnd
from msmemscope.reports.report_text import counted
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from msmemscope.cluster.answer.job_answer import JobAnswer

_SECOND_NS: Final = 1_000_000_000
_MOST_NODES: Final = 2


def early_end_text(answer: JobAnswer, row: dict[str, Any]) -> str:
    """Return who ended how, and when: `rank 250 (node031) was ended by SIGKILL in step 20, the other 299 ran to step 40`.

    Args:
        answer: The answer about the job.
        row: Of `ends.EARLY_END_SCHEMA`.
    """
    ranks = answer.rows.filter(pl.col(INDEX).is_in(row["ranks"]))
    nodes = ranks["node"].drop_nulls().unique(maintain_order=True).to_list()
    where = f" ({', '.join(nodes)})" if 0 < len(nodes) <= _MOST_NODES else ""
    step = f" in step {format_count(row['step'])}" if row["step"] is not None else ""
    return f"{who_text(ranks)}{where} {way_text(row, len(row['ranks']))}{step}{_others(row)}"


def way_text(row: dict[str, Any], count: int) -> str:
    """Return how they ended: `was ended by SIGKILL`.

    Args:
        row: With `end` ... `end_limit_bytes` of `summary.SUMMARY_SCHEMA`.
        count: How many ranks.
    """
    was = "was" if count == 1 else "were"
    if row["end_limit_bytes"] is not None:
        limit = row["end_limit_bytes"]
        had = f"the control group may have {format_bytes(limit)}" if limit else "the machine had no more"
        return f"{was} ended by the kernel for lack of host memory ({had})"
    if row["end_signal"]:
        return f"{was} ended by {row['end_signal']}"
    if row["end_status"]:
        return f"ended with status {row['end_status']}"
    if row["end"] == ProcessEnd.LOST.value:
        return f"{was} killed or left without an orderly end"
    return "ended" if row["end"] == ProcessEnd.ORDERLY.value else f"still {'runs' if count == 1 else 'run'}"


def held_text(row: dict[str, Any]) -> str:
    """Return the memory of a rank as it ended: `512 MiB of npu:0, headroom 3.10 GiB, its control group used 7.9 of 8 GiB`.

    Args:
        row: Of `JobAnswer.rows`.
    """
    parts = []
    if row["held_bytes"] is not None:
        parts.append(f"{format_bytes(row['held_bytes'])} of {row['device']}")
    if row["headroom_bytes"] is not None:
        parts.append(f"headroom {format_bytes(row['headroom_bytes'])}")
    if row["group_limit_bytes"]:
        parts.append(
            f"its control group used {format_bytes(row['group_bytes'])} of {format_bytes(row['group_limit_bytes'])}"
        )
    return ", ".join(parts)


def _others(row: dict[str, Any]) -> str:
    if not row["others"]:
        return ""
    subject = f"the other {format_count(row['others'])}" if row["others"] > 1 else "the other rank"
    ended, later = row["others_ended"], row["later_ns"]
    after = f" and ended up to {counted(later // _SECOND_NS, 'second')} later" if later and later >= _SECOND_NS else ""
    if ended is None or row["step"] is None:
        return f", {subject} went on{after}"
    if ended < row["step"]:  # they waited for it in the same step
        return f", {subject} came no further{after}"
    return f", {subject} ran to step {format_count(ended)}{after}"
