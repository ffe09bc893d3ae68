"""The folder `history` beside an event log: one small Parquet file per moment.

A file is named by its moment, in nanoseconds since the epoch. Its rows are those of `recording.run_history`. There is no
index, so a file that is damaged or missing costs its own moment alone.
"""

from __future__ import annotations

import io
import os
import re
import stat
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.model.capture_files import HISTORY_FOLDER
from msmemscope.recording.run_history import HISTORY_SCHEMA, RunHistory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msmemscope.formats.event_log.log_folder import StoredLog

MOST_ROWS: Final = 20_000
"""Rows of a moment that are read; ours have some hundred per pool."""
MOST_READ: Final = 256
"""Moments that are read: a curve and a trend need no more, and a year has thousands."""
MOST_BYTES: Final = 16 << 20
"""Of a file that is read."""
_NAME: Final = re.compile(r"[0-8][0-9]{18}\.parquet", re.ASCII)


def moment_name(timestamp_ns: int) -> str:
    """Return the name of the file of a moment."""
    return f"{timestamp_ns:019d}.parquet"


def moment_names(names: Sequence[str]) -> list[str]:
    """Return those names of a folder that are moments, the oldest first."""
    return sorted(name for name in names if _NAME.fullmatch(name))


def time_of(name: str) -> int:
    """Return the moment that a file is named by, in nanoseconds since the epoch."""
    return int(name.partition(".")[0])


def kept_moments(capture: Path) -> list[str]:
    """Return the names of the moments of a capture, the oldest first; none where it has no history.

    Args:
        capture: Its folder.
    """
    try:
        return moment_names(os.listdir(capture / HISTORY_FOLDER))  # noqa: PTH208 - names, not paths
    except OSError:
        return []


def spaced_moments(names: list[str]) -> list[str]:
    """Return the moments that are read of many: evenly spaced in time, the first and the last among them.

    Args:
        names: Of all, the oldest first.
    """
    if len(names) <= MOST_READ:
        return names
    since_ns = np.array([time_of(name) - time_of(names[0]) for name in names])
    places = np.searchsorted(since_ns, np.linspace(0, since_ns[-1], MOST_READ)).clip(0, len(names) - 1)
    return [names[place] for place in np.unique(places).tolist()]


def read_history(log: StoredLog) -> RunHistory:
    """Read the history of a process; an empty one where it has none.

    Args:
        log: Of the process.
    """
    names = log.moments()
    parts = [read_moment(name, log.moment(name)) for name in spaced_moments(names)]
    rows = pl.concat([HISTORY_SCHEMA.to_frame(), *(part for part in parts if part is not None)])
    return RunHistory(rows, len(names), sum(part is None for part in parts))


def moment_content(capture: Path, name: str) -> bytes:
    """Return the bytes of a moment; empty if they cannot be read, or are too many."""
    try:
        # Not blocking: it may be a pipe.
        descriptor = os.open(
            capture / HISTORY_FOLDER / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            is_usual = stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES
            return file.read(MOST_BYTES) if is_usual else b""
    except OSError:
        return b""


def read_moment(name: str, content: bytes) -> pl.DataFrame | None:
    """Return the rows of a moment, HISTORY_SCHEMA; None if it is none.

    Args:
        name: Of its file.
        content: Of its file.
    """
    try:
        table = pl.read_parquet(io.BytesIO(content), n_rows=MOST_ROWS)
        rows = table.select(HISTORY_SCHEMA.names()).cast(HISTORY_SCHEMA)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    # One file is one moment, whatever its rows say.
    return rows.with_columns(timestamp_ns=pl.lit(time_of(name), dtype=pl.Int64))
