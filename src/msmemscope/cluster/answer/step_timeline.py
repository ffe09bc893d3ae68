"""Memory of all ranks over the steps of the job: hosts have clocks of their own, steps are the same for all."""

from __future__ import annotations

import dataclasses
from typing import Final

import polars as pl

from msmemscope.cluster.answer.ranks import INDEX, JUDGED

MOST_COLUMNS: Final = 120
"""Stretches of steps; of a shorter job each step is one."""
TIMELINE_SCHEMA: Final = pl.Schema(
    {
        "first_step": pl.Int64(), "last_step": pl.Int64(), "least_bytes": pl.Int64(), "median_bytes": pl.Int64(),
        "most_bytes": pl.Int64(), "ranks": pl.Int64(),
    }
)  # fmt: skip
"""One row per stretch of steps: the lowest, median and highest peak of its ranks in it, and the number of ranks with
one.
"""


@dataclasses.dataclass(frozen=True, eq=False)
class StepTimeline:
    """The peaks of ranks by steps."""

    columns: pl.DataFrame
    """TIMELINE_SCHEMA."""
    cells: pl.DataFrame
    """INDEX, `column` and `peak_bytes`: of each rank, in each stretch that it has a step of."""


def align_by_step(rows: pl.DataFrame) -> StepTimeline:
    """Lay the steps of all ranks side by side.

    Args:
        rows: Of `ranks.rank_rows`.
    """
    steps = (
        rows.filter(JUDGED)
        .select(INDEX, "steps")
        .explode("steps", empty_as_null=False)
        .drop_nulls("steps")
        .unnest("steps")
    )
    longest = int(steps["last"].max() or 0)  # type: ignore[arg-type]  # a column of whole numbers
    together = -(-longest // MOST_COLUMNS) or 1
    column = (pl.col("last") - 1) // together
    cells = steps.group_by(INDEX, column.alias("column")).agg(pl.col("peak_bytes").max()).sort([INDEX, "column"])
    columns = (
        cells.group_by("column")
        .agg(
            least_bytes=pl.col("peak_bytes").min(),
            median_bytes=pl.col("peak_bytes").median().round().cast(pl.Int64),
            most_bytes=pl.col("peak_bytes").max(),
            ranks=pl.len().cast(pl.Int64),
        )
        .sort("column")
        .with_columns(first_step=pl.col("column") * together + 1, last_step=(pl.col("column") + 1) * together)
    )
    return StepTimeline(columns.select(TIMELINE_SCHEMA.names()).cast(TIMELINE_SCHEMA), cells)
