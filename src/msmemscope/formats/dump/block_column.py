"""Facts about whole blocks, looked up for batches of rows: the owner of a block, and how it is held inefficiently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from msmemscope.formats.dump.attributes import AttributeForm
from msmemscope.formats.dump.cells import TextsByKey
from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from msmemscope.formats.dump.attributes import Events
    from msmemscope.formats.dump.cells import Part


class BlockColumn:
    """One attribute of MALLOC rows.

    Args:
        key: Its name, which is the name of the column too.
        blocks: The MALLOC of each block that has it (u64, rising) and its text, in two columns; None for no blocks.
        form: How attributes are written.
    """

    def __init__(self, key: str, blocks: pl.DataFrame | None, form: AttributeForm) -> None:
        self._sequences = np.zeros(0, dtype=np.uint64)
        if blocks is None or blocks.is_empty():
            return
        sequences, values = blocks.get_columns()
        self._sequences = sequences.to_numpy()
        if values.dtype != pl.Enum:
            values = values.cast(pl.Enum(values.unique(maintain_order=True)))
        self._keys = values.to_physical().cast(pl.UInt32).to_numpy() + np.uint32(1)
        words = values.dtype.categories.to_list()  # type: ignore[attr-defined] # an Enum
        texts = {place + 1: form.attribute(key, word) for place, word in enumerate(words)}
        self._texts = TextsByKey.of(texts, is_csv=form is AttributeForm.CSV)

    def of_each(self, events: Events) -> Part | None:
        """Return the attribute of each MALLOC whose block has it; None if none has.

        Args:
            events: Columns of EVENT_SCHEMA, as arrays.
        """
        rows = np.flatnonzero(events["kind"] == EventKind.MALLOC)
        known = self._sequences
        if len(known) == 0 or len(rows) == 0:
            return None
        sequences = events["sequence"][rows]
        places = np.minimum(np.searchsorted(known, sequences), len(known) - 1)
        keys = np.zeros(len(events["kind"]), dtype=np.uint32)
        # A process that still runs can have more blocks by now than were looked at.
        keys[rows] = np.where(known[places] == sequences, self._keys[places], 0)
        return self._texts.part(keys)
