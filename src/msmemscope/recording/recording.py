"""What analyses work on: one process, whatever its facts were read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.events import EventKind
from msmemscope.recording.schema import BLOCK_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDING_BLOCK_SCHEMA: Final = pl.Schema({**BLOCK_SCHEMA, "owner": pl.String()})
"""BLOCK_SCHEMA and one more column.

owner: who a dump says the block belongs to (attribute `owner` of its MALLOC), null if it says nothing. Event logs do
    not have this text: they have the labels that it is made of.
"""

STEP_SCHEMA: Final = pl.Schema(
    {
        "number": pl.Int64(),
        "begin_sequence": pl.UInt64(),
        "end_sequence": pl.UInt64(),
        "device": pl.Int16(),
    }
)
"""One row per step of a program, in the order of their begins. See `steps`."""

STEP_RANGE_NAME: Final = "step start"
"""Text of an mstx range that is a step."""


@dataclass(frozen=True)
class Recording:
    """Everything that analyses need of one process, whatever it was read from.

    What an input does not have is absent from the tables (0 or null, as their schemas say).
    """

    source: str
    """The path that was read, for messages."""
    form: str
    """What it is: `event log`, `csv`, `db`, `torch snapshot`."""
    process_id: int
    """The process, 0 if the input does not say."""
    events: pl.DataFrame
    """EVENT_SCHEMA, in sequence order. The sequence numbers of a dump are its IDs."""
    blocks: pl.DataFrame
    """RECORDING_BLOCK_SCHEMA, in MALLOC order."""
    strings: pl.DataFrame
    """STRING_SCHEMA: names and attribute texts, by the ids of `events`."""
    python_stacks: pl.DataFrame
    """STRING_SCHEMA: `<file>(<line>): <function>` and a line feed per frame, innermost first, by `python_stack_id`."""
    native_stacks: pl.DataFrame
    """STRING_SCHEMA: one frame per line, innermost first, by `native_stack_id`."""
    coverage: tuple[str, ...]
    """What was lost before it could be read, one line each; what an answer lacks, its own coverage says."""
    problems: tuple[str, ...]
    """What was skipped and why, one line each, with line numbers where there are lines."""
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the recording noted about itself, by key (native/FORMAT.md); only event logs have any."""


def steps(recording: Recording) -> pl.DataFrame:
    """Returns the steps that a program told of.

    A program tells of steps by `msmemscope.step()` or by mstx ranges named `step start`; where it did both, the one
    that it used first counts and the other is ignored. A call of `step()` ends the step of its number: it begins behind
    the call before it, the first one with the process. A range is a step of its own device; ranges are counted from 1
    over all devices of the process, in the order in which they begin. A range within another one of its device is part
    of that step and no step of its own; ranges that overlap without that are steps, each.

    Args:
        recording: Any.

    Returns:
        A table of STEP_SCHEMA. Both bounds are part of the step. `end_sequence` is null for a range that never ended.
    """
    marked = recording.events.filter(pl.col("kind").is_in([EventKind.STEP, EventKind.RANGE_START, EventKind.RANGE_END]))
    is_step_name = pl.col("text").str.strip_chars('"') == STEP_RANGE_NAME
    names = recording.strings.filter(is_step_name)["id"]
    is_begin = (pl.col("kind") == EventKind.RANGE_START) & pl.col("name_id").is_in(names.implode())
    first = marked.filter((pl.col("kind") == EventKind.STEP) | is_begin).head(1)
    if first.is_empty():
        return STEP_SCHEMA.to_frame()
    if first["kind"][0] == EventKind.STEP:
        return _called_steps(marked)
    return _marked_steps(marked, is_begin)


def _called_steps(marked: pl.DataFrame) -> pl.DataFrame:
    """Returns the steps of `step()`: each call ends one."""
    return (
        marked.filter(pl.col("kind") == EventKind.STEP)
        .select(
            pl.col("size").alias("number"),
            (pl.col("sequence").shift(1) + 1).fill_null(0).alias("begin_sequence"),
            pl.col("sequence").alias("end_sequence"),
            "device",
        )
        .cast(STEP_SCHEMA)
    )


def _marked_steps(marked: pl.DataFrame, is_begin: pl.Expr) -> pl.DataFrame:
    """Returns the steps of mstx ranges: from a begin to the end of the same range."""
    # `extra` is the number of the range, the same at its begin and its end.
    begins = marked.filter(is_begin).select("sequence", "device", "extra")
    ends = marked.filter(pl.col("kind") == EventKind.RANGE_END).select(
        pl.col("sequence").alias("end_sequence"), "sequence", "extra"
    )
    ranges = begins.join_asof(ends, on="sequence", by="extra", strategy="forward", check_sortedness=False)
    # A range without an end holds nothing: that it lasts until the process ends is the least likely.
    latest_end = pl.col("end_sequence").fill_null(0).cum_max().shift(1).over("device").fill_null(0)
    is_within = (pl.col("sequence") < latest_end) & (pl.col("end_sequence").fill_null(0) < latest_end)
    return (
        ranges.filter(~is_within)
        .with_row_index("number", offset=1)
        .select("number", pl.col("sequence").alias("begin_sequence"), "end_sequence", "device")
        .cast(STEP_SCHEMA)
    )
