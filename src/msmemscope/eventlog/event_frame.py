"""The table form of event records: one polars row per record."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE, DEVICES_PER_KIND, DeviceKind, device_word

EVENT_SCHEMA: Final = pl.Schema(
    {
        "sequence": pl.UInt64(),
        "timestamp_ns": pl.UInt64(),
        "thread_id": pl.UInt32(),
        "device": pl.Int16(),
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
device: `msmemscope.model.devices`.
kind, pool, flags: `msmemscope.model.events`.
address, size: bytes concerned; FREE.size is 0 if the block was never seen.
name_id, attribute_id: string ids, 0 if none.
python_stack_id, native_stack_id: stack ids, 0 if none.
extra: FREE and ACCESS: sequence of the block's MALLOC, 0 if no such block was seen.
"""


_THREAD_BITS: Final = np.uint32(0xFFFFFF)
_LOWEST_DEVICE: Final = DEVICE_CPU
_DEVICE_WORDS: Final = pl.Series(
    [device_word(device) for device in range(_LOWEST_DEVICE, len(DeviceKind) * DEVICES_PER_KIND)]
)


def event_frame(records: np.ndarray[Any, np.dtype[Any]]) -> pl.DataFrame:
    """Returns structured records (`layout.RECORD`, any byte order) as a table."""
    computed: dict[str, np.ndarray[Any, np.dtype[Any]]] = {
        "thread_id": thread_ids(records),
        "device": devices_of(records),
    }
    return pl.DataFrame(
        {
            name: pl.Series(name, computed[name] if name in computed else _native_column(records[name]), dtype=dtype)
            for name, dtype in EVENT_SCHEMA.items()
        }
    )


def thread_ids(records: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return the threads of structured records."""
    threads: np.ndarray[Any, np.dtype[np.uint32]] = _native_column(records["thread_and_device"]) & _THREAD_BITS
    return threads


def devices_of(records: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Return the devices of structured records, as `msmemscope.model.devices` numbers them."""
    high = (_native_column(records["thread_and_device"]) >> np.uint32(24)).astype(np.uint16)
    devices: np.ndarray[Any, np.dtype[np.int16]] = (high << np.uint16(8) | records["device_low"]).view(np.int16)
    return devices


def device_text(device: pl.Expr) -> pl.Expr:
    """Returns how devices (column `device`) are written."""
    is_known = device.is_between(_LOWEST_DEVICE, _LOWEST_DEVICE + len(_DEVICE_WORDS) - 1)
    number = pl.when(is_known).then(device).otherwise(DEVICE_NONE)
    return pl.lit(_DEVICE_WORDS).gather(number.cast(pl.Int32) - _LOWEST_DEVICE)


def _native_column(column: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    return np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))
