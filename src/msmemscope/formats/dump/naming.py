"""Names of the folders and files of a dump."""

from __future__ import annotations

import time
from typing import Final

from msmemscope.model.devices import DEVICE_CPU, device_word

DUMP_FOLDER: Final = "dump"
"""Folder of dump files inside the folder of a device."""

DUMP_TABLE: Final = "memscope_dump"
"""Name of the table of a DB file."""
DUMP_TABLES: Final = (DUMP_TABLE, "leaks_dump")
"""The same, and its name in files of the older tool."""
SQLITE_MAGIC: Final = b"SQLite format 3\0"
"""Begins every DB file."""

CONFIG_FILE: Final = "config.json"


def device_folder(device: int) -> str:
    """Return the folder of a device: `device_0`, `device_cuda_0`, `device_cpu`."""
    return f"device_{device_word(device).replace(':', '_')}"


def home_device(devices: tuple[int, ...], named: int | None = None) -> int:
    """Return the device in whose folder lies what belongs to the whole process.

    Args:
        devices: Those that have a dump.
        named: The one that the process itself has named, if it has. It holds if it has a dump, or if none has.

    Returns:
        The named one, else the first with a dump, else the cpu: a trace always lies beside a dump where there is one.
    """
    if named is not None and (named in devices or not devices):
        return named
    return devices[0] if devices else DEVICE_CPU


def timestamp_at(seconds: float) -> str:
    """Return a moment as file names have it: local time, digits only (MindStudio Insight takes no others)."""
    return time.strftime("%Y%m%d%H%M%S", time.localtime(seconds))


def dump_file(timestamp: str, suffix: str) -> str:
    """Return the name of a dump; `suffix` is `csv` or `db`."""
    return f"memscope_dump_{timestamp}.{suffix}"


def python_trace_file(thread_id: int, timestamp: str) -> str:
    """Return the name of the Python trace of one thread."""
    return f"python_trace_{thread_id}_{timestamp}.csv"


def python_trace_table(process_id: int) -> str:
    """Return the name of the table of the Python trace in a DB file."""
    return f"python_trace_{process_id}"
