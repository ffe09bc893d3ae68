"""The table of blocks that are held without need, whatever the reason is."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Subject, coverage_of
from msmemscope.analysis.recorded import Need
from msmemscope.model.events import ACCESS_KINDS
from msmemscope.recording import RECORDING_BLOCK_SCHEMA
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.operators import NOWHERE, IntegerArray, MaskArray
from msmemscope.recording.peak_without import peak_with_absences, saved_bytes
from msmemscope.recording.step_bounds import process_steps, with_steps
from msmemscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import Enum

    from msmemscope.analysis.coverage import Coverage
    from msmemscope.recording import Recording
    from msmemscope.recording.block_uses import BlockUses, OperatorPlaces
    from msmemscope.recording.timeline import MemoryUse

SUBJECT: Final = Subject(
    "Inefficient memory",
    needed=(Need.ALLOCATIONS, Need.OPERATORS, Need.ACCESSES),
    helpful=(Need.FREES, Need.STACKS),
)

MOST_LINES: Final = 50
"""Call sites of a pool whose saving is worked out."""
_COLUMNS_AT_ONCE: Final = 8
"""Gathered by all processors together; more would be too much memory for a moment."""
_OPERATOR_ROLES: Final = ("allocating", "first", "last", "freeing")

FINDING_SCHEMA: Final = pl.Schema(
    {
        "kind": pl.String(),
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "allocation_id": pl.UInt64(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "step": pl.Int64(),
        "operators_wasted": pl.Int64(),
        "byte_operators": pl.Int64(),
        "saved_bytes": pl.Int64(),
        "interval_begin": pl.UInt64(),
        "interval_end": pl.UInt64(),
        "from_operator": pl.String(),
        "to_operator": pl.String(),
        **{
            f"{role}_operator{suffix}": kind
            for role in _OPERATOR_ROLES
            for suffix, kind in (("", pl.String()), ("_sequence", pl.UInt64()), ("_index", pl.Int64()))
        },
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "free_python_stack_id": pl.UInt32(),
        "free_native_stack_id": pl.UInt32(),
        "call_site": pl.String(),
        "site_path": pl.String(),
        "owner": pl.String(),
    }
)
"""One row per block and way in which it is held without need.

kind: the way, as the analysis names it.
device, pool, allocation_id, address, size: of the block; size in bytes.
step: number of the step that it was allocated in, 0 before the first.
operators_wasted: operators of its device that lie strictly within the interval without need.
byte_operators: size times operators_wasted.
saved_bytes: the bytes by which the peak of its pool and device would be lower without this block alone for a time. The
    time is from the end of the interval's first operator (for an allocation: from the allocation itself). It lasts to
    the begin of its last one (for a free: to the free itself). An event outside of operators stands for itself.
interval_begin, interval_end: sequence numbers of those two moments, null for the end of the recording.
from_operator, to_operator: the operators before and after the interval, null where there is none.
allocating_operator, first_operator, last_operator, freeing_operator: the operators that allocate it, access it first,
    access it last and free it, null where there is none. `_sequence`: of their starts. `_index`: their number among the
    operators of the device, from 1.
python_stack_id, native_stack_id, free_python_stack_id, free_native_stack_id: of the MALLOC and the FREE.
call_site, site_path: where in the program it was allocated, see `call_sites`.
owner: as a dump says it, null otherwise.
"""

_OF_BLOCKS: Final = [*(name for name in FINDING_SCHEMA if name in RECORDING_BLOCK_SCHEMA), "name_id", "free_sequence"]


@dataclasses.dataclass(frozen=True)
class Intervals:
    """For some blocks the time during which each is held without need; all arrays have one entry per block."""

    blocks: IntegerArray
    """Indexes of the blocks."""
    from_rows: IntegerArray
    """Rows of the events before and after it: the MALLOC and the first access, two accesses, ..."""
    to_rows: IntegerArray
    low: IntegerArray
    """Number of the first and of the last operator within it."""
    high: IntegerArray
    begin_rows: IntegerArray
    """When the block need not be in use: right after this row, until right before the other."""
    end_rows: IntegerArray

    def chosen(self, which: MaskArray) -> Intervals:
        """Return those where the mask is set."""
        return Intervals(*(getattr(self, field.name)[which] for field in dataclasses.fields(self)))


@dataclasses.dataclass(frozen=True)
class PoolSaving:
    """The peak of one pool of one device if everything were fixed."""

    device: int
    pool: int
    peak_bytes: int
    """The most that was in use at once."""
    peak_if_fixed_bytes: int
    """The same, if every block found were absent for the intervals found."""
    lines: pl.DataFrame = dataclasses.field(compare=False)
    """Its call sites: `call_site`, `site_path`, and `saved_bytes`. The peak would be lower by these bytes if the findings
    of this call site alone were fixed. The largest saving first; MOST_LINES of those with most bytes in findings.
    """


def finding_rows(
    recording: Recording,
    uses: BlockUses,
    places: OperatorPlaces,
    use: MemoryUse,
    kind: Enum,
    intervals: Intervals,
) -> pl.DataFrame:
    """Describe the blocks of one pool that are held without need in one way.

    Args:
        recording: The process.
        uses: Its blocks.
        places: Of the operators of the device.
        use: How full the pool was.
        kind: The way, one of all those that one call of `ranked` is about.
        intervals: The blocks.

    Returns: The columns of FINDING_SCHEMA that depend on the pool or are those of blocks, and further ones for
        `ranked`.
    """
    chosen = intervals.blocks
    sizes = uses.sizes[chosen]
    wasted = intervals.high - intervals.low + 1
    sequences = recording.events["sequence"]
    kinds = recording.events["kind"].to_numpy()

    def numbers(rows: IntegerArray) -> IntegerArray:
        """Return the number of the operator of each event, 0 for none."""
        known = np.maximum(rows, 0)
        is_outside = places.order.operators.of_row[known] == NOWHERE
        is_access = (kinds[known] >= min(ACCESS_KINDS)) & (kinds[known] <= max(ACCESS_KINDS))
        return np.where((rows == NOWHERE) | (is_outside & is_access), 0, places.order.owners_of(known))

    kinds_of_findings = pl.Enum(sorted(word.value for word in type(kind)))
    rows_by_role = dict(
        zip(
            _OPERATOR_ROLES,
            (uses.malloc_rows, uses.first_access_rows, uses.last_access_rows, uses.free_rows),
            strict=True,
        )
    )
    columns = [
        recording.blocks.select(_OF_BLOCKS)[chosen],
        pl.DataFrame(
            {
                "kind": pl.repeat(kind.value, len(chosen), dtype=kinds_of_findings, eager=True),
                "operators_wasted": wasted,
                "byte_operators": wasted * sizes,
                "saved_bytes": saved_bytes(use, sizes, intervals.begin_rows, intervals.end_rows),
                "interval_begin": sequences.gather(_index(intervals.begin_rows, uses.row_count)),
                "interval_end": sequences.gather(_index(intervals.end_rows, uses.row_count)),
            }
        ),
        pl.DataFrame(
            [
                places.names(numbers(intervals.from_rows)).alias("from_operator"),
                places.names(numbers(intervals.to_rows)).alias("to_operator"),
            ]
        ),
        *(pl.DataFrame(places.of(numbers(rows[chosen]), f"{role}_operator")) for role, rows in rows_by_role.items()),
    ]
    return pl.concat(columns, how="horizontal")


def ranked(recording: Recording, parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Put all findings together, the worst first: by bytes saved at the peak, then by bytes times operators.

    Args:
        recording: The process.
        parts: The results of `finding_rows`. The list is emptied: there may be as many rows as blocks, and too many for
            a second copy.

    Returns:
        A table of FINDING_SCHEMA.
    """
    if not parts:
        return FINDING_SCHEMA.to_frame()
    found = pl.concat(parts)
    parts.clear()
    stacks = found.select(STACK_COLUMNS)
    sites = stacks.join(call_sites(recording, stacks), on=STACK_COLUMNS, how="left", maintain_order="left")
    found = found.with_columns(
        # The number of an allocation is that of its MALLOC.
        with_steps(found.select("free_sequence", "device", malloc_sequence="allocation_id"), process_steps(recording))[
            "step"
        ],
        call_site=sites["site"],
        site_path=sites["site_path"],
    )
    order = _worst_first(found)
    names = FINDING_SCHEMA.names()
    columns: list[pl.Series] = []
    for begin in range(0, len(names), _COLUMNS_AT_ONCE):
        some = names[begin : begin + _COLUMNS_AT_ONCE]
        columns.extend(_spelled(column) for column in found.select(pl.col(some).gather(order)))
        found = found.drop(some)
    return pl.DataFrame(columns).cast(FINDING_SCHEMA)


def _worst_first(found: pl.DataFrame) -> pl.Series:
    """Return the row numbers by bytes saved, then by bytes times operators, both descending; then by block and kind."""
    keys = [found["kind"].to_physical(), found["allocation_id"], -found["byte_operators"], -found["saved_bytes"]]
    return pl.Series(np.lexsort([key.to_numpy() for key in keys]))


def _spelled(column: pl.Series) -> pl.Series:
    """Return texts for numbers that stand for them, the same text once for all rows: a cast would write each anew."""
    if not isinstance(column.dtype, pl.Enum):
        return column
    return column.dtype.categories.gather(column.to_physical()).alias(column.name)


def by_call_site(findings: pl.DataFrame) -> pl.DataFrame:
    """Sum up the findings that one line of a program makes again and again.

    Args:
        findings: A table of FINDING_SCHEMA, the worst first.

    Returns:
        One row per device, pool, kind and call site, the worst first.

        - `device`, `pool`, `kind`, `call_site`, `site_path`
        - `blocks`, `largest_bytes`
        - `operators_wasted`: the most of one block.
        - `byte_operators`: the sum.
        - `saved_bytes`: the most that one block alone would save at the peak.
        - `from_operator`, `to_operator`: of the worst block.
    """
    return (
        findings.group_by("device", "pool", "kind", "call_site", "site_path", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("blocks"),
            pl.col("size").max().alias("largest_bytes"),
            pl.col("operators_wasted").max(),
            pl.col("byte_operators").sum(),
            pl.col("saved_bytes").max(),
            pl.col("from_operator").first(),
            pl.col("to_operator").first(),
        )
        .sort("saved_bytes", "byte_operators", descending=True, maintain_order=True)
    )


def with_line_savings(sites: pl.DataFrame, pools: Iterable[PoolSaving]) -> pl.DataFrame:
    """Put the saving of all blocks of a line in place of that of one block, the largest first.

    Args:
        sites: As `by_call_site` returns them.
        pools: The savings of their pools.
    """
    key = ["device", "pool", "site_path"]
    lines = pl.concat(
        [
            pl.DataFrame(schema={"device": pl.Int16, "pool": pl.UInt8, "site_path": pl.String, "of_line": pl.Int64}),
            *(
                pool.lines.select(
                    pl.lit(pool.device, pl.Int16).alias("device"),
                    pl.lit(pool.pool, pl.UInt8).alias("pool"),
                    "site_path",
                    of_line="saved_bytes",
                )
                for pool in pools
            ),
        ]
    )
    return (
        sites.join(lines, on=key, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(saved_bytes=pl.coalesce("of_line", "saved_bytes"))
        .drop("of_line")
        .sort("saved_bytes", "byte_operators", descending=True, maintain_order=True)
    )


def pool_saving(
    recording: Recording, device: int, pool: int, use: MemoryUse, uses: BlockUses, found: list[Intervals]
) -> PoolSaving:
    """Return the peak of a pool without all the blocks found, and without those of each line, each for its interval.

    Args:
        recording: The process.
        device: Of the pool.
        pool: The pool.
        use: How full it was.
        uses: The blocks.
        found: Intervals that do not overlap where they are of one block.
    """
    blocks = np.concatenate([intervals.blocks for intervals in found])
    begins = np.concatenate([intervals.begin_rows for intervals in found])
    ends = np.concatenate([intervals.end_rows for intervals in found])
    sizes = uses.sizes[blocks]
    is_absence = np.flatnonzero(ends > begins)
    stacks = recording.blocks.select(STACK_COLUMNS)[blocks[is_absence]]
    sites = call_sites(recording, stacks).with_columns(line=pl.col("site_path").rank("dense").fill_null(0))
    line = stacks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")["line"].to_numpy()
    held = np.bincount(line, sizes[is_absence])
    largest = np.argsort(-held, kind="stable")[:MOST_LINES]
    largest = largest[held[largest] > 0]
    by_line = is_absence[np.argsort(line, kind="stable")]
    counts = np.bincount(line)
    after = np.cumsum(counts)
    absences = [by_line[begin:end] for begin, end in zip((after - counts)[largest], after[largest], strict=True)]
    saved = [
        use.peak_bytes - _peak_without_line(use, sizes[chosen], begins[chosen], ends[chosen]) for chosen in absences
    ]
    lines = pl.DataFrame(
        {"line": largest, "saved_bytes": saved}, {"line": sites["line"].dtype, "saved_bytes": pl.Int64}
    )
    lines = lines.join(sites.unique("line", keep="first", maintain_order=True), on="line", maintain_order="left")
    lines = lines.select("site_path", call_site="site", saved_bytes="saved_bytes")
    return PoolSaving(
        device,
        pool,
        use.peak_bytes,
        peak_with_absences(use, sizes, begins, ends),
        lines.sort("saved_bytes", "site_path", descending=[True, False]),
    )


def _peak_without_line(use: MemoryUse, sizes: IntegerArray, begins: IntegerArray, ends: IntegerArray) -> int:
    """Return the peak if some blocks were absent, as `peak_with_absences` does; quicker for few of them.

    Between two ends of absences only the highest total matters.
    """
    cuts, place = np.unique(np.concatenate([begins, ends]), return_inverse=True)
    change = np.zeros(len(cuts), np.int64)
    np.add.at(change, place, np.concatenate([-sizes, sizes]))
    first = np.searchsorted(use.moments, cuts, side="right")
    highest = np.maximum.reduceat(use.in_use, np.concatenate([[0], first]))
    return max(int((highest + np.concatenate([[0], np.cumsum(change)])).max()), 0)


def coverage_of_uses(recording: Recording, uses: BlockUses) -> Coverage:
    """Return the coverage of findings about the uses of blocks."""
    coverage = coverage_of(SUBJECT, recording)
    if not uses.unknown_accesses:
        return coverage
    if coverage.is_answered and not len(uses.access_rows):
        return coverage.without_answer(["no access names a known block"])
    names = "access names" if uses.unknown_accesses == 1 else "accesses name"
    return coverage.with_limits([f"{format_count(uses.unknown_accesses)} {names} no known block: left out"])


def _index(rows: IntegerArray, end: int) -> pl.Series:
    """Return rows as indexes; null for those that are no rows."""
    return pl.Series(rows, dtype=pl.Int64).to_frame("row").select(pl.when(pl.col("row") < end).then("row"))["row"]
