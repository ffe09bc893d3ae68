"""Rows of events by hand, and recordings of them: for analyses that look at the order of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, STRING_SCHEMA, Recording, build_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ["", "add", "mul", "sub"]


def dataset_of(rows: Sequence[dict[str, Any]]) -> Recording:
    """A process with these events, their sequence numbers counted from 1."""
    empty = dict.fromkeys(EVENT_SCHEMA, 0) | {"device": 0, "thread_id": 1}
    events = pl.DataFrame(
        [{**empty, "sequence": place, **row} for place, row in enumerate(rows, 1)], schema=EVENT_SCHEMA
    )
    strings = pl.DataFrame({"id": range(1, len(NAMES)), "text": NAMES[1:]}, schema=STRING_SCHEMA)
    blocks = build_blocks(events, strings).with_columns(owner=pl.lit(None, dtype=pl.String))
    nothing = STRING_SCHEMA.to_frame()
    return Recording("here", "event log", 1, events, blocks, strings, nothing, nothing, (), ())


def malloc(size: int, **fields: Any) -> dict[str, Any]:
    """An allocation of the framework's pool."""
    return {"kind": EventKind.MALLOC, "pool": Pool.PTA, "size": size, **fields}


def free(block: int, size: int, **fields: Any) -> dict[str, Any]:
    """The end of the block with this sequence number."""
    return {"kind": EventKind.FREE, "pool": Pool.PTA, "size": size, "extra": block, **fields}


def start(name: int, **fields: Any) -> dict[str, Any]:
    """An operator begins."""
    return {"kind": EventKind.ATEN_START, "name_id": name, **fields}


def end(name: int, **fields: Any) -> dict[str, Any]:
    """An operator ends."""
    return {"kind": EventKind.ATEN_END, "name_id": name, **fields}


def launch(name: int, **fields: Any) -> dict[str, Any]:
    """A kernel is launched."""
    return {"kind": EventKind.KERNEL_LAUNCH, "name_id": name, **fields}
