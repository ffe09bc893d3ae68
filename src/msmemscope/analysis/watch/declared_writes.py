"""Writes of memory that the program watches by name, by operators whose schema declares them.

Such a write is no corruption. But somebody who watches a tensor asks who writes it. The answer can be a line that holds
the same memory under another name: `state_dict()` returns the weights themselves, and `update = momentum` is no copy.
So each such line is reported, as a declared write. An optimizer's writes into the parameters that it trains are left
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.watch.sentences import declared_write_sentences

if TYPE_CHECKING:
    from msmemscope.recording import Recording

BY_NAME: Final = ("tensor", "address")
"""Memory that the program itself asked to watch, by the column `watch`."""
DECLARED_WRITE_SCHEMA: Final = pl.Schema(
    {
        "name": pl.String(),
        "watch": pl.String(),
        "device": pl.Int16(),
        "size": pl.Int64(),
        "call_site": pl.String(),
        "writes": pl.UInt32(),
        "operator": pl.String(),
        "call": pl.Int64(),
        "changed_bytes": pl.Int64(),
        "last_sequence": pl.UInt64(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "sentence": pl.String(),
    }
)
"""One row per watched name and line that wrote it as declared, the latest write first.

size: watched bytes. call_site: null if it is not known. writes: how many changes were found.
operator, call, changed_bytes, last_sequence, python_stack_id, native_stack_id: of the last one; call is null if it is not known.
"""
_OPTIMIZER_FILE: Final = r"/(?:torch|torch_npu)/optim/"
"""In stacks of optimizers: torch wraps `step` of each class of optimizers, those of others too."""


def find_declared_writes(recording: Recording, changes: pl.DataFrame, trained: pl.Series) -> pl.DataFrame:
    """Find the lines that wrote watched memory through operators that declare it.

    Args:
        recording: Where stacks are looked up.
        changes: The legitimate ones, of `verdict.WATCH_CHANGE_SCHEMA`.
        trained: `watch_id` of tensors that an optimizer is meant to write.

    Returns:
        DECLARED_WRITE_SCHEMA.
    """
    stacks = recording.python_stacks.filter(pl.col("text").str.contains(_OPTIMIZER_FILE))["id"]
    is_training = pl.col("watch_id").is_in(trained.implode()) & pl.col("python_stack_id").is_in(stacks.implode())
    is_by_writer = pl.col("writer").is_not_null()
    found = (
        changes.filter(pl.col("watch").is_in(BY_NAME) & ~is_training)
        .sort("sequence")
        .with_columns(
            operator=pl.coalesce("writer", "operator"),
            call=pl.when(is_by_writer).then("writer_call").otherwise("call"),
            changed_bytes=pl.col("changed_bytes").fill_null(0),
        )
        .group_by("name", "watch", "device", "size", "call_site", maintain_order=True)
        .agg(
            pl.len().cast(pl.UInt32).alias("writes"),
            pl.col("operator", "call", "changed_bytes", "python_stack_id", "native_stack_id").last(),
            pl.col("sequence").last().alias("last_sequence"),
        )
        .sort("last_sequence", descending=True)
    )
    return (
        found.with_columns(declared_write_sentences(found))
        .select(DECLARED_WRITE_SCHEMA.names())
        .cast(DECLARED_WRITE_SCHEMA)
    )
