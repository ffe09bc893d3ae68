"""Checks that hold for every recording, and helpers that count in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from msmemscope.model.events import EventFlag, EventKind

if TYPE_CHECKING:
    from msmemscope.formats.event_log import Capture

KNOWN_KINDS = [int(kind) for kind in EventKind if kind is not EventKind.NONE]


def events_of(capture: Capture) -> pl.DataFrame:
    """All events of a capture as one table."""
    batches = list(capture.event_batches())
    assert batches, f"{capture} has no events"
    return pl.concat(batches)


def count(events: pl.DataFrame, kind: EventKind, *, size: int | str | None = None) -> int:
    """Count the events of a kind, of one size if it is given."""
    chosen = events.filter(pl.col("kind") == int(kind))
    if size is not None:
        chosen = chosen.filter(pl.col("size") == int(size))
    return chosen.height


def assert_sound(events: pl.DataFrame) -> None:
    """Assert what holds whatever the program did.

    Ids are unique and in order, and nothing is torn. If a FREE names a block, its MALLOC came before, at the same
    address and of the same size. No block is freed twice. No two blocks of a pool share an address while alive.
    """
    sequence = events["sequence"]
    assert sequence.is_unique().all(), "sequence numbers repeat"
    assert sequence.is_sorted(), "events are not in the order of their numbers"
    assert (sequence >= 1).all(), "a number that is not given out"
    assert events["kind"].is_in(KNOWN_KINDS).all(), "a kind that does not exist"
    assert (events["thread_id"] > 0).all(), "an event without a thread"
    assert (events["timestamp_ns"] > 0).all(), "an event without a time"

    blocks = events.filter(pl.col("kind") == int(EventKind.MALLOC))
    assert (blocks["address"] > 0).all(), "a block at address 0"
    assert (blocks["size"] >= 0).all(), "a block of negative size"
    frees = events.filter((pl.col("kind") == int(EventKind.FREE)) & (pl.col("extra") != 0))
    assert frees["extra"].is_unique().all(), "a block was freed twice"
    pairs = frees.join(blocks, left_on="extra", right_on="sequence", how="left", suffix="_of_block")
    assert pairs["address_of_block"].null_count() == 0, "a FREE names a MALLOC that is not there"
    assert (pairs["address"] == pairs["address_of_block"]).all(), "a FREE names a block at another address"
    assert (pairs["size"] == pairs["size_of_block"]).all(), "a FREE has another size than its MALLOC"
    assert (pairs["extra"] < pairs["sequence"]).all(), "a block was freed before it was allocated"

    lives = (
        blocks.select("address", "pool", start="sequence")
        .join(frees.select(start="extra", end="sequence"), on="start", how="left")
        .sort("start")
        .with_columns(next_start=pl.col("start").shift(-1).over("address", "pool"))
    )
    followed = lives.filter(pl.col("next_start").is_not_null())
    assert followed["end"].null_count() == 0, "an address was given out again while its block was alive"
    assert (followed["end"] < followed["next_start"]).all(), "two blocks alive at one address"


def unmatched_frees(events: pl.DataFrame) -> int:
    """Count the FREE events whose block was never seen."""
    return events.filter((pl.col("kind") == int(EventKind.FREE)) & (pl.col("extra") == 0)).height


def never_freed(events: pl.DataFrame) -> int:
    """Count the blocks without a FREE."""
    frees = events.filter(pl.col("kind") == int(EventKind.FREE))
    return count(events, EventKind.MALLOC) - frees.filter(pl.col("extra") != 0).height


def shadows(events: pl.DataFrame, kind: EventKind) -> pl.DataFrame:
    """The events of a kind that stand for something that happened while nothing was collected."""
    return events.filter((pl.col("kind") == int(kind)) & ((pl.col("flags") & int(EventFlag.SHADOW)) != 0))


def bytes_alive(events: pl.DataFrame) -> int:
    """The bytes of the blocks without a FREE."""
    blocks = events.filter(pl.col("kind") == int(EventKind.MALLOC))
    freed = events.filter((pl.col("kind") == int(EventKind.FREE)) & (pl.col("extra") != 0))
    return int(blocks.join(freed, left_on="sequence", right_on="extra", how="anti")["size"].sum())
