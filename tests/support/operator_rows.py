"""The records of operators, to compare two ways of dispatching them row by row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.support.recordings import events_of

if TYPE_CHECKING:
    from msmemscope.formats.event_log import Capture

OPTIONS: Final = ("--events=alloc,free,launch,access", "--call-stack=python:200")
"""Deep stacks: frames of the mode, which are hidden, count where stacks are cut."""

NATIVE: Final = """
from msmemscope.capture.torch_operators import OperatorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode
assert "__torch_dispatch__" in vars(_get_current_dispatch_mode()) and OperatorMode.may_be_boxed
"""
"""Text before a program whose operators must be recorded before they come to Python."""

DISPATCHED: Final = """
from msmemscope import _native
from torch.utils._python_dispatch import _get_current_dispatch_mode
assert "__torch_dispatch__" in vars(_get_current_dispatch_mode())
assert _native.dispatch_boxed(False)
"""
"""Text before a program whose operators must be dispatched in native code, from objects of Python."""

IN_PYTHON: Final = """
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode
from msmemscope import _native
from msmemscope.capture.torch_operators import OperatorMode
_native.dispatch_boxed(False)
_native.forget_tensor_layout()
OperatorMode.may_be_native = False
mode = _get_current_dispatch_mode()
mode.__exit__(None, None, None)
mode.__enter__()
assert "__torch_dispatch__" not in vars(mode)
del mode
"""
"""Text before a program whose operators are dispatched by the mode that is written in Python."""

KINDS: Final = frozenset(
    {
        EventKind.MALLOC,
        EventKind.FREE,
        EventKind.ACCESS_READ,
        EventKind.ACCESS_WRITE,
        EventKind.ATEN_START,
        EventKind.ATEN_END,
    }
)


NUMBER_BYTES: Final = 8
"""A number in a computation is a tensor of this size for a moment. Through Python it becomes a number again, and then
another tensor. So it is allocated twice, and the operator does not read the first one."""


def rows_by_thread(capture: Capture, kinds: frozenset[EventKind], *, knows_blocks: bool) -> list[list[tuple[Any, ...]]]:
    """The records of each thread, in order, without blocks of numbers. Addresses are places in their block.

    Pinned memory is left out. If a copy from torch_npu's last pinned block has not ended, torch_npu takes another one.
    So the number of these blocks is a matter of time. Blocks are numbered by the thread that allocated them:
    torch_npu's thread, which launches operators, allocates too.
    """
    events = events_of(capture).filter(pl.col("kind").is_in([int(kind) for kind in kinds]))
    is_malloc = pl.col("kind") == int(EventKind.MALLOC)
    pinned = (pl.col("device") == DEVICE_CPU) & (pl.col("pool") == int(Pool.HAL))
    left_out = events.filter(is_malloc & ((pl.col("size") == NUMBER_BYTES) | pinned))["sequence"]
    events = events.filter(~pl.when(is_malloc).then("sequence").otherwise("extra").is_in(left_out.implode()))
    blocks = events.filter(pl.col("kind") == int(EventKind.MALLOC)).select(
        extra="sequence", start="address", block_size="size", block=pl.int_range(pl.len()).over("thread_id")
    )
    events = events.join(blocks, on="extra", how="left", maintain_order="left")
    attributes = capture.attribute_pairs(events["attribute_id"]).group_by("id", maintain_order=True).agg(pl.all())
    attribute_text = {row["id"]: str(row) for row in attributes.drop("id").with_columns(id=attributes["id"]).to_dicts()}
    strings = dict(capture.string_frame(events["name_id"]).iter_rows())
    stacks = dict(capture.python_stack_frame(events["python_stack_id"]).iter_rows())
    rows: dict[int, list[tuple[Any, ...]]] = {}
    for row in events.iter_rows(named=True):
        rows.setdefault(row["thread_id"], []).append(
            (
                EventKind(row["kind"]).name,
                strings.get(row["name_id"], ""),
                row["size"],
                row["device"],
                row["pool"],
                row["flags"],
                _plain(attribute_text.get(row["attribute_id"], "")),
                None if row["start"] is None else row["address"] - row["start"],
                row["block_size"],
                row["block"] if knows_blocks else None,
                _plain(stacks.get(row["python_stack_id"], "")),
            )
        )
    return sorted(rows.values())


def sizes_freed(capture: Capture) -> list[int]:
    """The sizes in bytes of the blocks that any thread freed, except numbers; sorted."""
    events = events_of(capture)
    freed = events.filter(pl.col("kind") == int(EventKind.FREE)).select("extra")
    allocated = events.filter(pl.col("kind") == int(EventKind.MALLOC)).select("size", extra="sequence")
    sizes: list[int] = freed.join(allocated, on="extra", how="left")["size"].sort().to_list()
    return [size for size in sizes if size != NUMBER_BYTES]


def _plain(text: str) -> str:
    """Without what differs between two runs of one program: ids, and the first lines of the programs."""
    return re.sub(r"'id': \d+|\S*/(native|dispatched|python)\d*/\S*|\S*\.(native|dispatched|python)\.py\S*", "", text)


def first_difference(found: list[list[tuple[Any, ...]]], expected: list[list[tuple[Any, ...]]]) -> str:
    """Say where two such tables differ first, for the message of a test."""
    for ours, oracle in zip(found, expected, strict=False):
        for place, (row, other) in enumerate(zip(ours, oracle, strict=False)):
            if row != other:
                differing = [pair for pair in zip(row, other, strict=True) if pair[0] != pair[1]]
                return f"row {place} {row[:2]}: native and in Python {differing}"
    return f"rows of threads: {[len(rows) for rows in found]}, in Python {[len(rows) for rows in expected]}"
