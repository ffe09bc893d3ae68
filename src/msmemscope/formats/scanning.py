"""Events of an event log as a lazy frame, read in parts while a query runs: for logs that do not fit in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
from polars.io.plugins import register_io_source

from msmemscope.errors import InputError
from msmemscope.formats.event_log import Capture
from msmemscope.formats.recognise import recognise
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.pools import pool_word
from msmemscope.recording.schema import EVENT_SCHEMA

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

_BATCH_ROWS: Final = 1 << 18
SCAN_SCHEMA: Final = pl.Schema(
    {
        "sequence": pl.UInt64(),
        "timestamp_ns": pl.UInt64(),
        "thread_id": pl.UInt32(),
        "device": pl.String(),
        "kind": pl.String(),
        "pool": pl.String(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "name": pl.String(),
        "flags": EVENT_SCHEMA["flags"],
        "attribute_id": pl.UInt32(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "extra": pl.UInt64(),
    }
)
"""`EVENT_SCHEMA` with words: `device` (`npu:0`, `cpu`), `kind` (`MALLOC`, `FREE`, ...), `pool` (`PTA`, `HOST`, ...) and `name`
of operator, kernel or mark; null if there is none."""


def scan(path: str | os.PathLike[str]) -> pl.LazyFrame:
    """Read the events of one process in parts, while a query runs.

    ::

        import polars as pl, msmemscope

        events = msmemscope.scan("memscopeDumpResults/msmemscope_4242_20240101120000_ascend")
        allocated = events.filter(pl.col("kind") == "MALLOC").group_by("name").agg(pl.col("size").sum())
        print(allocated.collect(engine="streaming"))

    A log of 100,000,000 events needs no more memory than a small one, unless the query does. `load` also has
    tables that are derived from events: blocks, operators, steps.

    Args:
        path: A capture folder `msmemscope_{pid}_{timestamp}_ascend`, or its archive.

    Returns:
        SCAN_SCHEMA, in sequence order.

    Raises:
        InputError: the path holds no event log, or several.
        EventLogError: the log is damaged beyond reading.
    """
    given = Path(path)
    found = recognise(given)
    if len(found) > 1:
        message = f"{given} holds {len(found)} inputs"
        raise InputError(message, hint="give the folder of one process, msmemscope_{pid}_{timestamp}_ascend")
    if found[0].failure is not None:
        raise found[0].failure
    if found[0].file_format is not None:
        message = f"{given} is no event log"
        raise InputError(message, hint="dumps are read by load(), and by polars.scan_csv()")
    capture = Capture(found[0].paths[0])

    def parts(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = None if columns is None else {*columns, *([] if predicate is None else predicate.meta.root_names())}
        left = rows
        for batch in capture.event_batches(min(batch_rows or _BATCH_ROWS, _BATCH_ROWS)):
            part = _with_words(batch if left is None else batch.head(left), capture, wanted)
            if left is not None:
                left -= part.height
            if predicate is not None:
                part = part.filter(predicate)
            yield part if columns is None else part.select(columns)
            if left == 0:
                return

    return register_io_source(parts, schema=SCAN_SCHEMA)


def _with_words(events: pl.DataFrame, capture: Capture, wanted: set[str] | None) -> pl.DataFrame:
    """Return events in SCAN_SCHEMA; of the columns with words those that are wanted, None for all."""

    def is_wanted(name: str) -> bool:
        return wanted is None or name in wanted

    if is_wanted("name"):
        names = capture.string_frame(events["name_id"]).rename({"id": "name_id", "text": "name"})
        events = events.join(names, on="name_id", how="left", maintain_order="left")
    if is_wanted("pool"):
        words = events.select("device", "pool").unique()
        texts = [pool_word(pool, device) if pool else None for device, pool in words.iter_rows()]
        words = words.with_columns(pl.Series("pool_word", texts, dtype=pl.String()))
        events = events.join(words, on=["device", "pool"], how="left", maintain_order="left")
        events = events.drop("pool").rename({"pool_word": "pool"})
    events = _in_words(events, "kind", lambda kind: EventKind(kind).name) if is_wanted("kind") else events
    events = _in_words(events, "device", device_name) if is_wanted("device") else events
    return events.select(name for name in SCAN_SCHEMA.names() if name in events.columns and is_wanted(name))


def _in_words(events: pl.DataFrame, column: str, word: Callable[[int], str]) -> pl.DataFrame:
    values = events[column].unique()
    texts = pl.Series(map(word, values), dtype=pl.String())
    return events.with_columns(pl.col(column).replace_strict(values, texts, return_dtype=pl.String()))
