"""What a caching allocator said of itself while it was observed, in the form in which the history of a snapshot stands.

The entries have requested sizes, streams, private pools and segments, in the order that the allocator's lock gave them; how
large a block is, its MALLOC says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.events import ALLOCATOR_KINDS, EventFlag, EventKind
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from msmemscope.recording import Recording

SETTINGS_FACT: Final = "allocator.settings"
_BLOCK_KINDS: Final = {
    EventKind.ALLOCATOR_ALLOC: EventKind.MALLOC,
    EventKind.ALLOCATOR_FREE: EventKind.FREE,
    EventKind.ALLOCATOR_FREE_COMPLETED: EventKind.FREE_COMPLETED,
    EventKind.ALLOCATOR_OOM: EventKind.OOM,
}
_GROWTH: Final = (int(EventKind.SEGMENT_ALLOC), int(EventKind.SEGMENT_MAP))
_RELEASE: Final = (int(EventKind.SEGMENT_FREE), int(EventKind.SEGMENT_UNMAP))


def allocator_entries(recording: Recording, device: int, pool: int) -> pl.DataFrame | None:
    """Return the entries of the allocator of a device as rows of blocks, segments and what is reserved.

    Args:
        recording: Any.
        device: The device.
        pool: The pool of its allocator.

    Returns:
        None if there are none, or they do not begin with the allocator or have gaps: then they do not tell all.
    """
    facts = recording.facts
    if "observed.allocator" not in facts or "unobserved.allocator" in facts:
        return None
    of_pool = recording.events.filter((pl.col("device") == device) & (pl.col("pool") == pool))
    entries = of_pool.filter(pl.col("kind").is_in([int(kind) for kind in ALLOCATOR_KINDS])).filter(
        pl.col("kind") != int(EventKind.ALLOCATOR_SETTING)
    )
    blocks = of_pool.filter(pl.col("kind").is_in([int(EventKind.MALLOC), int(EventKind.FREE)]))
    own = entries.filter(pl.col("kind") != int(EventKind.CACHE_EMPTIED))
    has_gaps = bool(((blocks["flags"] & int(EventFlag.SHADOW)) != 0).any())
    if not own.height or own["kind"][0] not in _GROWTH or has_gaps:
        return None
    return _rows(recording, entries, blocks.filter(pl.col("kind") == int(EventKind.MALLOC)), pool)


def recorded_settings(recording: Recording, device: int) -> tuple[str, int] | None:
    """Return the settings that the allocator of a device began with, and how many the program chose after that.

    Args:
        recording: Any.
        device: The device.

    Returns:
        None if they were not recorded.
    """
    texts = recording.facts.get(SETTINGS_FACT)
    if texts is None:
        return None
    events = recording.events.filter(pl.col("device") == device)
    chosen = events.filter(pl.col("kind") == int(EventKind.ALLOCATOR_SETTING))
    first = events.filter(pl.col("kind") == int(EventKind.ALLOCATOR_ALLOC))["sequence"].min()
    early = chosen if first is None else chosen.filter(pl.col("sequence") < first)
    names = early.select(id="name_id").join(recording.strings, on="id", how="left", maintain_order="left")["text"]
    return ",".join(filter(None, (texts[-1], *names.to_list()))), chosen.height - early.height


def _rows(recording: Recording, entries: pl.DataFrame, mallocs: pl.DataFrame, pool: int) -> pl.DataFrame:
    kind = pl.col("kind")
    is_alloc, is_growth, is_release = (
        kind == int(EventKind.ALLOCATOR_ALLOC),
        kind.is_in(_GROWTH),
        kind.is_in(_RELEASE),
    )
    is_block = kind.is_in([int(told) for told in _BLOCK_KINDS])
    names = recording.attributes
    with_pools = "pool_id" in names.columns
    named = entries.join(
        names.select("attribute_id", "pool_id" if with_pools else pl.lit(None, pl.String).alias("pool_id")),
        on="attribute_id",
        how="left",
        maintain_order="left",
    )
    # The MALLOC of a block follows on the same thread, before the memory can be handed out again.
    sized = named.join_asof(
        mallocs.select(
            "sequence", "address", "thread_id", pl.col("size").alias("block_bytes"), pl.col("sequence").alias("malloc")
        ),
        on="sequence",
        by=["address", "thread_id"],
        strategy="forward",
        check_sortedness=False,
    ).sort("sequence")
    change = pl.when(is_growth).then("size").when(is_release).then(-pl.col("size")).otherwise(0)
    begin = pl.when(is_alloc).then("sequence").forward_fill().over("address")
    segment = pl.when(is_growth).then("sequence").forward_fill().over(pl.col("pool_id").fill_null(""))
    rows = sized.select(
        "sequence",
        pl.when(is_alloc).then(pl.coalesce("malloc", "sequence")).otherwise("sequence").alias("reported"),
        pl.when(is_growth)
        .then(int(EventKind.MALLOC))
        .when(is_release)
        .then(int(EventKind.FREE))
        .otherwise(kind.replace({int(told): int(meant) for told, meant in _BLOCK_KINDS.items()}))
        .cast(pl.UInt8)
        .alias("kind"),
        pl.when(is_growth | is_release).then(int(Pool.HAL)).otherwise(pool).cast(pl.UInt8).alias("pool"),
        pl.lit(0, pl.UInt8).alias("flags"),
        "address",
        pl.when(is_alloc).then(pl.coalesce("block_bytes", "size")).otherwise("size").alias("size"),
        pl.when(is_release)
        .then(segment)
        .when(is_block & ~is_alloc)
        .then(begin)
        .otherwise(0)
        .fill_null(0)
        .alias("extra"),
        pl.col("extra").cast(pl.Int64, strict=False).alias("stream_id"),
        "pool_id",
        pl.when(is_block).then("size").alias("requested_bytes"),
        pl.when(kind == int(EventKind.SEGMENT_MAP)).then(pl.lit("map")).alias("allocation_kind"),
        change.cum_sum().alias("reserved"),
        (is_growth | is_release).alias("is_segment"),
    )
    reserved = rows.filter("is_segment").with_columns(
        pl.lit(int(EventKind.RESERVED), pl.UInt8).alias("kind"),
        pl.lit(pool, pl.UInt8).alias("pool"),
        pl.col("reserved").alias("size"),
        pl.lit(0, pl.UInt64).alias("extra"),
    )
    return (
        pl.concat([rows.with_columns(part=pl.lit(0)), reserved.with_columns(part=pl.lit(1))], how="vertical_relaxed")
        .sort("sequence", "part")
        .drop("part", "reserved", "is_segment")
    )
