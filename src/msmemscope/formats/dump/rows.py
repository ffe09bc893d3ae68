"""The twelve columns of a dump, from events."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.configuration import CollectionItem
from msmemscope.formats.dump.attributes import AttributeForm, attribute_texts, pointer_text
from msmemscope.formats.dump.block_column import BlockColumn
from msmemscope.formats.dump.inefficient_attribute import KEY
from msmemscope.formats.dump.last_values import LastValues
from msmemscope.formats.dump.pinned_memory import PinnedMemory
from msmemscope.formats.event_log.event_frame import device_text
from msmemscope.model.devices import DEVICE_CPU, NOT_AVAILABLE
from msmemscope.model.events import (
    ACCESS_KINDS,
    EVENT_TYPE_WORDS,
    EVENT_WORDS,
    LAUNCH_KINDS,
    MEMORY_KINDS,
    MSTX_KINDS,
    OOM_TRIGGER_NAME,
    ROWLESS_KINDS,
    EventKind,
)
from msmemscope.model.pools import POOL_WORDS, Pool

if TYPE_CHECKING:
    from msmemscope.configuration import Config
    from msmemscope.formats.dump.running_totals import RunningTotals
    from msmemscope.formats.event_log.capture import Capture

_KINDS_WITH_STACKS: Final = (EventKind.SNAPSHOT, EventKind.OOM)
"""Kinds whose stacks are shown whatever the settings say: they have some only where memory ran out."""
_KINDS_OF_ITEMS: Final = {
    CollectionItem.ALLOC: (EventKind.MALLOC,),
    CollectionItem.FREE: (EventKind.FREE,),
    CollectionItem.ACCESS: ACCESS_KINDS,
    CollectionItem.LAUNCH: LAUNCH_KINDS,
}
"""The events that a choice of `--events` stands for; those of tracebacks are no rows."""
_KINDS_WITH_OWN_NAMES: Final = (EventKind.STEP, EventKind.RANGE_END, EventKind.OOM)
"""Kinds some of whose rows have a name that is no text of the log."""


@dataclasses.dataclass(frozen=True)
class BlockFindings:
    """What analyses found of blocks, to be shown in the rows of their MALLOCs."""

    owners: pl.DataFrame | None = None
    """`Ownership.owners`; None if rows are not to show them."""
    inefficient: pl.DataFrame | None = None
    """`InefficientResult.kinds_by_block`; None if rows are not to show them."""


NO_FINDINGS: Final = BlockFindings()


class DumpRows:
    """Renders batches of events as rows of a dump.

    Args:
        capture: Where names and stacks are looked up.
        settings: Which stacks are shown.
        form: How attributes are written.
        totals: Of the events before the first batch.
        findings: What the rows of blocks show beside what was recorded.
    """

    def __init__(
        self,
        capture: Capture,
        settings: Config,
        form: AttributeForm,
        totals: RunningTotals,
        findings: BlockFindings = NO_FINDINGS,
    ) -> None:
        """Prepare what is the same for all batches."""
        self._capture = capture
        self._shows_python_stacks = settings.python_stack
        self._shows_native_stacks = settings.native_stack
        self._form = form
        self._totals = totals
        self._last_values = LastValues()
        self._pinned = PinnedMemory(capture)
        self._findings = (BlockColumn("owner", findings.owners, form), BlockColumn(KEY, findings.inefficient, form))
        self._unwritten = [int(kind) for item in settings.unwritten for kind in _KINDS_OF_ITEMS.get(item, ())]
        self._columns = _column_expressions(capture.header.process_id)

    def render(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Returns one row per event; kinds that are no rows are left out.

        Args:
            batch: Of EVENT_SCHEMA; batches must be given in order.

        Returns:
            COLUMNS, and `device` as the event has it.
        """
        batch = self._pinned.moved_to_driver(batch)
        batch = batch.with_columns(self._last_values.at_each(batch))
        if batch["kind"].is_in([*ROWLESS_KINDS]).any():
            batch = batch.filter(~pl.col("kind").is_in([*ROWLESS_KINDS]))
        if self._unwritten:
            batch = batch.filter(~pl.col("kind").is_in(self._unwritten))
        # An allocation that failed is a row where the analysis oom was asked for.
        batch = batch.filter((pl.col("kind") != EventKind.OOM) | (pl.col("extra") > 0))
        batch = batch.with_columns(
            self._totals.after_each(batch),
            self._names(batch),
            *(column.of_each(batch) for column in self._findings),
            self._recorded_attributes(batch),
            self._python_stacks(batch),
            self._native_stacks(batch),
            pointer=pl.when(_has_address()).then(pointer_text(pl.col("address"))),
        )
        batch = batch.with_columns(attribute_texts(self._form, batch))
        return batch.lazy().select(*self._columns, "device").collect()

    def _names(self, batch: pl.DataFrame) -> pl.Series:
        kinds = batch["kind"]
        # The name of memory is the operator that allocated it, which has a row of its own.
        used = batch["name_id"].set(kinds.is_in([*MEMORY_KINDS]), 0)
        names = looked_up(used, self._capture.string_frame(used)).alias("name")
        is_mark = kinds.is_in([*MSTX_KINDS])
        if is_mark.any():
            names = names.zip_with(names.is_not_null() | is_mark, pl.Series([NOT_AVAILABLE]))
        else:
            names = names.fill_null(NOT_AVAILABLE)
        if not kinds.is_in([*_KINDS_WITH_OWN_NAMES]).any():
            return names.alias("Name")
        kind = pl.col("kind")
        own = (
            pl.when(kind == EventKind.STEP)
            .then(pl.col("size").cast(pl.String))
            .when((kind == EventKind.RANGE_END) & (pl.col("name_id") == 0))
            .then(pl.concat_str(pl.lit("Range end from id "), pl.col("extra").cast(pl.String)))
            .when(kind == EventKind.OOM)
            .then(pl.lit(OOM_TRIGGER_NAME))
            .otherwise(pl.lit(names))
        )
        return batch.select(own.alias("Name")).to_series()

    def _recorded_attributes(self, batch: pl.DataFrame) -> pl.Series:
        if batch["attribute_id"].max() == 0:
            return no_texts(len(batch)).alias("recorded")
        ids = batch["attribute_id"]
        texts = self._form.recorded(self._capture.attribute_pairs(ids))
        return looked_up(ids, texts).alias("recorded")

    def _python_stacks(self, batch: pl.DataFrame) -> pl.Series:
        ids = _shown_ids(batch, "python_stack_id", self._shows_python_stacks)
        if ids is None:
            return no_texts(len(batch)).alias("python_stack")
        return looked_up(ids, self._capture.python_stack_frame(ids)).alias("python_stack")

    def _native_stacks(self, batch: pl.DataFrame) -> pl.Series:
        stack_ids = _shown_ids(batch, "native_stack_id", self._shows_native_stacks)
        if stack_ids is None:
            return no_texts(len(batch)).alias("native_stack")
        # Between two changes of modules an address means the same everywhere.
        sequences = batch["sequence"]
        cuts = [0, *(int(sequences.search_sorted(change)) for change in self._capture.module_changes), len(batch)]
        parts = []
        for start, end in pairwise(cuts):
            if start < end:
                ids = stack_ids[start:end]
                texts = self._capture.native_stack_frame(ids, int(sequences[start]))
                parts.append(looked_up(ids, texts))
        return pl.concat(parts).alias("native_stack")


def _shown_ids(batch: pl.DataFrame, column: str, shows_all: bool) -> pl.Series | None:  # noqa: FBT001 - of two lines above
    """Returns the stack ids whose text is shown, 0 where none is; None if no text is shown at all."""
    if shows_all:
        return None if batch.is_empty() else batch[column]
    has_stacks = batch["kind"].is_in([*_KINDS_WITH_STACKS])
    return batch[column] * has_stacks.cast(pl.UInt32) if has_stacks.any() else None


def no_texts(rows: int) -> pl.Series:
    """Returns a column of so many nulls."""
    return pl.repeat(None, rows, dtype=pl.String, eager=True)


def looked_up(keys: pl.Series, texts: pl.DataFrame) -> pl.Series:
    """Returns the text of each key; null for a key that has none.

    Args:
        keys: One per row.
        texts: `id` and `text`.
    """
    if texts.is_empty():
        return no_texts(len(keys))
    frame = keys.alias("id").to_frame().join(texts, on="id", how="left", maintain_order="left")
    return frame["text"]


def _has_address() -> pl.Expr:
    return pl.col("kind").is_in([*MEMORY_KINDS, *ACCESS_KINDS])


def _words(words: dict[int, str]) -> pl.Series:
    return pl.Series([words.get(value, NOT_AVAILABLE) for value in range(256)])


def _column_expressions(process_id: int) -> list[pl.Expr]:
    kind = pl.col("kind")
    is_memory = kind.is_in([*MEMORY_KINDS])
    is_pinned = is_memory & (pl.col("pool") == Pool.HAL) & (pl.col("device") == DEVICE_CPU)
    event_type = (
        pl.when(is_pinned)
        .then(pl.lit(POOL_WORDS[Pool.HOST]))
        .when(is_memory)
        .then(pl.lit(_words(POOL_WORDS)).gather(pl.col("pool")))
        .otherwise(pl.lit(_words(EVENT_TYPE_WORDS)).gather(kind))
    )
    return [
        pl.col("sequence").alias("ID"),
        pl.lit(_words(EVENT_WORDS)).gather(kind).alias("Event"),
        event_type.alias("Event Type"),
        pl.col("Name"),
        pl.col("timestamp_ns").alias("Timestamp(ns)"),
        pl.lit(process_id, dtype=pl.UInt32).alias("Process Id"),
        pl.col("thread_id").alias("Thread Id"),
        device_text(pl.col("device")).alias("Device Id"),
        pl.col("pointer").fill_null(NOT_AVAILABLE).alias("Ptr"),
        pl.col("Attr"),
        pl.col("python_stack").alias("Call Stack(Python)"),
        pl.col("native_stack").alias("Call Stack(C)"),
    ]
