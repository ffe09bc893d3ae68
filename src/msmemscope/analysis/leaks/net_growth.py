"""Whether a run that is too short for a judgement holds more in the end than before; if not, nothing has grown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.recording.pool_segments import segments_at_last_step
from msmemscope.recording.step_bounds import WARM_UP_STEPS, process_steps, with_steps
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording

    Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_LEAST_BYTES: Final = 64 << 10
_LEAST_SHARE: Final = 1 / 1000
"""Of the bytes that a pool holds. A rise below both is no growth: numbers that a history keeps, say."""
_QUARTERS: Final = 4
_LEAST_IN_QUARTER: Final = 8
"""Allocations, of a program without steps: with fewer, a quarter is no cycle of its work."""


def rules_out_growth(recording: Recording) -> bool:
    """Return whether no pool holds more in the end than early in the run.

    With steps, the ends of the last ones and of the first ones that are judged are compared. Without steps, the least
    bytes held in the second and in the last quarter of the allocations are compared. Frees behind the last allocation
    belong to the end of the program.

    Args:
        recording: Of a process.

    Returns:
        False, too, where too little has happened to compare.
    """
    bounds = process_steps(recording)
    first = WARM_UP_STEPS + 1
    columns = ["device", "pool", "size", "malloc_sequence", "free_sequence"]
    placed = with_steps(recording.blocks.select(columns), bounds)
    # A pool's reserve grows with its blocks, which are compared themselves.
    reserve = segments_at_last_step(recording)
    placed = placed.filter(~pl.col("malloc_sequence").is_in(reserve.implode()))
    if bounds.ended <= first:
        return _holds_as_much_in_quarters(placed)
    # Another thread may have memory in hand at one end of a step and not at the next: two ends are compared with two.
    ends = 2 if bounds.ended >= first + 3 else 1

    def held_at(end: int | pl.Expr) -> pl.Expr:
        return pl.col("size").filter((pl.col("first_end") <= end) & (pl.col("last_end") >= end)).sum()

    held = placed.group_by("device", "pool").agg(
        early=pl.max_horizontal(held_at(first + number) for number in range(ends)),
        late=pl.min_horizontal(held_at(pl.col("ended") - number) for number in range(ends)),
    )
    return not _is_growth(held["early"].to_numpy(), held["late"].to_numpy()).any()


def _holds_as_much_in_quarters(blocks: pl.DataFrame) -> bool:
    if blocks.height < _QUARTERS * _LEAST_IN_QUARTER:
        return False
    allocated = blocks["malloc_sequence"].sort().to_numpy()
    edges = allocated[np.linspace(0, len(allocated) - 1, _QUARTERS + 1).astype(np.int64)]
    for part in blocks.partition_by("device", "pool"):
        least, _ = MemoryUse.of(part).extremes(edges[:-1], edges[1:])
        if _is_growth(least[1:2], least[-1:]).any():
            return False
    return True


def _is_growth(early: Bytes, late: Bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    negligible = np.minimum(_LEAST_BYTES, late * _LEAST_SHARE)
    grown: np.ndarray[Any, np.dtype[np.bool_]] = late.astype(np.int64) - early.astype(np.int64) > negligible
    return grown
