"""The owner of each block, looked up for batches of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from msmemscope.formats.dump.attributes import AttributeForm


class OwnerColumn:
    """Names the owners of blocks.

    Args:
        owners: What `analysis.ownership.block_owners` found; None where owners were not asked for.
        form: How attributes are written.
    """

    def __init__(self, owners: pl.DataFrame | None, form: AttributeForm) -> None:
        """Write each different owner once."""
        if owners is None or owners.is_empty():
            self._sequences = np.zeros(0, dtype=np.uint64)
            return
        self._sequences = owners["sequence"].to_numpy()
        self._codes = owners["owner"].to_physical()
        texts = owners["owner"].dtype.categories.to_list()  # type: ignore[attr-defined] # an Enum
        self._texts = pl.Series(list(map(form.owner, texts)), dtype=pl.String)

    def of_each(self, batch: pl.DataFrame) -> pl.Series:
        """Returns `owner`: the attribute of each MALLOC; null for what is none, and where owners were not asked for.

        Args:
            batch: Of EVENT_SCHEMA.
        """
        is_allocation = batch["kind"].to_numpy() == EventKind.MALLOC
        known = self._sequences
        if len(known) == 0 or not is_allocation.any():
            return pl.repeat(None, len(batch), dtype=pl.String, eager=True).alias("owner")
        sequences = batch["sequence"].to_numpy()
        places = np.minimum(np.searchsorted(known, sequences), len(known) - 1)
        # A process that still runs can have more blocks by now than owners were found of.
        has_owner = is_allocation & (known[places] == sequences)
        codes = self._codes.gather(pl.Series(places, dtype=pl.UInt32))
        return self._texts.gather(codes.set(pl.Series(~has_owner), None)).alias("owner")
