"""Moments of a history as files, with values that nobody expects."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import polars as pl

from msmemscope.recording.run_history import HISTORY_SCHEMA, HistoryKind

if TYPE_CHECKING:
    import random

_TEXTS = ("", "cpu", "npu:0", "npu:-1", "PTA", "HOST", "resident", "train.py(1): f\n\x1b[31m", "x" * 5000)
_SIZES = (None, 0, 1, -1, 4096, 2**40, 2**63 - 1, -(2**63))


def moment(rng: random.Random, number: int) -> bytes:
    """A Parquet file: rows of a moment, or a table with other columns or types.

    Args:
        rng: Decides.
        number: Of the moment, so that some series grow.
    """
    kinds = [*(kind.value for kind in HistoryKind), "other", None]
    rows: list[dict[str, Any]] = [
        {name: rng.choice(_SIZES) if name != "bytes" or rng.random() < 0.3 else number << 24 for name in HISTORY_SCHEMA}
        | {"kind": rng.choice(kinds)}
        | {name: rng.choice((*_TEXTS, None)) for name in ("device", "pool", "name")}
        for _ in range(rng.randrange(12))
    ]
    table = pl.DataFrame(rows, HISTORY_SCHEMA)
    if rng.random() < 0.2:
        table = table.select(rng.sample(table.columns, rng.randrange(1, table.width)))
    if rng.random() < 0.2:
        table = table.cast(
            {rng.choice(table.columns): rng.choice((pl.String(), pl.Binary(), pl.Float64()))}, strict=False
        )
    content = io.BytesIO()
    table.write_parquet(content, compression=rng.choice(("zstd", "uncompressed", "lz4")))
    return content.getvalue()
