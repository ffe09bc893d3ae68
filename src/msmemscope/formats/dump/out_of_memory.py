"""Rows behind an allocation that failed for lack of memory: the latest and the largest blocks that were alive.

Nothing of this is recorded; the recorder only leaves the numbers of these rows free. So the blocks that are alive are
followed here while the events pass by, up to the last failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.configuration.settings import MAXIMUM_OOM_TOP
from msmemscope.formats.dump.attributes import AttributeForm, pointer_text
from msmemscope.formats.dump.columns import COLUMNS
from msmemscope.model.devices import DEVICE_CPU, NOT_AVAILABLE, device_word
from msmemscope.model.events import (
    EVENT_WORDS,
    MEMORY_KINDS,
    OOM_RECENT_WORDS,
    OOM_TOP_WORDS,
    EventFlag,
    EventKind,
)
from msmemscope.model.pools import DEVICE_POOLS, POOL_WORDS, Pool
from msmemscope.recording import EVENT_SCHEMA

if TYPE_CHECKING:
    from msmemscope.formats.dump.recorded_events import RecordedEvents

_BLOCK_COLUMNS: Final = (
    "sequence", "timestamp_ns", "address", "size", "pool", "device", "python_stack_id", "native_stack_id",
)  # fmt: skip


class OutOfMemoryRows:
    """Follows the blocks that are alive, and shows them where memory ran out.

    Candidates are the blocks of the device's pools, those of the driver among them; for the cpu, CPU tensors and pinned
    memory. Blocks that were allocated while nothing was collected are left out: nobody knows when and where.

    Args:
        capture: The recorded events.
        form: How attributes are written.
    """

    def __init__(self, capture: RecordedEvents, form: AttributeForm) -> None:
        """Begin with the blocks whose allocation the flight recorder has dropped. Only their end is known."""
        self._capture = capture
        self._form = form
        self._failures_ahead = capture.kind_counts().get(EventKind.OOM, 0)
        self._alive = _blocks_without_begin(capture) if self._failures_ahead else _no_blocks()

    def behind(self, batch: pl.DataFrame) -> pl.DataFrame | None:
        """Return the rows that belong behind the failures of a batch, and go on to the end of it.

        Args:
            batch: Of EVENT_SCHEMA; batches must be given in order.

        Returns:
            COLUMNS, and `device` as in `DumpRows.render`; in ID order. None if there are none.
        """
        if self._failures_ahead == 0:
            return None
        is_recorded = (pl.col("kind") == EventKind.MALLOC) & (pl.col("flags") & int(EventFlag.SHADOW) == 0)
        begun = batch.filter(is_recorded).select(_BLOCK_COLUMNS)
        ended = batch.filter((pl.col("kind") == EventKind.FREE) & (pl.col("extra") != 0)).select(
            "sequence", block="extra"
        )
        known = pl.concat([self._alive, begun])
        failures = batch.filter(pl.col("kind") == EventKind.OOM)
        parts = [self._rows_of(failure, known, ended) for failure in failures.iter_slices(1) if failure["extra"][0] > 0]
        self._alive = known.join(ended, left_on="sequence", right_on="block", how="anti")
        self._failures_ahead -= len(failures)
        if self._failures_ahead == 0:
            self._alive = _no_blocks()
        return pl.concat(parts) if parts else None

    def _rows_of(self, failure: pl.DataFrame, known: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
        """Return the rows behind one failure.

        Args:
            failure: The event, one row.
            known: Blocks. Some may begin after the failure.
            ended: Blocks that end, each as `block` with the number of its end as `sequence`.
        """
        number, device, most = (failure[column][0] for column in ("sequence", "device", "extra"))
        most = min(most, MAXIMUM_OOM_TOP)
        alive = known.filter((pl.col("sequence") < number) & _is_memory_of(device)).join(
            ended.filter(pl.col("sequence") < number), left_on="sequence", right_on="block", how="anti"
        )
        recent = alive.top_k(most, by="sequence").sort("sequence", descending=True)
        top = alive.top_k(most, by=["size", "sequence"]).sort("size", "sequence", descending=True)
        rows = pl.concat(
            [
                recent.with_columns(_words(*OOM_RECENT_WORDS)),
                top.with_columns(_words(*OOM_TOP_WORDS)),
            ]
        ).with_row_index("place", offset=1)
        return rows.select(
            (pl.col("place").cast(pl.UInt64) + number).alias("ID"),
            pl.lit(EVENT_WORDS[EventKind.OOM]).alias("Event"),
            "Event Type",
            "Name",
            pl.lit(failure["timestamp_ns"][0], dtype=pl.UInt64).alias("Timestamp(ns)"),
            pl.lit(self._capture.header.process_id, dtype=pl.UInt32).alias("Process Id"),
            pl.lit(failure["thread_id"][0], dtype=pl.UInt32).alias("Thread Id"),
            pl.lit(device_word(device)).alias("Device Id"),
            pl.lit(NOT_AVAILABLE).alias("Ptr"),
            _attributes(self._form),
            self._python_stacks(rows).alias("Call Stack(Python)"),
            self._native_stacks(rows).alias("Call Stack(C)"),
            pl.lit(device, dtype=pl.Int16).alias("device"),
        ).select(*COLUMNS, "device")

    def _python_stacks(self, rows: pl.DataFrame) -> pl.Series:
        text = self._capture.python_stack_text
        return pl.Series([text(key) if key else None for key in rows["python_stack_id"]], dtype=pl.String)

    def _native_stacks(self, rows: pl.DataFrame) -> pl.Series:
        """Return the stacks with the modules that were there when the blocks were allocated."""
        taken = zip(rows["native_stack_id"].to_list(), rows["sequence"].to_list(), strict=True)
        texts = [self._capture.native_stack_text(key, sequence) or None for key, sequence in taken]
        return pl.Series(texts, dtype=pl.String)


def _is_memory_of(device: int) -> pl.Expr:
    if device == DEVICE_CPU:
        return pl.col("device") == DEVICE_CPU
    return (pl.col("device") == device) & pl.col("pool").is_in([*DEVICE_POOLS])


def _words(event_type: str, name: str) -> list[pl.Expr]:
    return [pl.lit(event_type).alias("Event Type"), pl.lit(name).alias("Name")]


def _attributes(form: AttributeForm) -> pl.Expr:
    words = pl.Series([POOL_WORDS.get(value) for value in range(256)], dtype=pl.String)
    is_pinned = (pl.col("pool") == Pool.HAL) & (pl.col("device") == DEVICE_CPU)
    pool = pl.when(is_pinned).then(pl.lit(POOL_WORDS[Pool.HOST])).otherwise(pl.lit(words).gather(pl.col("pool")))
    moment = pl.when(pl.col("timestamp_ns") > 0).then(pl.col("timestamp_ns").cast(pl.String))
    pairs = [
        form.pair("pool", pool),
        form.pair("ptr", pointer_text(pl.col("address"))),
        form.pair("size", pl.col("size").cast(pl.String)),
        form.pair("timestamp", moment.otherwise(pl.lit(NOT_AVAILABLE))),
    ]
    return pl.concat_str(pl.lit("{"), pl.concat_str(*pairs, separator=","), pl.lit("}")).alias("Attr")


def _no_blocks() -> pl.DataFrame:
    return EVENT_SCHEMA.to_frame().select(_BLOCK_COLUMNS)


def _blocks_without_begin(capture: RecordedEvents) -> pl.DataFrame:
    """Return the blocks that have only a FREE, with no time and no stacks.

    A flight recorder drops the MALLOC of a block that was freed. It may have dropped it after a failure at which the
    block was alive.
    """
    if capture.header.dropped_recycled == 0:
        return _no_blocks()
    begun: list[pl.Series] = []
    ended: list[pl.DataFrame] = []
    for batch in capture.restricted_to(MEMORY_KINDS).event_batches():
        begun.append(batch.filter(pl.col("kind") == EventKind.MALLOC)["sequence"])
        ended.append(batch.filter((pl.col("kind") == EventKind.FREE) & (pl.col("extra") != 0)))
    ends = pl.concat([EVENT_SCHEMA.to_frame(), *ended])
    return (
        ends.filter(~pl.col("extra").is_in(pl.concat([_no_blocks()["sequence"], *begun]).implode()))
        .with_columns(
            sequence=pl.col("extra"),
            timestamp_ns=pl.lit(0, dtype=pl.UInt64),
            python_stack_id=pl.lit(0, dtype=pl.UInt32),
            native_stack_id=pl.lit(0, dtype=pl.UInt32),
        )
        .select(_BLOCK_COLUMNS)
    )
