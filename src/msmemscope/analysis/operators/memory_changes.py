"""The changes by each operator, or launch of a kernel: net bytes, the most above its beginning, the total after it.

Memory is that of the pools of frameworks on the device, CPU tensors included; the driver's memory of pools is not
counted again. An operator is an outermost one of its thread (see `operator_intervals`), and its change is that of the
memory events inside it.

The allocations for a launch of a kernel belong to it: those since the launch before it on the device, inside the same
operator. A launch can be inside of none: no operators were recorded, or a thread of a queue launches. Then all
allocations since the launch before it belong to it. Frees until the next launch belong to it too, and so do allocations
until then for no other launch.

Blocks found alive at a start, and frees written at an end, are in totals and belong to nobody. They did not happen when
they were recorded.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.options import LevelNames, NewFile, QuestionOptions, levels_of, option
from msmemscope.analysis.recorded import Need
from msmemscope.configuration import OPTION_BY_SPELLING, Level
from msmemscope.model.devices import DEVICE_NONE
from msmemscope.model.events import EVENT_WORDS, EventFlag, EventKind
from msmemscope.model.pools import FRAMEWORK_POOLS
from msmemscope.recording.operators import NOWHERE, find_operators, order_of_device
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    import os
    from collections.abc import Set as AbstractSet

    from msmemscope.recording import Recording
    from msmemscope.recording.operators import Operators

IntegerArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

SUBJECTS: Final = {
    Level.OP: Subject(
        "Changes by operator", needed=(Need.ALLOCATIONS, Need.OPERATORS), helpful=(Need.FREES, Need.STACKS)
    ),
    Level.KERNEL: Subject(
        "Changes by kernel", needed=(Need.ALLOCATIONS, Need.KERNELS), helpful=(Need.FREES, Need.STACKS)
    ),
}
WHOLE_RECORDING: Final = (0, (1 << 63) - 1)
"""Bounds that every event is within."""

CHANGE_SCHEMA: Final = pl.Schema(
    {
        "sequence": pl.UInt64(),
        "event": pl.String(),
        "name": pl.String(),
        "device": pl.Int16(),
        "thread_id": pl.UInt32(),
        "net_bytes": pl.Int64(),
        "peak_bytes": pl.Int64(),
        "total_bytes": pl.Int64(),
        "python_stack_id": pl.UInt32(),
    }
)
"""One row per operator or launch, by device and in sequence order.

sequence: of the event that begins it.
event: `OP_LAUNCH` or `KERNEL_LAUNCH`.
net_bytes: allocated minus freed.
peak_bytes: the most bytes in use while it ran, above those when it began; 0 if never more. A launch begins with the
    first allocation for it, and runs until the next one begins.
total_bytes: in use after it.
python_stack_id: of its largest allocation, else of the event that begins it; 0 if none was taken.
"""

TOTAL_SCHEMA: Final = pl.Schema({"device": pl.Int16(), "sequence": pl.UInt64(), "total_bytes": pl.Int64()})
"""One row per memory event, in sequence order: the bytes in use on its device after it."""


@dataclasses.dataclass(frozen=True)
class OperatorsOptions(QuestionOptions):
    """Whose changes to list."""

    level: str = option("op", LevelNames(), OPTION_BY_SPELLING["--level"].accepted)
    """`op`, `kernel`, or `op,kernel`: operators, launches of kernels, or both."""
    csv: str | os.PathLike[str] | None = option(None, NewFile(), "write all rows to this new file")
    """A new file that gets all rows; None for none."""

    @property
    def levels(self) -> frozenset[Level]:
        """The levels one by one."""
        return levels_of(self.level)


@dataclasses.dataclass(frozen=True)
class MemoryChanges:
    """The changes by operators and launches of a process."""

    rows: pl.DataFrame
    """CHANGE_SCHEMA."""
    totals: pl.DataFrame
    """TOTAL_SCHEMA."""
    coverage: Coverage
    """The coverage of the answer."""

    def to_polars(self) -> pl.DataFrame:
        """Return the rows."""
        return self.rows


def find_memory_changes(
    recording: Recording,
    levels: AbstractSet[Level] = frozenset({Level.OP}),
    *,
    bounds: tuple[int, int] = WHOLE_RECORDING,
) -> MemoryChanges:
    """Attribute every change of memory to the operator or launch that it belongs to.

    Args:
        recording: Any; without operators, or launches, there are no rows for them.
        levels: Which of the two are wanted; with both, rows of both stand in sequence order, each with its own change.
        bounds: Sequence numbers of the first and the last event that count; totals are of the whole recording.
    """
    events = recording.events
    memory = _memory_rows(events, bounds)
    sequences = events["sequence"].to_numpy()
    first, end = np.searchsorted(sequences, [bounds[0], bounds[1] + 1]).tolist()
    devices = sorted({*events["device"].unique().to_list()} - {DEVICE_NONE}, key=lambda device: (device < 0, device))
    parts = [CHANGE_SCHEMA.to_frame()]
    totals = [TOTAL_SCHEMA.to_frame()]
    operators = find_operators(events)
    names = recording.strings.select(pl.col("id").alias("name_id"), pl.col("text").alias("name"))
    for device in devices:
        on_device = _DeviceMemory(memory.filter(pl.col("device") == device))
        totals.append(on_device.totals(device))
        found = []
        if Level.OP in levels:
            order = order_of_device(operators, device, on_device.rows)
            begins = operators.begin_rows[order.members]
            ends = operators.end_rows[order.members]
            chosen = (begins >= first) & (begins < end)
            number = np.append(np.where(chosen, np.cumsum(chosen) - 1, NOWHERE), NOWHERE)
            place = number[order.positions_at(on_device.rows) - 1]
            found.append(_changes(events, on_device, begins[chosen], (begins[chosen], ends[chosen]), place))
        if Level.KERNEL in levels:
            is_launch = (pl.col("kind") == EventKind.KERNEL_LAUNCH) & (pl.col("device") == device)
            begins = events.select(is_launch.arg_true().cast(pl.Int64)).to_series().to_numpy()
            begins = begins[(begins >= first) & (begins < end)]
            place, starts = _launch_of(operators, begins, on_device)
            ends = np.append(starts[1:] - 1, end)[: len(begins)]
            found.append(_changes(events, on_device, begins, (starts, ends), place))
        parts.append(
            pl.concat(found)
            .with_columns(device=pl.lit(device, dtype=pl.Int16))  # its start may name another one
            .join(names, on="name_id", how="left", maintain_order="left")
            .with_columns(pl.col("name").fill_null(""))
            .sort("sequence")
            .select(CHANGE_SCHEMA.names())
        )
    coverage = changes_coverage(recording, levels)
    return MemoryChanges(pl.concat(parts), pl.concat(totals).sort("sequence"), coverage)


def changes_coverage(recording: Recording, levels: AbstractSet[Level]) -> Coverage:
    """Return the coverage of changes by operator, by kernel, or by both."""
    questions = [SUBJECTS[level] for level in Level if level in levels]
    found = [coverage_of(question, recording) for question in questions]
    answered = [coverage for coverage in found if coverage.is_answered]
    if not answered:
        return found[0].without_answer(line for one in found for line in one.missing)
    # Where only one of the two levels is there, it leaves the other out.
    return answered[0].with_limits(line for one in found for line in (*one.missing, *one.limits))


def _launch_of(operators: Operators, begins: IntegerArray, memory: _DeviceMemory) -> tuple[IntegerArray, IntegerArray]:
    """Find the launch of a kernel that each change of memory belongs to, and the row that each launch begins with.

    Args:
        operators: Of the process.
        begins: Rows of the launches, ascending.
        memory: Of their device.
    """
    following = np.searchsorted(begins, memory.rows)
    is_followed = memory.counts & memory.allocates & (following < len(begins))
    rows, launches = memory.rows[is_followed], following[is_followed]
    inside = operators.of_row[begins[launches]]
    is_for_it = (inside == NOWHERE) | (inside == operators.of_row[rows])
    place = following - 1
    place[np.flatnonzero(is_followed)[is_for_it]] += 1
    starts = begins.copy()
    np.minimum.at(starts, launches[is_for_it], rows[is_for_it])
    return place, starts


def _memory_rows(events: pl.DataFrame, bounds: tuple[int, int]) -> pl.DataFrame:
    """Return the events that change the bytes of pools of frameworks: their row, their change, whether they count."""
    is_allocation = pl.col("kind") == EventKind.MALLOC
    # The size of a FREE is known only if its block was seen.
    is_free = (pl.col("kind") == EventKind.FREE) & (pl.col("extra") != 0)
    pools = [int(pool) for pool in FRAMEWORK_POOLS]
    return (
        events.lazy()
        .with_row_index("row")
        .filter((is_allocation | is_free) & pl.col("pool").is_in(pools))
        .select(
            pl.col("row").cast(pl.Int64),
            "device",
            "sequence",
            "python_stack_id",
            pl.when(is_allocation).then(pl.col("size")).otherwise(-pl.col("size")).alias("change"),
            is_allocation.alias("allocates"),
            (
                pl.col("sequence").is_between(*bounds) & (pl.col("flags").cast(pl.UInt32) & int(EventFlag.SHADOW) == 0)
            ).alias("counts"),
        )
        .collect()
    )


class _DeviceMemory:
    """The changes of memory on one device, in sequence order."""

    def __init__(self, memory: pl.DataFrame) -> None:
        self.rows: IntegerArray = memory["row"].to_numpy()
        self.changes: IntegerArray = memory["change"].to_numpy()
        self.stacks = memory["python_stack_id"].to_numpy()
        self.allocates = memory["allocates"].to_numpy()
        self.counts = memory["counts"].to_numpy()
        """Whether a change happened when it was recorded, and within the bounds."""
        self._sequences = memory["sequence"]
        self.use = MemoryUse.of_changes(self.rows, self.changes)

    def totals(self, device: int) -> pl.DataFrame:
        """Return a table of TOTAL_SCHEMA."""
        columns = {
            "device": pl.repeat(device, len(self.rows), dtype=pl.Int16, eager=True),
            "sequence": self._sequences,
            "total_bytes": self.use.in_use[1:],
        }
        return pl.DataFrame(columns, schema=TOTAL_SCHEMA)

    def highest(self, begins: IntegerArray, ends: IntegerArray) -> IntegerArray:
        """Return the most bytes in use between pairs of rows, above those at the first."""
        _, highest = self.use.extremes(begins, ends)
        return highest - self.use.in_use[np.searchsorted(self.rows, begins)]


def _changes(
    events: pl.DataFrame,
    memory: _DeviceMemory,
    begins: IntegerArray,
    stretches: tuple[IntegerArray, IntegerArray],
    place: IntegerArray,
) -> pl.DataFrame:
    """Return the rows of one kind of one device.

    Args:
        events: Of the process.
        memory: Of the device.
        begins: Row of each start or launch, ascending.
        stretches: Rows of the first and the last moment of each.
        place: For each change of memory the index of its operator or launch; NOWHERE for none.
    """
    place = np.where(memory.counts, place, NOWHERE)
    belongs = place != NOWHERE
    net = np.zeros(len(begins), np.int64)
    np.add.at(net, place[belongs], memory.changes[belongs])
    table = (
        events[begins]
        .select("sequence", "kind", "name_id", "thread_id", pl.col("python_stack_id").alias("begin_stack_id"))
        .with_columns(
            pl.Series("net_bytes", net, dtype=pl.Int64),
            pl.Series("peak_bytes", memory.highest(*stretches), dtype=pl.Int64),
            pl.Series("total_bytes", memory.use.after(stretches[1]), dtype=pl.Int64),
            pl.Series("place", np.arange(len(begins)), dtype=pl.Int64),
        )
    )
    allocations = pl.DataFrame({"place": place, "change": memory.changes, "python_stack_id": memory.stacks})
    largest = (
        allocations.filter((pl.col("place") != NOWHERE) & (pl.col("change") > 0) & (pl.col("python_stack_id") != 0))
        .sort("change", descending=True, maintain_order=True)
        .unique("place", keep="first", maintain_order=True)
        .select(pl.col("place").cast(pl.Int64), pl.col("python_stack_id").cast(pl.UInt32))
    )
    words = pl.Series([EVENT_WORDS.get(value, "") for value in range(256)])
    return (
        table.join(largest, on="place", how="left", maintain_order="left")
        .with_columns(
            pl.lit(words).gather(pl.col("kind")).alias("event"),
            pl.coalesce("python_stack_id", "begin_stack_id").cast(pl.UInt32).alias("python_stack_id"),
        )
        .drop("kind", "place", "begin_stack_id")
    )
