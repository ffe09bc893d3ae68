"""How a caching allocator came to refuse an allocation: what it looked for, where, what it gave back, and what it overlooked.

Blocks of up to 1 MiB after rounding have segments of their own (the small pool), so the blocks of a segment say which pool
it is of; in snapshots of torch they also say for which stream, and for which private pool. At the event of the failure the
allocator has waited for blocks that other streams used, merged them with their neighbours, and given back all segments
without a block. It asks the driver once more then, and does not search its free blocks again: a request for which there is
a free block by now fails nevertheless (pytorch issue 189504; torch_npu has the same order). A free block that is too large
to be split (`max_split_size_mb`) is a whole segment and has gone back by then: what is left and large enough is that defect.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.model.devices import DeviceKind, kind_of
from msmemscope.model.events import EventKind
from msmemscope.model.pools import CACHING_POOLS, Pool
from msmemscope.recording.timeline import blocks_held

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.analysis.fragmentation.fragmentation import Fragmentation
    from msmemscope.recording import Recording

_MOST_SMALL_BYTES: Final = 1 << 20
_LEAST_LARGE_SEGMENT_BYTES: Final = 10 << 20
"""A segment that is asked from the driver for a small block is smaller, one for a large block is not."""
_MOST_HOLDERS: Final = 8
_NAMED: Final = 3
"""Holders that text names."""


@dataclasses.dataclass(frozen=True)
class Holder:
    """A segment with free memory that can be neither handed out in one piece nor given back."""

    address: int
    size_bytes: int
    free_bytes: int
    largest_gap_bytes: int
    block_count: int
    pin_address: int
    """Of the block that pins it: the one that is freed last, or the oldest of those that never are."""
    pin_bytes: int
    pin_site: str
    """Where that block is from; its operator if no line is known; empty if nothing is."""
    pin_is_freed: bool
    """Whether it is freed later."""


@dataclasses.dataclass(frozen=True)
class Refusal:
    """What a caching allocator did before it gave up, and what it had then."""

    block_bytes: int | None
    """The request with padding, rounded; None where only what was asked from the driver is known."""
    padding_bytes: int
    """Added to each request."""
    is_small: bool
    """Whether it is for the pool of small blocks, up to 1 MiB."""
    is_of_stream: bool
    """Whether free memory is that of the stream and the private pool of the request; otherwise of all streams."""
    free_bytes: int
    """In the pool, for the stream, after everything that could be given back was."""
    free_segments: int
    """Segments that have it."""
    largest_free_bytes: int
    """The largest free block of them."""
    elsewhere_bytes: int
    """Free in segments that serve the other pool or other streams."""
    holders: tuple[Holder, ...]
    """Of the segments with the free bytes those that have the room in sum, most free bytes first; all if none have."""
    waited_blocks: int
    """Freed blocks whose memory came back right before the allocator gave up."""
    waited_bytes: int
    released_segments: int
    """Given back to the driver right before the allocator gave up, collected as garbage or released to ask again."""
    released_bytes: int
    overlooked_bytes: int
    """The smallest free block that the request would have fitted in, and for which the pool was not searched again; 0 if
    there is none."""

    @property
    def named_holders(self) -> tuple[Holder, ...]:
        """Those that text names."""
        return self.holders[:_NAMED]


def find_refusal(recording: Recording, failure: Mapping[str, Any], gaps: Fragmentation) -> Refusal | None:
    """Find out how a caching allocator came to refuse an allocation.

    Args:
        recording: Of the process.
        failure: A row of `failed_attempts`, the last attempt at its allocation.
        gaps: What `find_fragmentation` found at it on its device.

    Returns:
        None where the device has no caching allocator with known segments.
    """
    device, sequence = failure["device"], failure["sequence"]
    kind = kind_of(device)
    if kind is None or kind not in CACHING_POOLS or gaps.segments.is_empty():
        return None
    # Only snapshots of torch say of a failure what was asked for; others what the driver was asked for.
    wanted = recording.attributes.filter(pl.col("attribute_id") == failure["attribute_id"])
    told = wanted.select("stream_id", "pool_id").row(0) if len(wanted) else (None, None)
    is_rounded = recording.form == "torch snapshot"
    size = int(failure["size"])
    is_small = size <= _MOST_SMALL_BYTES if is_rounded else size < _LEAST_LARGE_SEGMENT_BYTES
    held = blocks_held(recording.blocks.filter(pl.col("device") == device), sequence)
    segments = _classified(gaps, held.filter(pl.col("pool") == int(CACHING_POOLS[kind])))
    is_here = pl.col("is_small") == is_small
    is_of_stream = is_rounded and told[0] is not None
    if is_of_stream:
        is_here &= (pl.col("stream_id") == told[0]) & pl.col("pool_id").eq_missing(pl.lit(told[1], dtype=pl.String))
    own = segments.filter(is_here & (pl.col("free_bytes") > 0))
    runs = _free_runs(gaps, own, is_joined=_grows_by_pieces(recording, device))
    fitting = runs.filter(runs >= size)
    waited, released = _given_back(recording.events, device, sequence)
    free = int(own["free_bytes"].sum())
    return Refusal(
        block_bytes=size if is_rounded else None,
        padding_bytes=32 if kind is DeviceKind.NPU else 0,
        is_small=is_small,
        is_of_stream=is_of_stream,
        free_bytes=free,
        free_segments=own.height,
        largest_free_bytes=int(runs.to_numpy().max(initial=0)),
        elsewhere_bytes=int(segments["free_bytes"].sum()) - free,
        holders=_holders(own, size),
        waited_blocks=waited[0],
        waited_bytes=waited[1],
        released_segments=released[0],
        released_bytes=released[1],
        overlooked_bytes=int(fitting.to_numpy().min()) if is_of_stream and len(fitting) else 0,
    )


def _classified(gaps: Fragmentation, held: pl.DataFrame) -> pl.DataFrame:
    """Adds to the segments what their blocks show: whether they are of the small pool, the stream, and the private pool."""
    begins = gaps.segments.select(segment="address").sort("segment")
    inside = held.select("address", "size", "stream_id", "pool_id").sort("address")
    placed = inside.join_asof(begins, left_on="address", right_on="segment", strategy="backward")
    shown = placed.group_by("segment").agg(
        pl.col("stream_id", "pool_id").drop_nulls().first(), is_small=pl.col("size").max() <= _MOST_SMALL_BYTES
    )
    return gaps.segments.join(shown, left_on="address", right_on="segment", how="left", maintain_order="left")


def _grows_by_pieces(recording: Recording, device: int) -> bool:
    """Whether segments are expandable: their pieces stand there as segments, and free blocks reach over them."""
    mapped = recording.attributes.filter(pl.col("allocation_kind") == "map")["attribute_id"]
    is_mapped = (pl.col("device") == device) & pl.col("attribute_id").is_in(mapped.implode())
    return not recording.events.filter(is_mapped & (pl.col("pool") == Pool.HAL)).is_empty()


def _free_runs(gaps: Fragmentation, own: pl.DataFrame, *, is_joined: bool) -> pl.Series:
    """Returns the bytes of the free blocks of some segments."""
    free = gaps.gaps.filter(pl.col("segment_address").is_in(own["address"].implode())).sort("address")
    if not is_joined:
        return free["size"]
    ends = pl.col("address") + pl.col("size").cast(pl.UInt64)
    begins_run = (pl.col("address") != ends.shift(1)).fill_null(value=True)
    return free.group_by(begins_run.cum_sum(), maintain_order=True).agg(pl.col("size").sum())["size"]


def _given_back(events: pl.DataFrame, device: int, sequence: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns how many blocks came back, and went back to the driver, since the program's last call; each with bytes."""
    of_driver = pl.col("pool") == Pool.HAL
    before = events.filter((pl.col("device") == device) & (pl.col("sequence") < sequence))
    is_call = pl.col("kind").is_in([int(EventKind.MALLOC), int(EventKind.FREE)]) & ~of_driver
    last = before.filter(is_call)["sequence"].max()
    since = before if last is None else before.filter(pl.col("sequence") > last)
    # The size of what ended stands with its begin.
    begins = events.select(extra="sequence", begun="size")
    ended = since.filter(pl.col("kind").is_in([int(EventKind.FREE_COMPLETED), int(EventKind.FREE)]))
    ended = ended.drop("size", strict=False).join(begins, on="extra", how="left")
    parts = [ended.filter(~of_driver)["begun"], ended.filter(of_driver)["begun"]]
    waited, released = ((len(part), int(part.sum())) for part in parts)
    return waited, released


def _holders(own: pl.DataFrame, size: int) -> tuple[Holder, ...]:
    listed = own.filter(pl.col("block_count") > 0).sort("free_bytes", "address", descending=[True, False])
    # As many as have the room together; all of them if they do not.
    before = pl.col("free_bytes").cum_sum() - pl.col("free_bytes")
    chosen = listed.filter(before < size).head(_MOST_HOLDERS)
    return tuple(
        Holder(
            address=row["address"],
            size_bytes=row["size"],
            free_bytes=row["free_bytes"],
            largest_gap_bytes=row["largest_gap_bytes"],
            block_count=row["block_count"],
            pin_address=row["pin_address"],
            pin_bytes=row["pin_size"],
            pin_site=row["pin_site"] or row["pin_operator"] or "",
            pin_is_freed=bool(row["pin_is_freed"]),
        )
        for row in chosen.iter_rows(named=True)
    )
