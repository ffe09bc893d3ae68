"""What is known of each block as a whole, looked up for batches of rows: its owner, and how it is held inefficiently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from msmemscope.formats.dump.attributes import AttributeForm


class BlockColumn:
    """One attribute of MALLOC rows.

    Args:
        key: Its name, which is the name of the column too.
        blocks: The MALLOC of each block that has it (u64, rising) and its text, in two columns; None for no blocks.
        form: How attributes are written.
    """

    def __init__(self, key: str, blocks: pl.DataFrame | None, form: AttributeForm) -> None:
        """Write each different text once."""
        self._key = key
        self._sequences = np.zeros(0, dtype=np.uint64)
        if blocks is None or blocks.is_empty():
            return
        sequences, values = blocks.get_columns()
        self._sequences = sequences.to_numpy()
        if values.dtype != pl.Enum:
            values = values.cast(pl.Enum(values.unique(maintain_order=True)))
        self._codes = values.to_physical()
        texts = values.dtype.categories.to_list()  # type: ignore[attr-defined] # an Enum
        self._texts = pl.Series([form.attribute(key, text) for text in texts], dtype=pl.String)

    def of_each(self, batch: pl.DataFrame) -> pl.Series:
        """Returns the attribute of each MALLOC, named like its key; null for other rows and for blocks without it.

        Args:
            batch: Of EVENT_SCHEMA.
        """
        is_allocation = batch["kind"].to_numpy() == EventKind.MALLOC
        known = self._sequences
        if len(known) == 0 or not is_allocation.any():
            return pl.repeat(None, len(batch), dtype=pl.String, eager=True).alias(self._key)
        sequences = batch["sequence"].to_numpy()
        places = np.minimum(np.searchsorted(known, sequences), len(known) - 1)
        # A process that still runs can have more blocks by now than were looked at.
        has_one = is_allocation & (known[places] == sequences)
        codes = self._codes.gather(pl.Series(places, dtype=pl.UInt32))
        return self._texts.gather(codes.set(pl.Series(~has_one), None)).alias(self._key)
