"""Changes of watched memory: the operator, the bytes, and whether it may write them.

Three verdicts. *legitimate*: an operator that ran may write the memory, by its schema and arguments. *unexpected*: it
may not, or no operator ran at all. *unknown*: a kernel ran, or an operator with unknown writes. Between two kernels the
verdict is unknown, too: copies that are no kernels can have run.

The events and their attributes are described in `native/FORMAT.md`, "Watched memory".
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.coverage import Coverage
from msmemscope.analysis.recorded import Recorded
from msmemscope.analysis.watch.declared_writes import DECLARED_WRITE_SCHEMA, find_declared_writes
from msmemscope.analysis.watch.sentences import (
    change_sentences,
    coverage_sentences,
    files_sentences,
    range_texts,
    window_sentences,
)
from msmemscope.model.events import WATCH_KINDS, EventFlag, EventKind
from msmemscope.model.watching import OPTIMIZERS_FACT, TRAINED_FACT
from msmemscope.recording.call_sites import STACK_COLUMNS, UNKNOWN_SITES, call_sites
from msmemscope.recording.schema import ATTRIBUTE_SCHEMA

if TYPE_CHECKING:
    from msmemscope.recording import Recording

TITLE: Final = "Watched memory"
LEGITIMATE: Final = "legitimate"
UNEXPECTED: Final = "unexpected"
UNKNOWN: Final = "unknown"

WINDOW_NEVER_BEGAN: Final = "watch.window_never_began"
"""The fact that names an operator that should have opened the window of `--watch`, and did not run."""
NAMED_LAUNCH_KINDS: Final = (
    EventKind.ATEN_START,
    EventKind.ATB_START,
    EventKind.KERNEL_START,
    EventKind.KERNEL_LAUNCH,
)
"""Kinds whose names `--watch` can mean."""
WATCH_CHANGE_SCHEMA: Final = pl.Schema(
    {
        "sequence": pl.UInt64(),
        "timestamp_ns": pl.UInt64(),
        "verdict": pl.String(),
        "watch": pl.String(),
        "watch_id": pl.Int64(),
        "name": pl.String(),
        "output": pl.Int64(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "device": pl.Int16(),
        "malloc_sequence": pl.UInt64(),
        "when": pl.String(),
        "operator": pl.String(),
        "call": pl.Int64(),
        "source": pl.String(),
        "previous": pl.String(),
        "previous_call": pl.Int64(),
        "is_exact": pl.Boolean(),
        "concurrent": pl.Int64(),
        "writer": pl.String(),
        "writer_call": pl.Int64(),
        "before": pl.String(),
        "after": pl.String(),
        "changed_bytes": pl.Int64(),
        "first": pl.Int64(),
        "last": pl.Int64(),
        "ranges": pl.String(),
        "granularity": pl.Int64(),
        "is_beside": pl.Boolean(),
        "neighbour": pl.UInt64(),
        "neighbour_address": pl.UInt64(),
        "neighbour_size": pl.Int64(),
        "neighbour_is_written": pl.Boolean(),
        "more_blocks": pl.Int64(),
        "call_site": pl.String(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "thread_id": pl.UInt32(),
        "block_operator": pl.String(),
        "block_site": pl.String(),
        "neighbour_operator": pl.String(),
        "neighbour_site": pl.String(),
        "sentence": pl.String(),
    }
)
"""One row per change of watched memory, in the order in which they were found.

verdict: `legitimate`, `unexpected` or `unknown`.
watch, watch_id, name, output: the watched memory: `tensor`, `address`, `window` (an output of an operator) or `auto`.
address, size: of the watched bytes; malloc_sequence: its block, 0 if it is not known.
when: `during` the operator, or `between` `previous` and the operator.
operator, call, source: the operator that ran, the number of its call from 1, and `aten`, `atb` or `kernel`.
is_exact: whether the memory was looked at right before; if not, anything since `previous` can be meant.
writer, writer_call: who may write it, where that is another operator.
before, after: checksums. changed_bytes, first, last, ranges: offsets in bytes, exact to `granularity`.
is_beside: it is the operator's own block, written outside of the bytes that the operator may write.
neighbour...: the block before it in memory; neighbour_is_written: whether the operator may write that one.
more_blocks: how many further blocks the same write reached behind this one.
call_site: the line of the program that ran the operator; block_..., neighbour_...: who allocated these blocks.
sentence: the words about a change that is not legitimate.
"""

WATCHED_SCHEMA: Final = pl.Schema(
    {
        "watch": pl.String(),
        "watch_id": pl.Int64(),
        "name": pl.String(),
        "output": pl.Int64(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "device": pl.Int16(),
        "begin_sequence": pl.UInt64(),
        "end_sequence": pl.UInt64(),
        "end_reason": pl.String(),
        "legitimate": pl.UInt32(),
        "unexpected": pl.UInt32(),
        "unknown": pl.UInt32(),
    }
)
"""One row per piece of memory that was watched by name or as an output, with its changes counted by verdict.

end_sequence, end_reason: null if the end was not recorded.
"""

_ATTRIBUTES: Final = (
    "attribute_id", "reason", "has_more_ranges", "is_trained",
    *(name for name in WATCH_CHANGE_SCHEMA.names() if name in ATTRIBUTE_SCHEMA),
)  # fmt: skip
NO_CHANGES_IN_DUMPS: Final = "dumps do not have the changes of watched memory: give the capture folder"
_IDENTITY: Final = ("watch", "watch_id", "output")


@dataclasses.dataclass(frozen=True)
class WatchResult:
    """The known facts about watched memory of one process."""

    changes: pl.DataFrame
    """WATCH_CHANGE_SCHEMA."""
    watched: pl.DataFrame
    """WATCHED_SCHEMA; automatic watching has no rows here."""
    extent: tuple[str, ...]
    """How much automatic watching has looked at, and which window never began, one sentence each."""
    declared: pl.DataFrame = dataclasses.field(default_factory=DECLARED_WRITE_SCHEMA.to_frame)
    """DECLARED_WRITE_SCHEMA: lines that wrote memory that is watched by name, through operators that declare it."""
    files: tuple[str, ...] = ()
    """The gaps of files of watched memory, one sentence each; empty if they are complete."""
    coverage: Coverage = dataclasses.field(default=Coverage(TITLE))
    """The coverage of the answer."""

    @property
    def unexpected(self) -> pl.DataFrame:
        """The changes that should not be."""
        return self.changes.filter(pl.col("verdict") == UNEXPECTED)

    @property
    def was_watched(self) -> bool:
        """Whether any memory was watched at all."""
        return bool(self.extent) or not (self.changes.is_empty() and self.watched.is_empty())

    def to_polars(self) -> pl.DataFrame:
        """Return the changes."""
        return self.changes


def judge_watched_memory(recording: Recording) -> WatchResult:
    """Judge every change of watched memory.

    Args:
        recording: An event log; dumps have no such events. Blocks are named if it has their MALLOC events.
    """
    events = _with_attributes(recording)
    extent = (*coverage_sentences(recording.facts), *_windows(recording))
    files = files_sentences(recording.facts, recording.process_id)
    tables = (WATCH_CHANGE_SCHEMA.to_frame(), WATCHED_SCHEMA.to_frame(), DECLARED_WRITE_SCHEMA.to_frame())
    changes, watched, declared = tables if events.is_empty() else _judged(recording, events)
    found = WatchResult(changes, watched, extent, declared, files)
    return found if found.was_watched else dataclasses.replace(found, coverage=_why_not_watched(recording))


def _judged(recording: Recording, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The changes, the memory that was watched, and the declared writes."""
    changes = _changes(recording, events.filter(pl.col("kind") == EventKind.WATCH))
    legitimate = changes.filter(pl.col("verdict") == LEGITIMATE)
    trained = events.filter("is_trained")["watch_id"]
    if OPTIMIZERS_FACT in recording.facts:
        trained = trained.filter(trained.cast(pl.String).is_in(recording.facts.get(TRAINED_FACT, ())))
    declared = find_declared_writes(recording, legitimate, trained)
    return changes, _watched(events, changes), declared


def _windows(recording: Recording) -> tuple[str, ...]:
    """Say which windows never began, and which operators with similar names ran."""
    starts = recording.facts.get(WINDOW_NEVER_BEGAN, ())
    if not starts:
        return ()
    ran = recording.events.filter(pl.col("kind").is_in([int(kind) for kind in NAMED_LAUNCH_KINDS]))["name_id"]
    names = recording.strings.filter(pl.col("id").is_in(ran.unique().implode()))["text"]
    return window_sentences(starts, names.drop_nulls())


def _why_not_watched(recording: Recording) -> Coverage:
    """Without a trace of watching: whether there could be one at all."""
    recorded = Recorded.of(recording)
    reasons = recorded.why_nothing() if recorded.is_event_log else (NO_CHANGES_IN_DUMPS,)
    return Coverage(TITLE).without_answer(reasons)


def _with_attributes(recording: Recording) -> pl.DataFrame:
    """Return the events about watched memory, with their attributes."""
    events = recording.events.filter(pl.col("kind").is_in([int(kind) for kind in WATCH_KINDS]))
    names = recording.strings.select(pl.col("id").alias("name_id"), pl.col("text").alias("name"))
    numbers = [name for name, kind in WATCH_CHANGE_SCHEMA.items() if name in ATTRIBUTE_SCHEMA and kind == pl.Int64()]
    return (
        events.join(names, on="name_id", how="left", maintain_order="left")
        .join(recording.attributes.select(_ATTRIBUTES), on="attribute_id", how="left", maintain_order="left")
        .with_columns(pl.col(numbers).cast(pl.Int64, strict=False))  # a damaged one may be larger
        .with_columns(
            pl.col("name").fill_null(""),
            pl.col("is_exact").fill_null(value=True),
            pl.col("is_beside", "neighbour_is_written", "has_more_ranges", "is_trained").fill_null(value=False),
            pl.col("concurrent", "more_blocks").fill_null(0),
            pl.col("extra").alias("malloc_sequence"),
        )
    )


def _changes(recording: Recording, events: pl.DataFrame) -> pl.DataFrame:
    may_write = pl.col("flags") & int(EventFlag.MAY_WRITE) != 0
    is_unknown = pl.col("flags") & int(EventFlag.WRITES_UNKNOWN) != 0
    is_between = pl.col("when") == "between"
    is_kernel = (pl.col("source") == "kernel").fill_null(value=False)
    verdict = (
        pl.when(may_write)
        .then(pl.lit(LEGITIMATE))
        .when(pl.when(is_between).then(is_kernel).otherwise(is_unknown))
        .then(pl.lit(UNKNOWN))
        .otherwise(pl.lit(UNEXPECTED))
    )
    judged = (
        events.with_columns(verdict=verdict)
        # The name of such an event is not an operator.
        .with_columns(name_id=pl.lit(0, dtype=pl.UInt32))
    )
    sites = call_sites(recording, judged).select(
        *STACK_COLUMNS, pl.when(~pl.col("site").is_in(UNKNOWN_SITES)).then("site").alias("call_site")
    )
    found = judged.join(sites, on=list(STACK_COLUMNS), how="left", maintain_order="left")
    for column, prefix in (("malloc_sequence", "block"), ("neighbour", "neighbour")):
        origins = _origins(recording, found[column], prefix)
        found = found.with_columns(pl.col(column).cast(pl.UInt64, strict=False)).join(
            origins, left_on=column, right_on="identity", how="left", maintain_order="left"
        )
    wrong = found.filter(pl.col("verdict") != LEGITIMATE)
    sentences = wrong.select("sequence").with_columns(change_sentences(wrong))
    reported = found.join(sentences, on="sequence", how="left", maintain_order="left").with_columns(
        ranges=range_texts()
    )
    return reported.select(WATCH_CHANGE_SCHEMA.names()).cast(WATCH_CHANGE_SCHEMA)


def _origins(recording: Recording, identities: pl.Series, prefix: str) -> pl.DataFrame:
    """Return who allocated some blocks: the operator, and the line of the program."""
    wanted = identities.drop_nulls().unique().cast(pl.UInt64)
    blocks = recording.blocks.filter(pl.col("allocation_id").is_in(wanted.implode()))
    site = pl.when(~pl.col("site").is_in(UNKNOWN_SITES)).then("site")
    return blocks.join(call_sites(recording, blocks), on=list(STACK_COLUMNS), how="left").select(
        pl.col("allocation_id").alias("identity"),
        pl.col("name").alias(f"{prefix}_operator"),
        # Without a stack, the site is the operator once more.
        pl.when(site != pl.col("name").fill_null("")).then(site).alias(f"{prefix}_site"),
    )


def _watched(events: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    begun = events.filter(pl.col("kind") == EventKind.WATCH_START)
    ended = events.filter(pl.col("kind") == EventKind.WATCH_STOP).select(
        *_IDENTITY, pl.col("sequence").alias("end_sequence"), pl.col("reason").alias("end_reason")
    )
    counts = changes.group_by(_IDENTITY).agg(
        (pl.col("verdict") == verdict).sum().alias(verdict) for verdict in (LEGITIMATE, UNEXPECTED, UNKNOWN)
    )
    return (
        begun.rename({"sequence": "begin_sequence"})
        .join(ended, on=_IDENTITY, how="left", nulls_equal=True, maintain_order="left")
        .join(counts, on=_IDENTITY, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.col(LEGITIMATE, UNEXPECTED, UNKNOWN).fill_null(0))
        .select(WATCHED_SCHEMA.names())
        .cast(WATCHED_SCHEMA)
    )
