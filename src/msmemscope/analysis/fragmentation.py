"""How a pool's reserve is cut up at one moment: segments, the gaps between their blocks, and what pins each segment.

A segment is memory that a pool has from the driver: a block of the driver in which blocks of the pool lie by address.
Where a block of the pool reaches from one block of the driver into the next (expandable segments, as snapshots of torch
have them), all blocks of the driver that adjoin each other there are one segment. A gap is a part of a segment in which no
block lies. A pool can give a segment back only as a whole, so one block of 512 bytes can hold hundreds of MiB.

Gaps are what addresses show. An allocator may refuse a gap that is large enough, because it belongs to another stream, or
because small and large blocks have segments of their own: what is called unusable here is the least that is.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.call_sites import STACK_COLUMNS, call_sites
from msmemscope.analysis.pool_segments import POOLS_WITH_RESERVE, pool_segments
from msmemscope.model.events import Pool

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.store import Dataset

Addresses: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

SEGMENT_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int8(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "driver_blocks": pl.Int64(),
        "in_use_bytes": pl.Int64(),
        "block_count": pl.Int64(),
        "free_bytes": pl.Int64(),
        "gap_count": pl.Int64(),
        "largest_gap_bytes": pl.Int64(),
        "pin_sequence": pl.UInt64(),
        "pin_address": pl.UInt64(),
        "pin_size": pl.Int64(),
        "pin_age_ns": pl.Int64(),
        "pin_is_freed": pl.Boolean(),
        "pin_operator": pl.String(),
        "pin_site": pl.String(),
    }
)
"""One row per segment, by device and address.

size: `in_use_bytes` and `free_bytes` together.
driver_blocks: how many blocks of the driver it is made of.
in_use_bytes: covered by blocks; bytes that blocks of two pools share count once.
pin_*: the block that pins the segment: of its blocks the one that is freed last, of those that are never freed the oldest.
   Null if the segment holds no block: the pool could give it back.
pin_age_ns: time since its MALLOC.
pin_is_freed: whether it is freed later.
pin_operator: null outside of operators.
"""

GAP_SCHEMA: Final = pl.Schema(
    {"device": pl.Int8(), "segment_address": pl.UInt64(), "address": pl.UInt64(), "size": pl.Int64()}
)
"""One row per gap, by device and address."""

TOTAL_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int8(),
        "segment_count": pl.Int64(),
        "segment_bytes": pl.Int64(),
        "in_use_bytes": pl.Int64(),
        "free_bytes": pl.Int64(),
        "returnable_bytes": pl.Int64(),
        "largest_gap_bytes": pl.Int64(),
        "unplaced_bytes": pl.Int64(),
        "unplaced_blocks": pl.Int64(),
    }
)
"""One row per device with blocks of a pool.

returnable_bytes: of `free_bytes`, what lies in segments without any block.
unplaced_bytes, unplaced_blocks: of blocks, or of parts of them, that lie in no known block of the driver.
"""

_ALIGNMENT: Final = 1


@dataclasses.dataclass(frozen=True)
class Fragmentation:
    """How the reserve of the pools is cut up right after one event."""

    sequence: int
    """The event."""
    segments: pl.DataFrame
    """SEGMENT_SCHEMA."""
    gaps: pl.DataFrame
    """GAP_SCHEMA."""
    totals: pl.DataFrame
    """TOTAL_SCHEMA."""
    coverage: tuple[str, ...]
    """What could not be told, one line each."""

    def to_polars(self) -> pl.DataFrame:
        """Return the segments, of SEGMENT_SCHEMA."""
        return self.segments

    def of(self, device: int) -> Fragmentation:
        """Return the part of one device."""
        is_here = pl.col("device") == device
        return dataclasses.replace(
            self,
            segments=self.segments.filter(is_here),
            gaps=self.gaps.filter(is_here),
            totals=self.totals.filter(is_here),
        )

    @property
    def free_bytes(self) -> int:
        """Bytes of all gaps."""
        return int(self.gaps["size"].sum())

    @property
    def largest_gap_bytes(self) -> int:
        """Bytes of the largest gap, 0 if there is none."""
        return int(self.gaps["size"].max() or 0) if len(self.gaps) else 0  # type: ignore[arg-type]

    @property
    def ratio(self) -> float:
        """The part of the free bytes that is not in the largest gap: 0.0 in one piece, towards 1.0 in crumbs."""
        free = self.free_bytes
        return 1.0 - self.largest_gap_bytes / free if free else 0.0

    def unusable_bytes(self, request_bytes: int) -> int:
        """Return the bytes of the gaps that are too small for a block of a size.

        Args:
            request_bytes: Of that block.
        """
        return int(self.gaps.filter(pl.col("size") < request_bytes)["size"].sum())

    def pinned(self) -> pl.DataFrame:
        """Return the segments that hold free bytes and cannot be given back, of SEGMENT_SCHEMA, most free bytes first."""
        held = self.segments.filter((pl.col("free_bytes") > 0) & (pl.col("block_count") > 0))
        return held.sort("free_bytes", "device", "address", descending=[True, False, False])


def find_fragmentation(dataset: Dataset, sequence: int, *, device: int | None = None) -> Fragmentation:
    """Find the gaps in the reserve of the pools right after an event.

    Args:
        dataset: Any with memory of the driver, or a snapshot of torch, whose segments take its place.
        sequence: Number of the event.
        device: Of an accelerator; by default all of them.
    """
    is_chosen = (pl.col("device") >= 0) if device is None else (pl.col("device") == device)
    blocks = dataset.blocks.filter(is_chosen & (pl.col("device") >= 0))
    alive = blocks.filter(
        (pl.col("malloc_sequence") <= sequence)
        & (pl.col("free_sequence").is_null() | (pl.col("free_sequence") > sequence))
        & (pl.col("size") > 0)
    )
    pooled = alive.filter(pl.col("pool").is_in(POOLS_WITH_RESERVE)).sort("device", "address", "malloc_sequence")
    driver = alive.filter(pl.col("pool") == Pool.HAL)
    # Asked without events, this tells of addresses only: what it knows by events has no address to lie at.
    is_segment = pool_segments(driver, blocks, dataset.events.clear())
    parts = [
        _Reserve(
            int(number),
            driver.filter(pl.col("device") == number),
            is_segment.filter(driver["device"] == number),
            pooled.filter(pl.col("device") == number),
        )
        for number in sorted(pooled["device"].unique().to_list() + driver.filter(is_segment)["device"].unique().to_list())
    ]
    unique = {part.device: part for part in parts}
    reserves = [unique[number] for number in sorted(unique)]
    segments = pl.concat([_SEGMENT_PARTS.to_frame(), *(part.segments() for part in reserves)])
    totals = pl.concat([TOTAL_SCHEMA.to_frame(), *(part.total() for part in reserves)])
    return Fragmentation(
        sequence=sequence,
        segments=_with_pins(dataset, segments, pooled, sequence),
        gaps=pl.concat([GAP_SCHEMA.to_frame(), *(part.gaps for part in reserves)]),
        totals=totals,
        coverage=_coverage(totals, has_driver=bool((dataset.blocks["pool"] == Pool.HAL).any())),
    )
