"""The table form of event records: one polars row per record."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE, DEVICES_PER_KIND, DeviceKind, device_word
from msmemscope.recording.schema import EVENT_SCHEMA

_THREAD_BITS: Final = np.uint32(0xFFFFFF)
_LOWEST_DEVICE: Final = DEVICE_CPU
_DEVICE_WORDS: Final = pl.Series(
    [device_word(device) for device in range(_LOWEST_DEVICE, len(DeviceKind) * DEVICES_PER_KIND)]
)


def event_frame(records: np.ndarray[Any, np.dtype[Any]]) -> pl.DataFrame:
    """Return structured records (`layout.RECORD`, any byte order) as a table."""
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
    """Return how devices (column `device`) are written."""
    is_known = device.is_between(_LOWEST_DEVICE, _LOWEST_DEVICE + len(_DEVICE_WORDS) - 1)
    number = pl.when(is_known).then(device).otherwise(DEVICE_NONE)
    return pl.lit(_DEVICE_WORDS).gather(number.cast(pl.Int32) - _LOWEST_DEVICE)


def written_devices(devices: np.ndarray[Any, np.dtype[np.int16]]) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Return devices with none in place of numbers that are not those of a device, as `device_text` writes them."""
    is_known = (devices >= _LOWEST_DEVICE) & (devices < _LOWEST_DEVICE + len(_DEVICE_WORDS))
    known: np.ndarray[Any, np.dtype[np.int16]] = np.where(is_known, devices, np.int16(DEVICE_NONE))
    return known


def _native_column(column: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    return np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))
