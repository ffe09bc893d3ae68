"""The memory of a process at some moments of its run, also where the events of that time are gone."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Final

import polars as pl


class HistoryKind(str, Enum):
    """The subject of a row; the value is its word in files."""

    POOL = "pool"
    """The blocks of a pool that are in use."""
    STEP_END = "step end"
    """The blocks of a pool that were in use at the end of the last step: activations are freed by then."""
    RESERVED = "reserved"
    """The driver's memory that a pool holds."""
    OWNER = "owner"
    """The part of a pool that an owner has."""
    SITE = "site"
    """The part of a pool that a line of the program has."""
    HOST = "host"
    """A part of the resident memory of the process, as the kernel and the C library say it; `RESIDENT` is all of it."""
    HOST_SITE = "host site"
    """Other host memory that a line has made, as samples estimate it."""
    CONTAINER = "container"
    """A container of the program that grows, with its entries; an estimate."""


RESIDENT: Final = "resident"
"""The name of the row of `HistoryKind.HOST` that has all of it."""

HISTORY_SCHEMA: Final = pl.Schema(
    {
        "timestamp_ns": pl.Int64(),
        "kind": pl.String(),
        "device": pl.String(),
        "pool": pl.String(),
        "name": pl.String(),
        "bytes": pl.Int64(),
        "blocks": pl.Int64(),
        "peak_bytes": pl.Int64(),
        "step": pl.Int64(),
        "events": pl.Int64(),
    }
)
"""One row per thing that had memory at a moment.

timestamp_ns: the moment, as CLOCK_REALTIME has it; the same in all rows of it.
kind: a value of `HistoryKind`.
device, pool: their names; the device of host memory is `cpu`, its pool is empty.
name: the owner, the line, the part or the container; empty for a pool.
bytes: in use then.
blocks: the blocks, samples or entries that they are made of; null where there are none.
peak_bytes: the most in use since the oldest event that the log had then; null where that is not known.
step: the number of the last step that had ended; 0 before the first.
events: recorded until then, those that are gone included.
"""


@dataclasses.dataclass(frozen=True)
class RunHistory:
    """The moments of a process that were kept."""

    rows: pl.DataFrame = dataclasses.field(default_factory=HISTORY_SCHEMA.to_frame)
    """HISTORY_SCHEMA, in the order of moments: of many moments some, evenly spaced, the first and the last among them."""
    moment_count: int = 0
    """Moments that are there."""
    unreadable_count: int = 0
    """Files of moments that could not be read."""
