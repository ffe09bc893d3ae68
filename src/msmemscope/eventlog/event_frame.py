"""The table form of event records: one polars row per record."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from msmemscope.model.events import device_word

EVENT_SCHEMA: Final = pl.Schema(
    {
        "sequence": pl.UInt64(),
        "timestamp_ns": pl.UInt64(),
        "thread_id": pl.UInt32(),
        "device": pl.Int8(),
        "kind": pl.UInt8(),
        "pool": pl.UInt8(),
        "flags": pl.UInt8(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "name_id": pl.UInt32(),
        "attribute_id": pl.UInt32(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "extra": pl.UInt64(),
    }
)
"""One row per event, in sequence order. Columns as in `native/core/format/record.h`:

sequence: process-wide, unique, from 1; the ID column of dumps.
timestamp_ns: CLOCK_REALTIME.
thread_id: Linux thread id.
device: 0..127 an accelerator, -1 none, -2 cpu.
kind, pool, flags: `msmemscope.model.events`.
address, size: bytes concerned; FREE.size is 0 if the block was never seen.
name_id, attribute_id: string ids, 0 if none.
python_stack_id, native_stack_id: stack ids, 0 if none.
extra: FREE and ACCESS: sequence of the block's MALLOC, 0 if no such block was seen.
"""


def event_frame(records: np.ndarray[Any, np.dtype[Any]]) -> pl.DataFrame:
    """Returns structured records (`layout.RECORD`, any byte order) as a table."""
    return pl.DataFrame(
        {name: pl.Series(name, _native_column(records[name]), dtype=dtype) for name, dtype in EVENT_SCHEMA.items()}
    )


def device_text(device: pl.Expr) -> pl.Expr:
    """Returns how devices (column `device`) are written."""
    words = pl.Series([device_word(value - 256 if value > 127 else value) for value in range(256)])  # noqa: PLR2004
    return pl.lit(words).gather((device.cast(pl.Int16) + 256) % 256)


def _native_column(column: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    return np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))
