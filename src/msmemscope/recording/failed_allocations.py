"""Allocations that failed for lack of memory: their attempts, and the snapshots of the device at that moment.

The driver's function can fail several times for one allocation: torch gives its cache back after the first time. Inside
each attempt a snapshot is taken, right before its event; where torch gives up, it takes another one behind them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.model.attributes import ATTRIBUTES, AttributeKey
from msmemscope.model.events import OOM_SNAPSHOT_AFTER_NAME, OOM_SNAPSHOT_NAME, EventKind
from msmemscope.model.pools import POOLS_WITH_RESERVE, Pool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.recording.recording import Recording

_FIGURES: Final = {
    attribute.name: attribute.column
    for attribute in ATTRIBUTES
    if AttributeKey.RESERVED_BYTES <= attribute.key <= AttributeKey.RESERVED_RATE
    or attribute.key in {AttributeKey.LIMIT_BYTES, AttributeKey.LIMIT_USED_BYTES}
}
"""Attributes of a snapshot that are figures, by their names in texts: their columns."""
_OF_DEVICE: Final = frozenset({"total", "free", "device_rate"})
_IN_PIECES: Final = "halMemCreate"
"""Function of the driver by which a pool asks for physical memory piece by piece (expandable segments)."""
_SAME_CALL: Final = ("thread_id", "device", "size", "name_id", "python_stack_id", "given_up_before")
"""The columns that all attempts of one allocation share."""


@dataclasses.dataclass(frozen=True)
class SnapshotFigures:
    """The figures of a snapshot about a device."""

    by_name: Mapping[str, float]
    """Whole numbers are bytes (`reserved`, `allocated`, `total`, `free`), the others percentages (`device_rate`,
    `reserved_rate`); only those that are known."""
    limit: str = ""
    """The limit of the process that leaves the least room: `RLIMIT_AS`; empty without one."""

    @classmethod
    def of_failure(cls, recording: Recording, failure: Mapping[str, Any]) -> SnapshotFigures:
        """Return the known figures of the device at a failure.

        Args:
            recording: Of the process.
            failure: A row of `failed_attempts`. The snapshot inside the last attempt has the free bytes of that moment.
                Torch gives back parts of the allocation only later. The snapshot where torch gave up has the bytes that
                torch holds, which are out of date inside.
        """
        at_failure, given_up = (cls._of_snapshot(recording, failure[name]) for name in ("inside", "behind"))
        if not given_up.by_name:
            return at_failure
        of_device = {key: value for key, value in at_failure.by_name.items() if key in _OF_DEVICE}
        return cls({**given_up.by_name, **of_device}, at_failure.limit)

    @classmethod
    def _of_snapshot(cls, recording: Recording, attribute_id: int) -> SnapshotFigures:
        figures = recording.attributes.filter(pl.col("attribute_id") == attribute_id)
        row = next(figures.select("limit", **_FIGURES).iter_rows(named=True), {})
        limit = row.pop("limit", None) or ""
        return cls({name: value for name, value in row.items() if value is not None}, limit)

    @property
    def total_bytes(self) -> int | None:
        """The memory of the device."""
        return self._bytes("total")

    @property
    def free_bytes(self) -> int | None:
        """The free part of it, whoever used the rest."""
        return self._bytes("free")

    @property
    def reserved_bytes(self) -> int | None:
        """The bytes that the framework held."""
        return self._bytes("reserved")

    @property
    def allocated_bytes(self) -> int | None:
        """The part of them that its tensors used."""
        return self._bytes("allocated")

    @property
    def limit_bytes(self) -> int | None:
        """The bytes that the process may have by that limit."""
        return self._bytes("limit_bytes")

    @property
    def limit_used_bytes(self) -> int | None:
        """The part of them that the process has."""
        return self._bytes("limit_used")

    def _bytes(self, name: str) -> int | None:
        value = self.by_name.get(name)
        return None if value is None else int(value)


def is_in_pieces(function: str) -> bool:
    """Whether the failed function asks for memory in pieces: how many more would have come is not known."""
    return function == _IN_PIECES


def granted_pieces(recording: Recording, failure: Mapping[str, Any], driver_blocks: pl.DataFrame) -> pl.DataFrame:
    """Find the pieces of physical memory that a request got before one failed: those since the pool's last block.

    Args:
        recording: Of the process.
        failure: A row of `failed_attempts`.
        driver_blocks: Blocks of the driver that are alive on the device at the failure.

    Returns:
        Rows of them; none where memory is not asked for in pieces.
    """
    if not is_in_pieces(failure["function"]):
        return driver_blocks.clear()
    is_own = (pl.col("thread_id") == failure["thread_id"]) & (pl.col("device") == failure["device"])
    is_of_pool = is_own & pl.col("pool").is_in(POOLS_WITH_RESERVE)
    last = recording.events.filter((pl.col("sequence") < failure["sequence"]) & is_of_pool).tail(1)["sequence"]
    since = last[0] if len(last) else 0
    return driver_blocks.filter((pl.col("malloc_sequence") > since) & (pl.col("thread_id") == failure["thread_id"]))


def failed_attempts(recording: Recording) -> pl.DataFrame:
    """Find every attempt at an allocation that failed; see `attempts_among`."""
    return attempts_among(recording.events, recording.strings)


def attempts_among(events: pl.DataFrame, strings: pl.DataFrame) -> pl.DataFrame:
    """Find every attempt at an allocation that failed.

    Args:
        events: Of EVENT_SCHEMA, in sequence order; kinds other than MALLOC, OOM and SNAPSHOT are not needed.
        strings: Of STRING_SCHEMA, with the names of those.

    Returns:
        EVENT_SCHEMA, one row per OOM event in sequence order, and:

        - `call` (u32): the same for all attempts at one allocation.
        - `attempts`, `first_attempt`: their number, and the `sequence` of the first.
        - `function`: the one that failed, empty if not known.
        - `inside`, `behind`: the attribute_id of the snapshots, 0 if there is none.
        - `given_up_at` (u64): the snapshot with which torch gave up. Null if there is none before the next failure on
          the device.
        - `is_served`: whether the same request was granted when it was made again. An allocator that gives its cache
          back in between gets that far; the program has seen no failure then.
    """
    texts = strings.select(name_id="id", name="text")
    is_failure = pl.col("kind") == EventKind.OOM
    is_inside = ~is_failure & (pl.col("name") == OOM_SNAPSHOT_NAME)
    is_behind = ~is_failure & (pl.col("name") == OOM_SNAPSHOT_AFTER_NAME)
    end = pl.when(is_behind).then("sequence")
    following = pl.when(is_failure).then("sequence").shift(-1).backward_fill().over("device")
    next_end = end.backward_fill().over("device")
    is_its_own = next_end.is_not_null() & (following.is_null() | (next_end < following))
    found = (
        events.filter(pl.col("kind").is_in([EventKind.OOM, EventKind.SNAPSHOT]))
        .join(texts, on="name_id", how="left", maintain_order="left")
        .with_columns(pl.col("name").fill_null(""))
        .filter(is_failure | is_inside | is_behind)
        .with_columns(
            inside=pl.when(is_inside.shift(1).over("device"))
            .then(pl.col("attribute_id").shift(1).over("device"))
            .fill_null(0),
            behind=pl.when(is_its_own)
            .then(pl.when(is_behind).then("attribute_id").backward_fill().over("device"))
            .fill_null(0),
            given_up_at=pl.when(is_its_own).then(next_end),
            given_up_before=end.forward_fill().over("device").fill_null(0),
        )
        .filter(is_failure)
        .with_columns(
            call=pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in _SAME_CALL)
            .fill_null(value=True)
            .cum_sum()
        )
        .drop("given_up_before")
        .rename({"name": "function"})
    )
    return _with_served(found, events)


def _with_served(attempts: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Add the columns that all attempts at one allocation share.

    `is_served`: the next block of the driver is the one that was asked for.
    """
    place = ["thread_id", "device"]
    granted = events.filter((pl.col("kind") == EventKind.MALLOC) & (pl.col("pool") == Pool.HAL))
    granted = granted.select(*place, granted_at="sequence", granted_size="size")
    following = attempts.select("sequence", *place).sort("sequence")
    following = following.join_asof(
        granted.sort("granted_at"),
        left_on="sequence",
        right_on="granted_at",
        by=place,
        strategy="forward",
        check_sortedness=False,
    )
    is_before = pl.col("given_up_at").is_null() | (pl.col("granted_at") < pl.col("given_up_at"))
    is_same = (pl.col("granted_size") == pl.col("size")) & is_before
    return (
        attempts.join(following.drop(place), on="sequence", how="left", maintain_order="left")
        .with_columns(
            is_served=is_same.fill_null(value=False).last().over("call"),
            attempts=pl.len().over("call").cast(pl.Int64),
            first_attempt=pl.col("sequence").first().over("call"),
        )
        .drop("granted_at", "granted_size")
    )
