"""The owners of memory: totals per owner at the peak, at each step and over time, and the ledger of the driver.

Owners are paths (`PTA@model@weight`, see `analysis.ownership`), so totals form a tree: the node `PTA@model` holds every
block whose owner is `PTA@model` or begins with `PTA@model@`. Each block has one owner. So the outermost nodes of a pool
add up to the pool, at every moment.

The ledger of the driver's memory is in `analysis.driver_ledger`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of, recorded_coverage
from msmemscope.analysis.options import QuestionOptions, WholeNumber, option
from msmemscope.analysis.owners.block_lives import program_end
from msmemscope.analysis.owners.driver_ledger import driver_ledger
from msmemscope.analysis.owners.ownership import find_owners, owners_of_capture
from msmemscope.analysis.owners.tree import NODE_SCHEMA, node_totals
from msmemscope.analysis.recorded import Need, Recorded
from msmemscope.model.devices import NOT_AVAILABLE
from msmemscope.model.events import LAST_VALUE_KINDS, MEMORY_KINDS, EventKind
from msmemscope.model.pools import POOL_WORDS
from msmemscope.recording import recording_without_stacks
from msmemscope.recording.timeline import peak_moments

if TYPE_CHECKING:
    from msmemscope.analysis.owners.ownership import Ownership
    from msmemscope.formats.event_log import Capture
    from msmemscope.recording import Recording

SUBJECT: Final = Subject("Owners", needed=(Need.ALLOCATIONS,), helpful=(Need.FREES, Need.OPERATORS, Need.OWNERS))
_MOMENT_COLUMNS: Final = {
    "sequence": pl.UInt64(),
    "timestamp_ns": pl.UInt64(),
    "device": pl.Int16(),
    "pool": pl.UInt8(),
}
STEP_NODE_SCHEMA: Final = pl.Schema({"step": pl.Int64(), **_MOMENT_COLUMNS, **NODE_SCHEMA})
"""NODE_SCHEMA right after the last event of each step, for each pool.

step: its number.
sequence, timestamp_ns: of the event that ended it.
"""
TIME_NODE_SCHEMA: Final = pl.Schema({**_MOMENT_COLUMNS, **NODE_SCHEMA})
"""NODE_SCHEMA right after some events, in their order, for each pool."""

_PART_ROWS: Final = 1 << 22
"""Events that owners are looked for in together: tables on the way are as large as they are."""
_MOST_OWNERS_AT_MOMENTS: Final = 5_000_000
"""Rows of a table of owners at some moments, about. A run of 100,000 steps with 50 owners has so many."""

NO_DRIVER: Final = (
    "ledger of the driver: its memory was not observed, so that what pools hold cannot be compared with it"
)
"""The gap of a ledger without the driver."""
NO_OWNERS: Final = (
    "owners: this input names none (it was not recorded with --analysis=decompose): only pools are distinguished, and what "
    "operators allocated or used"
)
"""The gap of a dump without owners."""


@dataclasses.dataclass(frozen=True)
class DecompositionOptions(QuestionOptions):
    """The parts to work out."""

    moments: int = option(400, WholeNumber(), "about how many moments the table over time has", is_python_only=True)
    """About how many moments `Decomposition.over_time` has; 0 for none."""


@dataclasses.dataclass(frozen=True)
class PoolDecomposition:
    """The owners of one pool of one device when it was fullest."""

    device: int
    pool: int
    peak_bytes: int
    sequence: int
    """The event that first reached it."""
    timestamp_ns: int
    """CLOCK_REALTIME of that event."""
    nodes: pl.DataFrame
    """NODE_SCHEMA, ordered by path."""


@dataclasses.dataclass(frozen=True)
class Decomposition:
    """The owners of the memory of one process."""

    pools: tuple[PoolDecomposition, ...]
    """In the order of devices and pools; pools that never held a byte are left out."""
    at_steps: pl.DataFrame
    """STEP_NODE_SCHEMA."""
    over_time: pl.DataFrame
    """TIME_NODE_SCHEMA, at moments that lie evenly among the allocations and frees of the process, and at all peaks."""
    ledger: pl.DataFrame
    """`driver_ledger.PART_SCHEMA`; of the parts of a device, pools and modules without a byte are left out."""
    devices: pl.DataFrame
    """`driver_ledger.DEVICE_SCHEMA`."""
    coverage: Coverage
    """The coverage of the answer."""

    def to_polars(self) -> pl.DataFrame:
        """Return `device`, `pool`, `peak_bytes` and NODE_SCHEMA: the tree of owners of each pool at its peak."""
        key = {"device": pl.Int16(), "pool": pl.UInt8(), "peak_bytes": pl.Int64()}
        parts = [pl.Schema({**key, **NODE_SCHEMA}).to_frame()]
        for pool in self.pools:
            values = (getattr(pool, name) for name in key)
            reported = [
                pl.lit(value, dtype=kind).alias(name) for (name, kind), value in zip(key.items(), values, strict=True)
            ]
            parts.append(pool.nodes.select(*reported, *NODE_SCHEMA.names()))
        return pl.concat(parts)

    def ledger_at_peak(self, device: int) -> pl.DataFrame:
        """Return the rows of the ledger about a device when its driver memory was at its highest."""
        return self.ledger.filter((pl.col("device") == device) & pl.col("step").is_null())


DECOMPOSED_KINDS: Final = (
    *MEMORY_KINDS, *LAST_VALUE_KINDS, EventKind.STEP, EventKind.RANGE_START, EventKind.RANGE_END,
)  # fmt: skip
"""Kinds of the events that are decomposed, once the owners are known."""


def decompose_capture(
    capture: Capture, options: DecompositionOptions | None = None, *, ownership: Ownership | None = None
) -> Decomposition:
    """Decompose the memory of a capture.

    Only events about memory as such are read as a table. So operators and accesses of a long capture need not fit into
    memory.

    Args:
        capture: The process.
        options: The parts to work out.
        ownership: The owners of its blocks, where they were found before.

    Raises:
        EventLogError: the event log cannot be read.
    """
    found = ownership or owners_of_capture(capture)
    recording = recording_without_stacks(capture, DECOMPOSED_KINDS)
    owned = recording.blocks.with_columns(found.owners["owner"].cast(pl.String))
    recording = dataclasses.replace(recording, blocks=owned, coverage=found.coverage)
    coverage = recorded_coverage(SUBJECT, Recorded.of_capture(capture), recording.coverage)
    return _decompose(recording, coverage, options)


def decompose(recording: Recording, options: DecompositionOptions | None = None) -> Decomposition:
    """Work out the owners of memory.

    Args:
        recording: Any. Owners that its blocks do not name are worked out from its events.
        options: The parts to work out.
    """
    return _decompose(recording, coverage_of(SUBJECT, recording), options)


def _decompose(recording: Recording, coverage: Coverage, options: DecompositionOptions | None) -> Decomposition:
    chosen = DecompositionOptions() if options is None else options
    blocks, notes = owned_blocks(recording)
    ends = recording.steps.drop_nulls("end_sequence").select(step="number", sequence="end_sequence")
    owners = max(blocks.select("device", "pool", "owner").n_unique(), 1)
    ends, thinned = _fewer(ends, owners)
    notes = (*notes, *thinned)
    moments = min(chosen.moments, max(_MOST_OWNERS_AT_MOMENTS // owners, 1))
    times = recording.events.select("sequence", "timestamp_ns")
    peaks = _with_times(peak_moments(blocks).filter(pl.col("peak_bytes") > 0), times)
    at_steps = ends.join(node_totals(blocks, ends["sequence"]), on="sequence", maintain_order="left_right")
    over_time = node_totals(blocks, _evenly_spread(blocks, peaks["sequence"], moments))
    ledger, devices = driver_ledger(recording.events, blocks, peaks, ends)
    if devices["driver_bytes"].null_count() > 0:
        notes = (*notes, NO_DRIVER)
    return Decomposition(
        pools=_pools(peaks, node_totals(blocks, peaks["sequence"])),
        at_steps=_with_times(at_steps, times).select(STEP_NODE_SCHEMA.names()),
        over_time=_with_times(over_time, times).select(TIME_NODE_SCHEMA.names()),
        ledger=ledger,
        devices=devices,
        coverage=coverage.with_limits(notes),
    )


def _fewer(ends: pl.DataFrame, owners: int) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return the ends of steps for which a table of all owners fits into memory, and a note on those left out."""
    every = -(-len(ends) * owners // _MOST_OWNERS_AT_MOMENTS)
    if every <= 1:
        return ends, ()
    line = (
        f"owners at the end of every {every}th step only: {owners} owners at {len(ends)} steps are too many for a table"
    )
    return ends.reverse().gather_every(every).reverse(), (line,)


def _pools(peaks: pl.DataFrame, nodes: pl.DataFrame) -> tuple[PoolDecomposition, ...]:
    """Pair the peak of each pool with the tree of that moment."""
    found = []
    for row in peaks.iter_rows(named=True):
        is_here = pl.all_horizontal(pl.col(name) == row[name] for name in ("sequence", "device", "pool"))
        tree = nodes.filter(is_here).select(NODE_SCHEMA.names())
        found.append(
            PoolDecomposition(row["device"], row["pool"], row["peak_bytes"], row["sequence"], row["timestamp_ns"], tree)
        )
    return tuple(found)


def _with_times(table: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
    """Add `timestamp_ns` to a table by its `sequence`."""
    return table.join(times, on="sequence", how="left", maintain_order="left").with_columns(
        pl.col("timestamp_ns").fill_null(0)
    )


def _evenly_spread(blocks: pl.DataFrame, peaks: pl.Series, count: int) -> pl.Series:
    """Return moments that lie evenly among the allocations and frees, the last of them and the peaks included."""
    if count == 0:
        return peaks.clear()
    sequences = pl.concat([blocks["malloc_sequence"], blocks["free_sequence"].drop_nulls()]).sort()
    step = max(-(-len(sequences) // count), 1)
    spread: pl.Series = pl.concat([sequences.reverse().gather_every(step), peaks])
    return spread


def owned_blocks(recording: Recording) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Give each block an owner: from the input, else from its events, else its pool.

    Args:
        recording: Any.

    Returns:
        The blocks, none without an `owner`, in their order; and the parts that could not be told, one line each.
    """
    blocks = recording.blocks
    missing = blocks["owner"].null_count()
    if missing == 0:
        return blocks, ()
    parts = recording.events.iter_slices(_PART_ROWS)
    strings = dict(recording.strings.iter_rows())
    found = find_owners(parts, strings, lambda _: recording.attributes, program_end(recording.facts))
    derived = found.owners["owner"].cast(pl.String)
    if not found.owners["sequence"].equals(blocks["malloc_sequence"]):
        by_sequence = found.owners.select(malloc_sequence="sequence", derived=derived)
        derived = blocks.join(by_sequence, on="malloc_sequence", how="left", maintain_order="left")["derived"]
    # A pool stands for owners that nothing tells.
    words = pl.col("pool").replace_strict(POOL_WORDS, default=NOT_AVAILABLE, return_dtype=pl.String)
    owned = blocks.with_columns(owner=pl.coalesce("owner", derived, words))
    if missing < len(blocks):
        return owned, ()
    return owned, found.coverage if recording.form == "event log" else (NO_OWNERS,)
