"""The events about holders of blocks, with their chains and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from msmemscope.recording.recording import Recording


def holder_events(recording: Recording) -> pl.DataFrame:
    """Return the HOLDER events of a process, in order.

    Returns:
        `sequence`, `malloc_sequence` (of the block), `held_by` (the chain), `viewed_bytes` (null where not noted).
    """
    names = recording.strings.select(name_id="id", held_by="text")
    figures = recording.attributes.select("attribute_id", "viewed_bytes")
    return (
        recording.events.filter(pl.col("kind") == EventKind.HOLDER)
        .select("name_id", "sequence", "attribute_id", malloc_sequence="extra")
        .join(names, on="name_id", how="inner", maintain_order="left")
        .join(figures, on="attribute_id", how="left", maintain_order="left")
        .drop("name_id", "attribute_id")
    )
