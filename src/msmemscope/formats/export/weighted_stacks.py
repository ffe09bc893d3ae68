"""Call stacks with the bytes that they stand for: in use at the peak, never freed, allocated, and for how long.

Each pool has its own peak, so what is in use at "the peak" is what each pool held at its own.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.formats.export.export_choice import Measure
from msmemscope.recording.call_sites import STACK_COLUMNS
from msmemscope.recording.timeline import peak_moments

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_PYTHON_FRAME: Final = re.compile(r"(.*)\(([0-9]{1,18})\): (.*)", re.DOTALL)
_NATIVE_FRAME: Final = re.compile(r"(.*?)\((.*)\)(?: \[0x[0-9a-f]+\])?", re.DOTALL)
_NS_PER_SECOND: Final = 1_000_000_000
_MOST_BYTE_SECONDS: Final = (1 << 62) - 1
"""More has only a damaged recording, whose times are centuries apart."""
_POOL: Final = ["device", "pool"]
NO_STACK: Final = "(no call stack)"
"""Frame of blocks of which neither a stack nor an operator was recorded."""

COLUMN_OF: Final = {
    Measure.PEAK: "peak_bytes",
    Measure.LEAKED: "leaked_bytes",
    Measure.ALLOCATED: "allocated_bytes",
    Measure.BYTE_SECONDS: "byte_seconds",
}
"""Where the weights of each measure stand in WEIGHT_SCHEMA."""
WEIGHT_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "owner": pl.String(),
        "stack": pl.UInt32(),
        "peak_bytes": pl.Int64(),
        "peak_blocks": pl.Int64(),
        "leaked_bytes": pl.Int64(),
        "leaked_blocks": pl.Int64(),
        "allocated_bytes": pl.Int64(),
        "allocated_blocks": pl.Int64(),
        "byte_seconds": pl.Int64(),
    }
)
"""One row per pool, owner and stack.

stack: place in `WeightedStacks.stacks`.
byte_seconds: the exact sum of bytes times nanoseconds over the blocks, rounded down to whole byte-seconds.
"""


class StackFrame(NamedTuple):
    """One call of a stack, Python's or native, or an operator; the line is 0 and the file empty where there is none."""

    function: str
    file: str
    line: int


@dataclasses.dataclass(frozen=True)
class WeightedStacks:
    """The stacks of a recording and their weights."""

    stacks: tuple[tuple[StackFrame, ...], ...]
    """Each from the outermost frame to the innermost; never empty."""
    weights: pl.DataFrame
    """WEIGHT_SCHEMA, ordered by all columns up to `stack`."""

    def of_pools(self) -> pl.DataFrame:
        """Return the weights without regard to owners, in the order of pools and stacks."""
        sums = pl.exclude(*_POOL, "owner", "stack").sum()
        return self.weights.group_by(*_POOL, "stack").agg(sums).sort(*_POOL, "stack")


def weighted_stacks(recording: Recording) -> WeightedStacks:
    """Weigh the stack of each block: its Python stack, else its native one, and the operator that allocated it."""
    blocks, _ = owned_blocks(recording)
    used = blocks.select(STACK_COLUMNS).unique(maintain_order=True)
    python = dict(recording.python_stacks.rows())
    native = dict(recording.native_stacks.rows())
    names = dict(recording.strings.rows())
    places: dict[tuple[StackFrame, ...], int] = {}
    numbers = []
    for python_id, native_id, name_id in used.iter_rows():
        frames = python_frames(python.get(python_id) or "") or native_frames(native.get(native_id) or "")
        stack = tuple(reversed(frames))
        if name_id:
            stack = (*stack, StackFrame(names.get(name_id) or "?", "", 0))
        numbers.append(places.setdefault(stack or (StackFrame(NO_STACK, "", 0),), len(places)))
    used = used.with_columns(stack=pl.Series(numbers, dtype=pl.UInt32))
    return WeightedStacks(tuple(places), _weights(recording, blocks, used))


def _weights(recording: Recording, blocks: pl.DataFrame, stacks: pl.DataFrame) -> pl.DataFrame:
    last_ns = int(recording.events["timestamp_ns"].to_numpy().max(initial=0))
    moments = peak_moments(blocks).select(*_POOL, peak="sequence")
    begin, end = pl.col("malloc_sequence"), pl.col("free_sequence")
    is_at_peak = (begin <= pl.col("peak")) & (end.is_null() | (end > pl.col("peak")))
    # Whole numbers of 128 bits: a day of a full device is more byte-nanoseconds than 64 bits hold.
    ended_ns = pl.col("freed_ns").fill_null(last_ns).cast(pl.Int128)
    lasted_ns = (ended_ns - pl.col("allocated_ns").cast(pl.Int128)).clip(lower_bound=0)
    measured = blocks.join(moments, on=_POOL, how="left", maintain_order="left").join(
        stacks, on=list(STACK_COLUMNS), how="left", maintain_order="left"
    )
    size, one = pl.col("size"), pl.lit(1, dtype=pl.Int64)
    sums = {}
    for word, condition in (("peak", is_at_peak), ("leaked", end.is_null()), ("allocated", pl.lit(value=True))):
        sums[f"{word}_bytes"] = pl.when(condition).then(size).otherwise(0)
        sums[f"{word}_blocks"] = pl.when(condition).then(one).otherwise(0)
    return (
        measured.select(*_POOL, "owner", "stack", **sums, byte_seconds=size.cast(pl.Int128) * lasted_ns)
        .group_by(*_POOL, "owner", "stack")
        .agg(pl.all().sum())
        .with_columns((pl.col("byte_seconds") // _NS_PER_SECOND).clip(upper_bound=_MOST_BYTE_SECONDS))
        .sort(*_POOL, "owner", "stack")
        .cast(WEIGHT_SCHEMA)
    )


def python_frames(text: str) -> list[StackFrame]:
    """Read the text of a Python stack, `<file>(<line>): <function>` per line, innermost first."""
    return [_python_frame(line) for line in text.split("\n") if line]


def native_frames(text: str) -> list[StackFrame]:
    """Read the text of a native stack, `<module>(<symbol>) [<address>]` or a symbol per line, innermost first."""
    return [_native_frame(line) for line in text.split("\n") if line]


def _python_frame(line: str) -> StackFrame:
    match = _PYTHON_FRAME.fullmatch(line)
    return StackFrame(line, "", 0) if match is None else StackFrame(match[3], match[1], int(match[2]))


def _native_frame(line: str) -> StackFrame:
    match = _NATIVE_FRAME.fullmatch(line) if "/" in line.partition("(")[0] else None
    return StackFrame(line, "", 0) if match is None else StackFrame(match[2], match[1], 0)
