"""Containers of the program that have gone on to grow: lists, dictionaries, sets, deques, and the objects of a class.

The observed process looks at its containers now and then, and records those that have grown since several looks. One
that was not recorded late in the run has stopped: it was filled, or has a bound. The bytes are estimates: some of the
newest entries stand for all.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.containers import OBJECTS_OF_CLASS, bound_in, without_bound
from msmemscope.model.events import EventKind
from msmemscope.recording.holders import container_of
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from msmemscope.analysis.host.host_samples import HostSamples
    from msmemscope.recording import Recording

CONTAINER_SCHEMA: Final = pl.Schema(
    {
        "held_by": pl.String(), "type": pl.String(), "entry_type": pl.String(), "entries": pl.Int64(),
        "grown_entries": pl.Int64(), "total_bytes": pl.Int64(), "grown_bytes": pl.Int64(), "steps": pl.Int64(),
        "seconds": pl.Float64(), "bound": pl.Int64(),
    }
)  # fmt: skip
"""One row per container that grew to near the end of the run, the most grown bytes first.

held_by: the chain of references to it: `Server.new_block_ids, from main.server`. Containers whose chains differ in keys and
    numbers alone are one row: `Monitor.metrics[...]`.
type, entry_type: `list` and `str`; of the objects of a class `objects` and the class.
entries: at the last look that saw it.
total_bytes: of it and its entries, an estimate.
grown_entries, grown_bytes: since the look that saw it first.
steps, seconds: between both; no steps where the program has none.
bound: the most entries that it takes; null where the program does not say so.
"""

_MOST_ERROR_OF_COUNT: Final = 1 / 6
"""The standard error of a number of blocks, in parts of it: with more, other containers have as many entries by chance."""
_MOST_ERRORS: Final = 2
_FEWEST_SEEN: Final = 32
"""Entries that a container got while it was looked at."""
_OF_KEY: Final = " to "
"""Between the types of key and value, where entries are pairs."""
_OF_KNOWN_SIZE: Final = (
    "", "NoneType", "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "ndarray", "set",
    "str", "tuple",
)  # fmt: skip
"""Types of entries whose bytes are known: a container of them would keep the growth by these."""
_LATE: Final = 0.6
"""The part of the run that is over before the last look at what still grows."""


@dataclasses.dataclass(frozen=True)
class GrowingContainer:
    """A container of the program, as the last look saw it."""

    held_by: str
    """The chain of references to it."""
    type: str
    entry_type: str
    entries: int
    grown_entries: int
    total_bytes: int
    grown_bytes: int
    steps: int
    seconds: float
    bound: int | None
    is_of_blocks: bool = False
    """Whether it has an entry for each block of a line: the bytes of entries are not known then."""

    @property
    def kind(self) -> str:
        """`list of str`, or `objects of Node`."""
        return f"{self.type} of {self.entry_type}" if self.entry_type else self.type

    @property
    def words(self) -> str:
        """The container, its type, its pace and its length: `main.seen (list of str, +200 per step, 600,000 now, ...)`."""
        grown = f"+{format_count(self.grown_entries)}"
        pace = (
            f"+{self.grown_entries / self.steps:,.3g} per step" if self.steps else f"{grown} in {self.seconds:,.3g} s"
        )
        each = f"{format_bytes(round(self.grown_bytes / max(self.grown_entries, 1)))} each"
        size = "one for each block" if self.is_of_blocks else each
        return f"{self.held_by} ({self.kind}, {pace}, {format_count(self.entries)} now, {size})"


def growing_containers(recording: Recording) -> pl.DataFrame:
    """Return the containers that grew to near the end, CONTAINER_SCHEMA.

    Args:
        recording: With CONTAINER events and the steps of the program.
    """
    found = _containers(recording, _LATE).filter(pl.col("grown_entries") > 0, pl.col("bound").is_null())
    counts = ("entries", "grown_entries", "total_bytes", "grown_bytes")
    alike = found.group_by(container_of(pl.col("held_by")).alias("all"), "type", "entry_type", maintain_order=True).agg(
        pl.when(pl.len() > 1).then(container_of(pl.col("held_by").first())).otherwise(pl.col("held_by").first()),
        pl.col(*counts).sum(),
        pl.col("steps", "seconds").max(),
        pl.col("bound").first(),
    )
    return alike.select(CONTAINER_SCHEMA.names()).sort("grown_bytes", descending=True, maintain_order=True)


def largest_container(recording: Recording) -> GrowingContainer | None:
    """Return the container with most bytes, whether it grows or not; None if none was recorded.

    Args:
        recording: With CONTAINER events.
    """
    found = _containers(recording, 0).sort("total_bytes", descending=True, maintain_order=True)
    return GrowingContainer(**found.row(0, named=True)) if found.height else None


def _containers(recording: Recording, earliest: float) -> pl.DataFrame:
    """Return the containers as the last look saw them, CONTAINER_SCHEMA.

    Args:
        recording: With CONTAINER events and the steps of the program.
        earliest: The part of the run that must be over before the last look at a container.
    """
    return _seen_last(recording, earliest).select(CONTAINER_SCHEMA.names())


def _seen_last(recording: Recording, earliest: float) -> pl.DataFrame:
    """Return the same with `first_sequence` and `sequence`: the events of the first look and of the last."""
    schema = pl.Schema({**CONTAINER_SCHEMA, "first_sequence": pl.UInt64(), "sequence": pl.UInt64()})
    seen = recording.events.filter(pl.col("kind") == EventKind.CONTAINER, pl.col("size") > 0)
    if seen.is_empty():
        return schema.to_frame()
    moment = pl.col("timestamp_ns").cast(pl.Int64, strict=False)
    events = recording.events.select("sequence", moment).filter(moment > 0)
    if events.is_empty():
        return schema.to_frame()
    moments = events["timestamp_ns"].to_numpy()
    begin, end = int(moments.min()), int(moments.max())
    # Figures that nobody can believe, as in a damaged log, are none.
    facts = recording.attributes.select(
        "attribute_id",
        "container_type",
        "entry_type",
        pl.col("first_entries").cast(pl.Int64, strict=False),
        "first_sequence",
    ).drop_nulls()
    step_ends = recording.steps["end_sequence"].drop_nulls()
    latest = (
        seen.with_columns(pl.col("extra").cast(pl.Int64, strict=False), moment)
        .drop_nulls(["extra", "timestamp_ns"])
        .sort("sequence")
        .unique("address", keep="last", maintain_order=True)
        .filter(pl.col("timestamp_ns") >= begin + earliest * (end - begin))
        .join(facts, on="attribute_id", how="inner", maintain_order="left")
        .join(recording.strings.select(name_id="id", held_by="text"), on="name_id", how="inner", maintain_order="left")
    )
    at_first = events["sequence"].search_sorted(latest["first_sequence"])
    first_ns = events["timestamp_ns"][at_first.clip(0, events.height - 1)]
    grown = pl.col("size") - pl.col("first_entries")
    return (
        latest.with_columns(
            type=without_bound(pl.col("container_type")),
            bound=bound_in(pl.col("container_type")).cast(pl.Int64, strict=False),
            entries="size",
            total_bytes="extra",
            grown_entries=grown,
            grown_bytes=(pl.col("extra").cast(pl.Float64) * grown / pl.col("size")).cast(pl.Int64, strict=False),
            steps=pl.Series(
                step_ends.search_sorted(latest["sequence"]).cast(pl.Int64)
                - step_ends.search_sorted(latest["first_sequence"]).cast(pl.Int64)
            ),
            seconds=(latest["timestamp_ns"] - first_ns).clip(0) / 1e9,
        )
        .select(schema.names())
        .cast(schema)
        .sort("grown_bytes", descending=True, maintain_order=True)
    )


def filling_bytes(recording: Recording) -> int:
    """Return by how many bytes containers with a bound have grown that is not reached yet.

    Args:
        recording: With CONTAINER events and the steps of the program.
    """
    filling = _containers(recording, _LATE).filter(pl.col("entries") <= pl.col("bound"))
    # One may be within another one.
    return int(filling["grown_bytes"].to_numpy().max(initial=0))


def container_behind(recording: Recording, growth_bytes: int, least_share: float) -> GrowingContainer | None:
    """Return the container that keeps most of some growth; None where none keeps enough of it.

    Args:
        recording: With CONTAINER events and the steps of the program.
        growth_bytes: Of the host memory of the process.
        least_share: Of the growth, that the container must keep.
    """
    found = growing_containers(recording)
    # A container within another one, and the objects of a class in it, grow with it: what holds all has most bytes.
    first = next(found.iter_rows(named=True), None)
    if first is None or first["grown_bytes"] < least_share * growth_bytes:
        return None
    return GrowingContainer(**first)


def container_of_blocks(recording: Recording, of_line: HostSamples) -> GrowingContainer | None:
    """Return the container that got an entry for each block that a line kept; None where none did, or several.

    Objects of libraries do not say how much memory they have outside of Python: images, tables, tensors in shared memory.

    Args:
        recording: With CONTAINER events and the steps of the program.
        of_line: All samples of the line.
    """
    entry = pl.col("entry_type").str.split(_OF_KEY).list.last()
    seen = _seen_last(recording, _LATE).filter(
        pl.col("grown_entries") >= _FEWEST_SEEN,
        pl.col("bound").is_null(),
        pl.col("type") != OBJECTS_OF_CLASS,
        ~entry.is_in(_OF_KNOWN_SIZE),
    )
    found = []
    for row in seen.iter_rows(named=True):
        count, error = of_line.alive(row.pop("first_sequence"), row.pop("sequence")).block_count
        if error <= _MOST_ERROR_OF_COUNT * count and abs(row["grown_entries"] - count) <= 1 + _MOST_ERRORS * error:
            found.append(GrowingContainer(**row, is_of_blocks=True))
    kinds = {one.entry_type.rpartition(_OF_KEY)[2] for one in found}
    return found[0] if len(kinds) == 1 else None
