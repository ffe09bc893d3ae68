"""Memory of the driver that a program never gave back, by the module of CANN that asked for it.

At its end a program should have given back everything. The rest is listed by module and by call site. The reserve of a
memory pool is normal there, and is told apart.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.owners import UNKNOWN_MODULE
from msmemscope.model.pools import Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.pool_segments import pool_segments

if TYPE_CHECKING:
    from msmemscope.recording import Recording


DRIVER_MODULE_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "module": pl.String(),
        "leaked_bytes": pl.Int64(),
        "leaked_blocks": pl.Int64(),
        "reserve_bytes": pl.Int64(),
        "reserve_blocks": pl.Int64(),
    }
)
"""One row per device and module of CANN with memory that was never given back, most leaked bytes first.

reserve_*: blocks that memory pools handed out in parts. leaked_*: the others.
"""

DRIVER_BLOCK_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "module": pl.String(),
        "is_reserve": pl.Boolean(),
        "size": pl.Int64(),
        "address": pl.UInt64(),
        "malloc_sequence": pl.UInt64(),
        "allocated_ns": pl.UInt64(),
        "site": pl.String(),
        "thread_id": pl.UInt32(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
    }
)
"""One row per block of the driver that was never given back, in MALLOC order; see `recording.BLOCK_SCHEMA`.

module: of CANN, UNKNOWN_MODULE if none is named. is_reserve: memory pools handed out parts of it. site: call site.
"""


@dataclasses.dataclass(frozen=True)
class DriverLeaks:
    """Memory of the driver that one process never gave back."""

    modules: pl.DataFrame
    """DRIVER_MODULE_SCHEMA."""
    blocks: pl.DataFrame
    """DRIVER_BLOCK_SCHEMA."""
    was_observed: bool
    """Whether the process has blocks of the driver at all."""

    def to_polars(self) -> pl.DataFrame:
        """Return the blocks, of DRIVER_BLOCK_SCHEMA."""
        return self.blocks


def find_driver_leaks(recording: Recording) -> DriverLeaks:
    """Find memory of accelerators that the driver gave out and never got back."""
    is_driver = (pl.col("pool") == Pool.HAL) & (pl.col("device") >= 0)
    of_driver = recording.blocks.filter(is_driver)
    rest = of_driver.filter(pl.col("free_sequence").is_null())
    if rest.is_empty():
        return DriverLeaks(DRIVER_MODULE_SCHEMA.to_frame(), DRIVER_BLOCK_SCHEMA.to_frame(), not of_driver.is_empty())
    modules = recording.attributes.select("attribute_id", "module")
    sites = call_sites(recording, rest).drop("site_path")
    blocks = (
        rest.with_columns(pool_segments(rest, recording.blocks, recording.events).alias("is_reserve"))
        .join(modules, on="attribute_id", how="left", maintain_order="left")
        .join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")
        .with_columns(pl.col("module").fill_null(UNKNOWN_MODULE))
        .select(DRIVER_BLOCK_SCHEMA.names())
    )
    leaked, reserve = pl.col("size").filter(~pl.col("is_reserve")), pl.col("size").filter("is_reserve")
    of_modules = (
        blocks.group_by("device", "module")
        .agg(
            leaked.sum().alias("leaked_bytes"),
            leaked.len().cast(pl.Int64).alias("leaked_blocks"),
            reserve.sum().alias("reserve_bytes"),
            reserve.len().cast(pl.Int64).alias("reserve_blocks"),
        )
        .sort(["leaked_bytes", "reserve_bytes", "device", "module"], descending=[True, True, False, False])
    )
    return DriverLeaks(of_modules, blocks, not of_driver.is_empty())
