"""How a pool's reserve is cut up at one moment: segments, the gaps between their blocks, and what pins each segment.

A segment is memory that a pool has from the driver: a block of the driver in which blocks of the pool lie by address. A
block of the pool can reach from one block of the driver into the next: expandable segments, as snapshots of torch have
them. Then all blocks of the driver that adjoin each other there are one segment. A gap is a part of a segment in which
no block lies. A pool can give a segment back only as a whole, so one block of 512 bytes can hold hundreds of MiB.

A block that was freed while other streams still use it is no gap yet: its memory cannot be handed out.

Addresses show the gaps. An allocator may refuse a gap that is large enough. It may belong to another stream, and small
and large blocks have segments of their own. So the unusable bytes here are the least that there are.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.model.devices import device_name
from msmemscope.model.pools import POOLS_WITH_RESERVE, Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.pool_segments import pool_segments
from msmemscope.recording.timeline import blocks_held
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording

Addresses: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

SEGMENT_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
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
pin_*: the block that pins the segment. It is the one that is freed last; of several that are never freed, the oldest.
   Null if the segment holds no block: the pool could give it back.
pin_age_ns: time since its MALLOC; null where the input has no times.
pin_is_freed: whether it is freed later.
pin_operator: null outside of operators.
"""

GAP_SCHEMA: Final = pl.Schema(
    {"device": pl.Int16(), "segment_address": pl.UInt64(), "address": pl.UInt64(), "size": pl.Int64()}
)
"""One row per gap, by device and address."""

TOTAL_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "segment_count": pl.Int64(),
        "segment_bytes": pl.Int64(),
        "in_use_bytes": pl.Int64(),
        "free_bytes": pl.Int64(),
        "returnable_bytes": pl.Int64(),
        "largest_gap_bytes": pl.Int64(),
        "unplaced_bytes": pl.Int64(),
        "unplaced_blocks": pl.Int64(),
        "rounding_bytes": pl.Int64(),
        "waiting_bytes": pl.Int64(),
    }
)
"""One row per device with blocks of a pool.

returnable_bytes: the part of `free_bytes` in segments without any block.
unplaced_bytes, unplaced_blocks: of blocks, or of parts of them, that lie in no known block of the driver.
rounding_bytes: the bytes of blocks beyond those that were asked for; null where that is not known of any.
waiting_bytes: of blocks that were freed while other streams still use them.
"""

_PLACE: Final = ["device", "address"]
_PLAIN_SEGMENT_SCHEMA: Final = pl.Schema(
    {name: dtype for name, dtype in SEGMENT_SCHEMA.items() if not name.startswith("pin_")}
)
_NEVER: Final = pl.lit(np.iinfo(np.uint64).max, dtype=pl.UInt64)


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
    """The parts that could not be told, one line each."""

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
        return int(self.gaps["size"].to_numpy().max(initial=0))

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


def find_fragmentation(recording: Recording, sequence: int, *, device: int | None = None) -> Fragmentation:
    """Find the gaps in the reserve of the pools right after an event.

    Args:
        recording: Any with memory of the driver, or a snapshot of torch, whose segments take its place.
        sequence: Number of the event.
        device: Of an accelerator; by default all of them.
    """
    is_chosen = pl.col("device") >= 0 if device is None else pl.col("device") == device
    blocks = recording.blocks.filter(is_chosen)
    alive = blocks_held(blocks, sequence).filter(pl.col("size") > 0)
    pooled = alive.filter(pl.col("pool").is_in(POOLS_WITH_RESERVE)).sort("address", "malloc_sequence")
    driver = alive.filter(pl.col("pool") == Pool.HAL)
    # Without events this goes by addresses alone; a block that only events give to a pool lies at no known address.
    driver = driver.with_columns(pool_segments(driver, blocks, recording.events.clear()).alias("holds_blocks"))
    numbers = {*pooled["device"].unique(), *driver.filter("holds_blocks")["device"].unique()}
    segments, gaps, totals = [_PLAIN_SEGMENT_SCHEMA.to_frame()], [GAP_SCHEMA.to_frame()], [TOTAL_SCHEMA.to_frame()]
    placed = [pooled.clear().with_columns(segment_address=pl.lit(None, dtype=pl.UInt64))]
    for number in sorted(number for number in numbers if number >= 0):
        is_here = pl.col("device") == number
        held = pooled.with_columns(is_waiting=(pl.col("free_sequence") <= sequence).fill_null(value=False))
        reserve = _Reserve(number, driver.filter(is_here).sort("address"), held.filter(is_here))
        segments.append(reserve.segments)
        gaps.append(reserve.gaps)
        totals.append(reserve.total())
        placed.append(reserve.placed.drop("is_waiting"))
    table = pl.concat(totals)
    pins = _pins(recording, pl.concat(placed), sequence)
    return Fragmentation(
        sequence=sequence,
        segments=pl.concat(segments)
        .join(pins, on=_PLACE, how="left", maintain_order="left")
        .select(SEGMENT_SCHEMA.names())
        .cast(SEGMENT_SCHEMA),
        gaps=pl.concat(gaps),
        totals=table,
        coverage=_coverage(table, has_driver=bool((recording.blocks["pool"] == Pool.HAL).any())),
    )


class _Reserve:
    """The reserve of the pools on one device.

    Args:
        device: Its number.
        driver: Its blocks of the driver that are alive, by address, with `holds_blocks`.
        blocks: Its blocks of pools that are alive, by address, with `is_waiting`.
    """

    def __init__(self, device: int, driver: pl.DataFrame, blocks: pl.DataFrame) -> None:
        """Find segments and gaps."""
        self._device = device
        self._blocks = blocks
        begins, ends, counts = _joined(driver, blocks)
        addresses = _signed(blocks["address"])
        index = np.searchsorted(begins, addresses, side="right") - 1
        is_inside = index >= 0
        is_inside[is_inside] = addresses[is_inside] < ends[index[is_inside]]
        index, inside = index[is_inside], blocks.filter(pl.Series(is_inside))
        block_begins = addresses[is_inside]
        block_ends = np.minimum(block_begins + inside["size"].to_numpy(), ends[index])
        self._placed_bytes = int((block_ends - block_begins).sum())
        self.placed = inside.with_columns(segment_address=pl.Series(begins[index], dtype=pl.UInt64))
        # Segments begin as empty blocks and end as such: so every gap lies between two neighbours.
        edges = np.concatenate([block_begins, begins, ends])
        until = np.concatenate([block_ends, begins, ends])
        owner = np.concatenate([index, np.arange(len(begins)), np.arange(len(begins))])
        order = np.lexsort((edges, owner))
        covered = np.maximum.accumulate(until[order]) if len(order) else until
        gap_sizes = edges[order][1:] - covered[:-1]
        is_gap = (gap_sizes > 0) & (owner[order][1:] == owner[order][:-1])
        gap_owner, gap_begins, gap_sizes = owner[order][1:][is_gap], covered[:-1][is_gap], gap_sizes[is_gap]
        self.gaps = pl.DataFrame(
            {
                "device": np.full(len(gap_sizes), device),
                "segment_address": begins[gap_owner],
                "address": gap_begins,
                "size": gap_sizes,
            },
            schema=GAP_SCHEMA,
        )
        free = np.bincount(gap_owner, weights=gap_sizes, minlength=len(begins)).astype(np.int64)
        largest = np.zeros(len(begins), dtype=np.int64)
        np.maximum.at(largest, gap_owner, gap_sizes)
        self.segments = pl.DataFrame(
            {
                "device": np.full(len(begins), device),
                "address": begins,
                "size": ends - begins,
                "driver_blocks": counts,
                "in_use_bytes": ends - begins - free,
                "block_count": np.bincount(index, minlength=len(begins)),
                "free_bytes": free,
                "gap_count": np.bincount(gap_owner, minlength=len(begins)),
                "largest_gap_bytes": largest,
            },
            schema=_PLAIN_SEGMENT_SCHEMA,
        )

    def total(self) -> pl.DataFrame:
        """Return the row of TOTAL_SCHEMA."""
        empty = self.segments.filter(pl.col("block_count") == 0)
        row = {
            "device": self._device,
            "segment_count": self.segments.height,
            "segment_bytes": int(self.segments["size"].sum()),
            "in_use_bytes": int(self.segments["in_use_bytes"].sum()),
            "free_bytes": int(self.segments["free_bytes"].sum()),
            "returnable_bytes": int(empty["size"].sum()),
            "largest_gap_bytes": int(self.gaps["size"].to_numpy().max(initial=0)),
            "unplaced_bytes": int(self._blocks["size"].sum()) - self._placed_bytes,
            "unplaced_blocks": self._blocks.height - self.placed.height,
            "rounding_bytes": _rounding_bytes(self._blocks),
            "waiting_bytes": int(self._blocks.filter("is_waiting")["size"].sum()),
        }
        return pl.DataFrame([row], schema=TOTAL_SCHEMA)


def _rounding_bytes(blocks: pl.DataFrame) -> int | None:
    known = blocks.filter(pl.col("requested_bytes").is_not_null())
    return None if known.is_empty() else int(known["size"].sum()) - int(known["requested_bytes"].sum())


def _joined(driver: pl.DataFrame, blocks: pl.DataFrame) -> tuple[Addresses, Addresses, Addresses]:
    """Find the segments: blocks of the driver that hold blocks, and several that one block joins.

    Args:
        driver: Of one device, alive at one moment, by address, with `holds_blocks`.
        blocks: Of pools of the same device.

    Returns:
        Begin and end of each segment, ascending, and how many blocks of the driver it is made of.
    """
    begins = _signed(driver["address"])
    ends = begins + driver["size"].to_numpy()
    is_new_run = np.ones(len(begins), dtype=np.bool_)
    is_new_run[1:] = begins[1:] != ends[:-1]
    run = np.cumsum(is_new_run) - 1
    addresses = _signed(blocks["address"])
    index = np.searchsorted(begins, addresses, side="right") - 1
    is_across = index >= 0
    first = index[is_across]
    is_across[is_across] = (addresses[is_across] < ends[first]) & (
        addresses[is_across] + blocks["size"].to_numpy()[is_across] > ends[first]
    )
    is_one = np.zeros(int(run[-1]) + 1 if len(run) else 0, dtype=np.bool_)
    is_one[run[index[is_across]]] = True
    is_in_one = is_one[run]
    chosen = driver["holds_blocks"].to_numpy() | is_in_one
    # Alone, or the first of those that are one.
    starts = (is_new_run | ~is_in_one)[chosen]
    positions = np.flatnonzero(starts)
    return (
        begins[chosen][positions],
        np.maximum.reduceat(ends[chosen], positions) if len(positions) else ends[:0],
        np.diff(positions, append=len(starts)),
    )


def _signed(addresses: pl.Series) -> Addresses:
    # Addresses of a process have at most 57 bits; handles that take their place, no more than 63.
    numbers: Addresses = addresses.to_numpy().astype(np.int64)
    return numbers


def _pins(recording: Recording, placed: pl.DataFrame, sequence: int) -> pl.DataFrame:
    """Return the block that pins each segment that holds any: `device`, `address` of the segment, and `pin_*`."""
    last = recording.events.filter(pl.col("sequence") <= sequence).tail(1)["timestamp_ns"]
    now = int(last[0]) if len(last) else 0
    age = pl.lit(now) - pl.col("allocated_ns").cast(pl.Int64) if now else pl.lit(None, dtype=pl.Int64)
    # A block that is never freed counts as freed last; of several the oldest.
    pins = (
        placed.sort(pl.col("free_sequence").fill_null(_NEVER), "malloc_sequence", descending=[True, False])
        .unique(["device", "segment_address"], keep="first", maintain_order=True)
    )  # fmt: skip
    sites = call_sites(recording, pins).select(*STACK_COLUMNS, "site")
    return pins.join(sites, on=STACK_COLUMNS, how="left").select(
        "device",
        pl.col("segment_address").alias("address"),
        pl.col("malloc_sequence").alias("pin_sequence"),
        pl.col("address").alias("pin_address"),
        pl.col("size").alias("pin_size"),
        age.alias("pin_age_ns"),
        pl.col("free_sequence").is_not_null().alias("pin_is_freed"),
        pl.col("name").alias("pin_operator"),
        pl.col("site").alias("pin_site"),
    )


def _coverage(totals: pl.DataFrame, *, has_driver: bool) -> tuple[str, ...]:
    if not has_driver:
        return ("fragmentation: memory of the driver was not observed, so segments are not known",)
    lost = totals.filter(pl.col("unplaced_bytes") > 0)
    return tuple(
        f"fragmentation: {format_bytes(size)} in use on {device_name(device)} lie in no known block of the driver: older "
        "blocks, or physical memory that is mapped elsewhere (expandable segments)"
        for device, size in lost.select("device", "unplaced_bytes").iter_rows()
    )
