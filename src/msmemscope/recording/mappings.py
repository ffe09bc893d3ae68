"""Which addresses have physical memory behind them, and which were given back and wait for it.

Physical memory of the driver has a handle in the place of an address; programs map it where they want it. A pool whose
memory sleeps keeps its addresses, and its blocks, while the memory behind them is the driver's again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from msmemscope.model.events import EventKind

RANGE_SCHEMA: Final = pl.Schema(
    {"address": pl.UInt64(), "size": pl.Int64(), "is_mapped": pl.Boolean(), "physical_sequence": pl.UInt64()}
)
"""One row per address that memory was ever mapped at.

address, size: the range, bytes.
is_mapped: whether memory is there at the moment that is looked at.
physical_sequence: the MALLOC of that memory; 0 if it is not known, or not there.
"""


def mapped_ranges(events: pl.DataFrame, sequence: int) -> pl.DataFrame:
    """Return the addresses that had memory right after an event, and those that had been given back by then.

    Args:
        events: EVENT_SCHEMA, at least MAPPED and UNMAPPED.
        sequence: The event.

    Returns:
        RANGE_SCHEMA, by address. Addresses that were unmapped, and never mapped while it was recorded, have no known
        size and are left out.
    """
    changes = events.filter(pl.col("kind").is_in([EventKind.MAPPED, EventKind.UNMAPPED])).select(
        "sequence", "address", is_mapped=pl.col("kind") == EventKind.MAPPED, extra="extra", size="size"
    )
    sizes = changes.with_columns(size=pl.when("is_mapped").then("size")).with_columns(
        # Memory that was mapped before recording began says its size only when it is mapped again.
        size=pl.coalesce(pl.col("size").forward_fill().over("address"), pl.col("size").backward_fill().over("address"))
    )
    return (
        sizes.filter(pl.col("sequence") <= sequence)
        .group_by("address")
        .last()
        .drop_nulls("size")
        .select("address", "size", "is_mapped", physical_sequence=pl.when("is_mapped").then("extra").otherwise(0))
        .cast(RANGE_SCHEMA)
        .sort("address")
    )


def range_rows(addresses: pl.Series, ranges: pl.DataFrame) -> pl.Series:
    """Find the range that each address lies in.

    Args:
        addresses: Of blocks.
        ranges: `address` and `size`, by address; they do not overlap.

    Returns:
        The row of the range, -1 where there is none (i64).
    """
    starts = ranges["address"].to_numpy()
    wanted = addresses.to_numpy()
    rows = np.searchsorted(starts, wanted, side="right").astype(np.int64) - 1
    if not len(starts):
        return pl.Series(rows)
    place = np.maximum(rows, 0)
    is_inside = (rows >= 0) & (wanted - starts[place] < ranges["size"].to_numpy()[place].astype(np.uint64))
    return pl.Series(np.where(is_inside, rows, -1))
