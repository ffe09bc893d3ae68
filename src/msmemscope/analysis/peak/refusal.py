"""How a caching allocator came to refuse an allocation: its search, its releases, and the blocks that it overlooked.

Blocks of up to 1 MiB after rounding have segments of their own, the small pool. So the blocks of a segment tell its
pool; in snapshots of torch they also tell the stream and the private pool.

Three things happen in the allocator before the event of the failure:

- It waits for blocks that other streams used.
- It merges them with their neighbours.
- It gives back all segments without a block.

Then it asks the driver once more, and does not search its free blocks again. So a request can fail though there is a
free block by now (pytorch issue 189504; torch_npu has the same order). A free block that is too large to be split
(`max_split_size_mb`) is a whole segment and has gone back by then. A remaining block that is large enough is that
defect.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.model.caching_allocator import LEAST_OWN_SEGMENT_BYTES, MOST_SMALL_BYTES
from msmemscope.model.devices import DeviceKind, kind_of
from msmemscope.model.events import EventKind
from msmemscope.model.pools import CACHING_POOLS, Pool
from msmemscope.recording.timeline import blocks_held
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from msmemscope.analysis.fragmentation.fragmentation import Fragmentation
    from msmemscope.recording import Recording

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
    """The acts of a caching allocator before it gave up, and its memory then."""

    block_bytes: int | None
    """The request with padding, rounded; None where only the request to the driver is known."""
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


def find_refusal(recording: Recording, failure: Mapping[str, Any], gaps: Fragmentation) -> Refusal | None:
    """Find out how a caching allocator came to refuse an allocation.

    Args:
        recording: Of the process.
        failure: A row of `failed_attempts`, the last attempt at its allocation.
        gaps: The result of `find_fragmentation` at it on its device.

    Returns:
        None where the device has no caching allocator with known segments.
    """
    device, sequence = failure["device"], failure["sequence"]
    kind = kind_of(device)
    if kind is None or kind not in CACHING_POOLS or gaps.segments.is_empty():
        return None
    # Only snapshots of torch have the request of a failure; others have the request to the driver: a segment.
    is_rounded = recording.form == "torch snapshot"
    size = int(failure["size"])
    is_small = size <= MOST_SMALL_BYTES if is_rounded else size < LEAST_OWN_SEGMENT_BYTES
    held = blocks_held(recording.blocks.filter(pl.col("device") == device), sequence)
    segments = _classified(gaps, held.filter(pl.col("pool") == int(CACHING_POOLS[kind])))
    wanted = recording.attributes.filter(pl.col("attribute_id") == failure["attribute_id"])
    stream, private_pool = wanted.select("stream_id", "pool_id").row(0) if len(wanted) else (None, None)
    is_of_stream = is_rounded and stream is not None
    is_here = pl.col("is_small") == is_small
    if is_of_stream:
        is_own_pool = pl.col("pool_id").eq_missing(pl.lit(private_pool, dtype=pl.String))
        is_here &= (pl.col("stream_id") == stream) & is_own_pool
    own = segments.filter(is_here & (pl.col("free_bytes") > 0))
    runs = _free_runs(gaps, own, is_joined=_grows_by_pieces(recording, device)).to_numpy()
    fitting = runs[runs >= size]
    waited, released = _given_back(recording.events, device, sequence)
    free = int(own["free_bytes"].sum())
    return Refusal(
        block_bytes=size if is_rounded else None,
        padding_bytes=32 if kind is DeviceKind.NPU else 0,
        is_small=is_small,
        is_of_stream=is_of_stream,
        free_bytes=free,
        free_segments=own.height,
        largest_free_bytes=int(runs.max(initial=0)),
        elsewhere_bytes=int(segments["free_bytes"].sum()) - free,
        holders=_holders(own, size),
        waited_blocks=len(waited),
        waited_bytes=int(waited.sum()),
        released_segments=len(released),
        released_bytes=int(released.sum()),
        overlooked_bytes=int(fitting.min()) if is_of_stream and len(fitting) else 0,
    )


def _classified(gaps: Fragmentation, held: pl.DataFrame) -> pl.DataFrame:
    """Add to the segments whether they are of the small pool, the stream, and the private pool: blocks show it."""
    begins = gaps.segments.select(segment="address").sort("segment")
    inside = held.select("address", "size", "stream_id", "pool_id").sort("address")
    placed = inside.join_asof(begins, left_on="address", right_on="segment", strategy="backward")
    shown = placed.group_by("segment").agg(
        pl.col("stream_id", "pool_id").drop_nulls().first(), is_small=pl.col("size").max() <= MOST_SMALL_BYTES
    )
    return gaps.segments.join(shown, left_on="address", right_on="segment", how="left", maintain_order="left")


def _grows_by_pieces(recording: Recording, device: int) -> bool:
    """Whether segments are expandable: their pieces stand there as segments, and free blocks reach over them."""
    mapped = recording.attributes.filter(pl.col("allocation_kind") == "map")["attribute_id"]
    is_mapped = (pl.col("device") == device) & pl.col("attribute_id").is_in(mapped.implode())
    return not recording.events.filter(is_mapped & (pl.col("pool") == Pool.HAL)).is_empty()


def _free_runs(gaps: Fragmentation, own: pl.DataFrame, *, is_joined: bool) -> pl.Series:
    """Return the bytes of the free blocks of some segments."""
    free = gaps.gaps.filter(pl.col("segment_address").is_in(own["address"].implode())).sort("address")
    if not is_joined:
        return free["size"]
    ends = pl.col("address") + pl.col("size").cast(pl.UInt64)
    begins_run = (pl.col("address") != ends.shift(1)).fill_null(value=True)
    return free.group_by(begins_run.cum_sum(), maintain_order=True).agg(pl.col("size").sum())["size"]


def _given_back(events: pl.DataFrame, device: int, sequence: int) -> tuple[pl.Series, pl.Series]:
    """Return the bytes of blocks that came back, and that went back to the driver, since the program's last call."""
    of_driver = pl.col("pool") == Pool.HAL
    before = events.filter((pl.col("device") == device) & (pl.col("sequence") < sequence))
    is_call = pl.col("kind").is_in([int(EventKind.MALLOC), int(EventKind.FREE)]) & ~of_driver
    last = before.filter(is_call)["sequence"].max()
    # The size of a block that ended stands with its begin.
    begins = events.select(extra="sequence", begun="size")
    is_end = pl.col("kind").is_in([int(EventKind.FREE_COMPLETED), int(EventKind.FREE)])
    is_since = pl.lit(last is None) | (pl.col("sequence") > pl.lit(last))
    ended = before.filter(is_end & is_since).join(begins, on="extra", how="left")
    return ended.filter(~of_driver)["begun"], ended.filter(of_driver)["begun"]


def _holders(own: pl.DataFrame, size: int) -> tuple[Holder, ...]:
    # As many as have the room together; all of them if they do not.
    before = pl.col("free_bytes").cum_sum() - pl.col("free_bytes")
    listed = own.filter(pl.col("block_count") > 0).sort("free_bytes", "address", descending=[True, False])
    chosen = listed.filter(before < size).head(_MOST_HOLDERS)
    same = ("address", "free_bytes", "largest_gap_bytes", "block_count", "pin_address", "pin_is_freed")
    site = pl.coalesce("pin_site", "pin_operator", pl.lit(""))
    rows = chosen.select(*same, size_bytes="size", pin_bytes="pin_size", pin_site=site)
    return tuple(Holder(**row) for row in rows.iter_rows(named=True))


def refusal_sentences(refusal: Refusal, shorten: Callable[[str], str]) -> Iterator[str]:
    """Write the chain: the search, the blocks that came and went before the refusal, and the holders of the room.

    Args:
        refusal: Of a failure.
        shorten: Makes a call site short enough to be read.
    """
    free = "nothing free there"
    if refusal.free_bytes:
        largest = format_bytes(refusal.largest_free_bytes)
        in_segments = _counted(refusal.free_segments, "segment", refusal.free_bytes, "{size} free in {count}")
        free = f"{in_segments}, the largest block {largest}"
    padding = f" and {refusal.padding_bytes} B of padding" if refusal.padding_bytes else ""
    block = "" if refusal.block_bytes is None else f"{format_bytes(refusal.block_bytes)} with rounding{padding} in "
    pool, whose = "small" if refusal.is_small else "large", "its stream" if refusal.is_of_stream else "all streams"
    yield f"allocator: {block}the {pool} pool of {whose}: {free}"
    if refusal.elsewhere_bytes:
        yield f"free in segments of the other pool or of other streams: {format_bytes(refusal.elsewhere_bytes)}"
    back = (
        _counted(refusal.waited_blocks, "freed block", refusal.waited_bytes, "{count} ({size}) came back to the pool"),
        _counted(
            refusal.released_segments, "segment", refusal.released_bytes, "{count} ({size}) went back to the driver"
        ),
    )
    went = ", ".join(part for part in back if part) or "no segment without a block could go back to the driver"
    yield f"right before it gave up: {went}"
    for holder in refusal.holders[:_NAMED]:
        at = f" at {shorten(holder.pin_site)}" if holder.pin_site else ""
        yield (
            f"pinned: {format_bytes(holder.free_bytes)} free of a segment of {format_bytes(holder.size_bytes)}, by a block of "
            f"{format_bytes(holder.pin_bytes)}{at} ({'freed later' if holder.pin_is_freed else 'not freed'})"
        )


def _counted(count: int, noun: str, size_bytes: int, words: str) -> str:
    """Return words with how many of something there are and their bytes; empty for none."""
    counted = f"{format_count(count)} {noun}{'' if count == 1 else 's'}"
    return words.format(count=counted, size=format_bytes(size_bytes)) if count else ""
