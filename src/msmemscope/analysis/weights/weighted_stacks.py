"""Call stacks with the bytes that they stand for: in use at the peak, leaked, allocated, and for how long.

Each pool has its own peak: "in use at the peak" means the bytes of each pool at its own.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.analysis.weights.measures import POOL_KEY, Measure, byte_seconds, leaked_blocks, measured_blocks
from msmemscope.recording.call_sites import STACK_COLUMNS

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_PYTHON_FRAME: Final = re.compile(r"(.*)\(([0-9]{1,18})\): (.*)", re.DOTALL)
_NATIVE_FRAME: Final = re.compile(r"(.*?)\((.*)\)(?: \[0x[0-9a-f]+\])?", re.DOTALL)
NO_STACK: Final = "(no call stack)"
"""Frame of blocks without a recorded stack or operator."""

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

owner: null where blocks are not told apart by it.
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
        sums = pl.exclude(*POOL_KEY, "owner", "stack").sum()
        return self.weights.group_by(*POOL_KEY, "stack").agg(sums).sort(*POOL_KEY, "stack")


def weighted_stacks(recording: Recording, *, by_owner: bool = True) -> WeightedStacks:
    """Weigh the stack of each block: its Python stack, else its native one, and the operator that allocated it.

    Args:
        recording: Any.
        by_owner: Whether blocks are told apart by their owners, which of a long recording takes the most time.
    """
    no_owner = pl.lit(None, dtype=pl.String)
    blocks = owned_blocks(recording)[0] if by_owner else recording.blocks.with_columns(owner=no_owner)
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
    measured = measured_blocks(recording, blocks).join(
        stacks, on=list(STACK_COLUMNS), how="left", maintain_order="left"
    )
    size, one = pl.col("size"), pl.lit(1, dtype=pl.Int64)
    sums = {}
    for word, condition in (
        ("peak", pl.col("is_at_peak")),
        ("leaked", leaked_blocks(recording)),
        ("allocated", pl.lit(value=True)),
    ):
        sums[f"{word}_bytes"] = pl.when(condition).then(size).otherwise(0)
        sums[f"{word}_blocks"] = pl.when(condition).then(one).otherwise(0)
    return (
        measured.select(*POOL_KEY, "owner", "stack", **sums, byte_seconds="byte_ns")
        .group_by(*POOL_KEY, "owner", "stack")
        .agg(pl.all().sum())
        .with_columns(byte_seconds(pl.col("byte_seconds")))
        .sort(*POOL_KEY, "owner", "stack")
        .cast(WEIGHT_SCHEMA)
    )


def python_frames(text: str) -> list[StackFrame]:
    """Read the text of a Python stack, `<file>(<line>): <function>` per line, innermost first."""
    return [_python_frame(line) for line in text.split("\n") if line]


def native_frames(text: str) -> list[StackFrame]:
    """Read the text of a native stack, `<module>(<symbol>) [<address>]` or a symbol per line, innermost first."""
    return [_native_frame(line) for line in text.split("\n") if line]


# Stacks of one program share most of their lines.
@functools.lru_cache(maxsize=1 << 16)
def _python_frame(line: str) -> StackFrame:
    match = _PYTHON_FRAME.fullmatch(line)
    return StackFrame(line, "", 0) if match is None else StackFrame(match[3], match[1], int(match[2]))


@functools.lru_cache(maxsize=1 << 16)
def _native_frame(line: str) -> StackFrame:
    match = _NATIVE_FRAME.fullmatch(line) if "/" in line.partition("(")[0] else None
    return StackFrame(line, "", 0) if match is None else StackFrame(match[2], match[1], 0)
