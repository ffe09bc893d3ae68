"""Parquet: the events and the blocks, each as one table with texts in the place of numbers.

The folder has two files, because data frames and databases read tables of one kind of row. Blocks alone answer most
questions. docs/exporting.md describes the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.formats.export.redaction import redacted_recording
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.pools import pool_word
from msmemscope.recording.schema import ATTRIBUTE_SCHEMA, has_attributes

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.formats.export.export_choice import ExportChoice
    from msmemscope.recording import Recording

EVENTS: Final = "events.parquet"
BLOCKS: Final = "blocks.parquet"
_KINDS: Final = {int(kind): kind.name for kind in EventKind}
_TIME: Final = pl.Datetime("ns", "UTC")
_ATTRIBUTES: Final = [name for name in ATTRIBUTE_SCHEMA.names() if name != "attribute_id"]


def write_parquet(recording: Recording, folder: Path, choice: ExportChoice) -> tuple[str, ...]:
    """Write the tables; nothing is left out."""
    if choice.redaction is not None:
        recording = redacted_recording(recording, choice.redaction)
    _event_table(recording).sink_parquet(folder / EVENTS)
    _block_table(recording).sink_parquet(folder / BLOCKS)
    return ()


def _event_table(recording: Recording) -> pl.LazyFrame:
    # Of some kinds the number names something else than attributes.
    attribute_id = pl.when(has_attributes()).then("attribute_id").otherwise(pl.lit(0, dtype=pl.UInt32))
    return (
        _with_words(recording.events)
        .with_columns(
            attribute_id=attribute_id,
            kind=pl.col("kind").replace_strict(_KINDS, default="?", return_dtype=pl.String),
            time=_time("timestamp_ns"),
        )
        .join(recording.attributes.lazy(), on="attribute_id", how="left", maintain_order="left")
        .join(_texts(recording.strings, "name_id", "name"), on="name_id", how="left", maintain_order="left")
        .pipe(_with_stacks, recording, "")
        .select(
            "sequence", "timestamp_ns", "time", "thread_id", "kind", "device", "pool", "flags", "address", "size", "extra",
            "name", "python_stack", "native_stack", *_ATTRIBUTES,
        )
    )  # fmt: skip


def _block_table(recording: Recording) -> pl.LazyFrame:
    blocks, _ = owned_blocks(recording)
    return (
        _with_words(blocks)
        .with_columns(allocated=_time("allocated_ns"), freed=_time("freed_ns"))
        .pipe(_with_stacks, recording, "")
        .pipe(_with_stacks, recording, "free_")
        .select(
            "malloc_sequence", "free_sequence", "returned_sequence", "allocated_ns", "freed_ns", "allocated", "freed", "device",
            "pool", "owner", "address", "size", "requested_bytes", "flags", "name", "thread_id", "free_thread_id", "stream_id",
            "pool_id", "python_stack", "native_stack", "free_python_stack", "free_native_stack",
        )
    )  # fmt: skip


def _time(column: str) -> pl.Expr:
    """Return nanoseconds since 1970 as a moment; null for those that no calendar of 64 bits has."""
    return pl.col(column).cast(pl.Int64, strict=False).cast(_TIME)


def _with_words(rows: pl.DataFrame) -> pl.LazyFrame:
    """Replace the numbers of `device` and `pool` by how people are told of them."""
    pairs = rows.select("device", "pool").unique()
    words = [(*pair, device_name(pair[0]), pool_word(*reversed(pair)) if pair[1] else None) for pair in pairs.rows()]
    names = pl.DataFrame(
        words, {**pairs.schema, "device_word": pl.String(), "pool_word": pl.String()}, orient="row"
    ).lazy()
    named = rows.lazy().join(names, on=["device", "pool"], how="left", maintain_order="left")
    return named.with_columns(device="device_word", pool="pool_word").drop("device_word", "pool_word")


def _with_stacks(rows: pl.LazyFrame, recording: Recording, prefix: str) -> pl.LazyFrame:
    for texts, word in ((recording.python_stacks, "python_stack"), (recording.native_stacks, "native_stack")):
        identity, text = f"{prefix}{word}_id", f"{prefix}{word}"
        rows = rows.join(_texts(texts, identity, text), on=identity, how="left", maintain_order="left")
    return rows


def _texts(texts: pl.DataFrame, identity: str, text: str) -> pl.LazyFrame:
    return texts.lazy().filter(pl.col("id") != 0).select(pl.col("id").alias(identity), pl.col("text").alias(text))
