"""When a program puts its device memory to sleep, and when it wakes it.

The functions of the known sleep modes (`capture/frameworks`) are recorded as mstx ranges `sleep` and `wake_up`. A
program can say the same itself, by mstx ranges or marks, or by `msmemscope.RecordFunction`. The names are `sleep`,
`wake` or `wake_up`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from msmemscope.recording.recording import Recording

SLEEP_NAMES: Final = ("sleep",)
"""Names of ranges, marks and calls that put memory to sleep."""
WAKE_NAMES: Final = ("wake", "wake_up")
"""Names of those that wake it."""

PHASE_SCHEMA: Final = pl.Schema({"is_sleep": pl.Boolean(), "begin_sequence": pl.UInt64(), "end_sequence": pl.UInt64()})
"""One row per range, mark or call that puts memory to sleep, or wakes it, in the order of their begins. A mark begins and
ends at once."""

CYCLE_SCHEMA: Final = pl.Schema(
    {
        "cycle": pl.Int64(),
        "begin_sequence": pl.UInt64(),
        "asleep_sequence": pl.UInt64(),
        "wake_sequence": pl.UInt64(),
        "awake_sequence": pl.UInt64(),
    }
)
"""One row per sleep, numbered from 1.

begin_sequence: the event with which the sleep begins. asleep_sequence: that with which it is complete: its end. Of
   several without a wake between them, as those that are nested, the end of the last one.
wake_sequence, awake_sequence: with which the first wake behind it begins, and the last one before the next sleep ends; null
   if none came.
"""


def sleep_cycles(recording: Recording) -> pl.DataFrame:
    """Return the sleeps of a program, of CYCLE_SCHEMA."""
    return cycles_of(sleep_phases(recording))


def cycles_of(phases: pl.DataFrame) -> pl.DataFrame:
    """Put phases together to cycles.

    Args:
        phases: PHASE_SCHEMA.

    Returns:
        CYCLE_SCHEMA. A wake without a sleep before it belongs to none.
    """
    cycles: list[_Cycle] = []
    for is_sleep, begin, end in phases.iter_rows():
        last = cycles[-1] if cycles else None
        if is_sleep and (last is None or last.wake is not None):
            cycles.append(_Cycle(begin, end))
        elif is_sleep and last is not None:
            last.asleep = max(last.asleep, end)
        elif last is not None and last.wake is None:
            # Where another thread wakes before the sleep has ended, the sleep ends with that.
            last.asleep, last.wake, last.awake = min(last.asleep, begin), begin, end
        elif last is not None:
            last.awake = max(last.awake or 0, end)
    rows = [(number, one.begin, one.asleep, one.wake, one.awake) for number, one in enumerate(cycles, start=1)]
    return pl.DataFrame(rows, CYCLE_SCHEMA, orient="row")


@dataclasses.dataclass
class _Cycle:
    """A row of CYCLE_SCHEMA that is being made."""

    begin: int
    asleep: int
    wake: int | None = None
    awake: int | None = None


def sleep_phases(recording: Recording) -> pl.DataFrame:
    """Return when the program puts memory to sleep, and when it wakes it: PHASE_SCHEMA."""
    text = pl.col("text").str.strip_chars('"')
    names = recording.strings.filter(text.is_in([*SLEEP_NAMES, *WAKE_NAMES])).select(
        name_id="id", is_sleep=text.is_in([*SLEEP_NAMES])
    )
    named = recording.events.join(names, on="name_id", how="inner", maintain_order="left")
    columns = ("is_sleep", "begin_sequence", "end_sequence")
    marks = named.filter(pl.col("kind") == EventKind.MARK).select(
        "is_sleep", begin_sequence="sequence", end_sequence="sequence"
    )
    ends = recording.events.filter(pl.col("kind") == EventKind.RANGE_END).select(
        "sequence", "extra", end_sequence="sequence"
    )
    ranges = (
        named.filter(pl.col("kind") == EventKind.RANGE_START)
        .select("is_sleep", "sequence", "extra", begin_sequence="sequence")
        # `extra` is the number of the range.
        .join_asof(ends, on="sequence", by="extra", strategy="forward", check_sortedness=False)
        .drop_nulls("end_sequence")
    )
    calls = named.filter(pl.col("kind") == EventKind.FUNCTION_CALL).select(
        "is_sleep", begin_ns="timestamp_ns", end_sequence="sequence"
    )
    # A call is recorded when it returns: events before its begin are those with an earlier time.
    is_moment = recording.events["kind"] != EventKind.FUNCTION_CALL
    moments = recording.events.filter(is_moment).select("sequence", "timestamp_ns")
    times = np.maximum.accumulate(moments["timestamp_ns"].to_numpy())
    rows = np.searchsorted(times, calls["begin_ns"].to_numpy(), side="left")
    firsts = np.append(moments["sequence"].to_numpy(), np.iinfo(np.uint64).max)[rows]
    begins = np.minimum(firsts, calls["end_sequence"].to_numpy())
    called = calls.with_columns(begin_sequence=pl.Series(begins, dtype=pl.UInt64))
    parts = [table.select(columns).cast(PHASE_SCHEMA) for table in (marks, ranges, called)]
    return pl.concat(parts).sort("begin_sequence", "end_sequence", descending=[False, True])
