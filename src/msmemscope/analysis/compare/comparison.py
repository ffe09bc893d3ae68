"""Two runs, or two steps, side by side: operator by operator or kernel by kernel, and their peaks.

The sequences of names of each device are aligned so that as few elements as possible stay without a partner (Myers'
algorithm, see native/offline/alignment). The net changes of memory of elements are compared, see `memory_changes`.
Changes outside of elements are one row per device, so that all differences sum to that of the totals.

Whole runs have a resident host memory, too. Its parts at the two peaks are put beside each other.

Peaks are explained by the blocks that are in use at them, summed by operator and call site. These differences sum to
that of the peaks.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope import _native
from msmemscope.analysis.compare.host_parts import HOST_PART_SCHEMA, compare_host_parts
from msmemscope.analysis.compare.same_sites import same_sites
from msmemscope.analysis.coverage import Coverage, comparison_coverage
from msmemscope.analysis.host.host_ledger import account_for_host
from msmemscope.analysis.operators.memory_changes import WHOLE_RECORDING, find_memory_changes
from msmemscope.configuration import Level
from msmemscope.errors import UsageError
from msmemscope.model.devices import names_of
from msmemscope.model.events import EventKind
from msmemscope.model.pools import FRAMEWORK_POOLS
from msmemscope.recording.call_sites import NO_CALL_SITE, STACK_COLUMNS, UNKNOWN_SITES, call_sites
from msmemscope.recording.timeline import blocks_in_use
from msmemscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from msmemscope.analysis.operators.memory_changes import IntegerArray
    from msmemscope.recording import Recording

COMPARISON_SCHEMA: Final = pl.Schema(
    {
        "event": pl.String(),
        "name": pl.String(),
        "device": pl.Int16(),
        "base_bytes": pl.Int64(),
        "compare_bytes": pl.Int64(),
        "difference_bytes": pl.Int64(),
        "base_sequence": pl.UInt64(),
        "compare_sequence": pl.UInt64(),
        "site": pl.String(),
    }
)
"""One row per pair, and per element without a partner; by device, each in the order of both runs.

base_bytes, compare_bytes: net change of memory; null where the run lacks the element.
difference_bytes: compare minus base, an element that is missing counting 0.
base_sequence, compare_sequence: of the events that begin the elements; null likewise.
site: line of the program that the larger side's memory comes from.
"""

PART_SCHEMA: Final = pl.Schema(
    {
        "name": pl.String(),
        "device": pl.Int16(),
        "site": pl.String(),
        "base_bytes": pl.Int64(),
        "compare_bytes": pl.Int64(),
        "difference_bytes": pl.Int64(),
        "base_count": pl.UInt32(),
        "compare_count": pl.UInt32(),
    }
)
"""One row per operator and call site whose blocks are in use at a peak; by device, the largest differences first.

name: of the operator that allocated them, null for none.
base_bytes, compare_bytes: the bytes that they hold, 0 for nothing; `_count` blocks.
difference_bytes: compare minus base; those of a device sum to the difference of its peaks.
"""

MOST_STEPS: Final = 1 << 17
"""Differences within one stretch after which alignment is cut short; some seconds of work."""


@dataclasses.dataclass(frozen=True)
class DevicePeak:
    """The most that pools of frameworks held on a device, in both runs."""

    device: int
    base_bytes: int
    compare_bytes: int

    @property
    def difference_bytes(self) -> int:
        """How much more the second run took."""
        return self.compare_bytes - self.base_bytes

    @property
    def ratio(self) -> float:
        """The difference in parts of the first run's peak; infinite where that was nothing."""
        if self.difference_bytes == 0:
            return 0.0
        return self.difference_bytes / self.base_bytes if self.base_bytes else float("inf")


@dataclasses.dataclass(frozen=True)
class Remainder:
    """The change of memory on a device that belongs to no operator or kernel, in both runs."""

    device: int
    base_bytes: int
    compare_bytes: int

    @property
    def difference_bytes(self) -> int:
        """How much more it is in the second run."""
        return self.compare_bytes - self.base_bytes


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How two runs differ."""

    rows: pl.DataFrame
    """COMPARISON_SCHEMA."""
    peaks: tuple[DevicePeak, ...]
    """By device."""
    peak_parts: pl.DataFrame
    """PART_SCHEMA: the parts of the peaks."""
    host_parts: pl.DataFrame
    """HOST_PART_SCHEMA: their sums are the peaks of resident host memory. Empty for a step, and where a run has no figures."""
    remainders: tuple[Remainder, ...]
    """By device; empty where operators and kernels were compared at once, because changes belong to both."""
    remarks: tuple[str, ...]
    """Notes that are needed to judge the result, one line each."""
    coverage: Coverage
    """The coverage of the answer."""

    @property
    def host_bytes(self) -> tuple[int, int] | None:
        """The peaks of resident host memory in both runs; None where they are not known."""
        if self.host_parts.is_empty():
            return None
        return int(self.host_parts["base_bytes"].sum()), int(self.host_parts["compare_bytes"].sum())

    def to_polars(self) -> pl.DataFrame:
        """Return the rows."""
        return self.rows


def compare(
    base: Recording,
    other: Recording,
    levels: AbstractSet[Level] = frozenset({Level.OP}),
    *,
    base_step: int | None = None,
    other_step: int | None = None,
) -> Comparison:
    """Compare two runs.

    Args:
        base: The run that is compared against.
        other: The run that may be different.
        levels: Compare operators, launches of kernels, or both in one sequence.
        base_step: Only this step of the first; a step is that of `store.steps`.
        other_step: Only this step of the second.

    Raises:
        UsageError: One of the two has no such step.
    """
    sides = [_Side(recording, levels, step) for recording, step in ((base, base_step), (other, other_step))]
    peak_parts = [side.peak_parts() for side in sides]
    is_whole = base_step is None and other_step is None
    ledgers = [account_for_host(recording) for recording in (base, other)] if is_whole else []
    host_sites = [ledger.lines["site"] for ledger in ledgers] or [pl.Series(dtype=pl.String)] * 2
    known = [
        {site for table in (side.sites(), parts["site"], of_host) for site in table if site is not None}
        for side, parts, of_host in zip(sides, peak_parts, host_sites, strict=True)
    ]
    same = same_sites(base, other, *known)
    sides[0].rename_sites(same.names)
    peak_parts[0] = peak_parts[0].with_columns(pl.col("site").replace(same.names))
    devices = sorted(set().union(*(side.devices() for side in sides)), key=lambda device: (device < 0, device))
    remarks = []
    if same.moved:
        sites = (
            "1 call site stands in another line" if same.moved == 1 else f"{same.moved} call sites stand in other lines"
        )
        remarks.append(f"{sites} than in base: lines are those of compare")
    parts = [COMPARISON_SCHEMA.to_frame()]
    for device in devices:
        rows, is_longest = _aligned(*(side.rows(device) for side in sides))
        parts.append(rows)
        if not is_longest:
            remarks.append(f"device {device}: the runs differ so much that elements may have been paired otherwise")
    peaks = tuple(DevicePeak(device, *(side.peak(device) for side in sides)) for device in devices)
    remainders = tuple(Remainder(device, *(side.remainder(device) for side in sides)) for device in devices)
    if Level.KERNEL in levels:
        remarks += [
            line
            for word, side in zip(("base", "compare"), sides, strict=True)
            for line in queue_remarks(side.recording, word)
        ]
    coverage = comparison_coverage({word: side.coverage for word, side in zip(("base", "compare"), sides, strict=True)})
    return Comparison(
        pl.concat(parts),
        peaks,
        _peak_parts(*peak_parts),
        compare_host_parts(ledgers[0], ledgers[1], same.names) if ledgers else HOST_PART_SCHEMA.to_frame(),
        remainders if len(levels) == 1 else (),
        tuple(remarks),
        coverage,
    )


def queue_remarks(recording: Recording, word: str) -> list[str]:
    """Say where kernels are launched by a thread of a queue: their order among allocations is a matter of chance.

    Args:
        recording: One run.
        word: Its name.
    """
    events = recording.events.lazy().select("kind", "thread_id", "device")
    launches = events.filter(pl.col("kind") == EventKind.KERNEL_LAUNCH)
    working = events.filter(pl.col("kind").is_in([EventKind.MALLOC, EventKind.ATEN_START, EventKind.ATB_START]))
    queued = launches.join(working, on="thread_id", how="anti").select(pl.len(), pl.col("device").min()).collect()
    count, device = queued.row(0)
    # Without any allocation by the program itself nothing is known of its threads.
    if not count or working.select(pl.len()).collect().item() == 0:
        return []
    variable = names_of(device).queue_variable
    hint = f"; record with {variable}=0" if variable else ""
    line = (
        f"{word}: a thread of its own launched {format_count(count)} of the kernels late: their steps and allocations are "
        f"approximate{hint}"
    )
    return [line]


class _Side:
    """One of the two, cut to a step if one was named."""

    def __init__(self, recording: Recording, levels: AbstractSet[Level], step: int | None) -> None:
        begin, end = _bounds(recording, step)
        changes = find_memory_changes(recording, levels, bounds=(begin, end))
        self.recording = recording
        self.coverage = changes.coverage
        rows = changes.rows
        stacks = rows.select("python_stack_id").with_columns(
            native_stack_id=pl.lit(0, dtype=pl.UInt32), name_id=pl.lit(0, dtype=pl.UInt32)
        )
        sites = call_sites(recording, stacks).select("python_stack_id", "site")
        self._rows = rows.join(sites, on="python_stack_id", how="left", maintain_order="left").with_columns(
            pl.col("site").replace(NO_CALL_SITE, None)
        )
        # Blocks in use when the step began are part of its peak.
        before = changes.totals.filter(pl.col("sequence") < begin).group_by("device").agg(pl.all().last())
        inside = changes.totals.filter(pl.col("sequence").is_between(begin, end))
        moments = pl.concat([before, inside.select(before.columns)]) if not before.is_empty() else inside
        highest = moments.group_by("device").agg(
            pl.col("total_bytes").max(), pl.col("sequence").sort_by("total_bytes", descending=True).first()
        )
        self._peaks = {device: (total, sequence) for device, total, sequence in highest.iter_rows()}
        changed = dict(inside.group_by("device").agg(pl.col("total_bytes").last()).iter_rows())
        started = dict(before.select("device", "total_bytes").iter_rows())
        belonging = dict(rows.group_by("device").agg(pl.col("net_bytes").sum()).iter_rows())
        self._remainders = {
            device: changed.get(device, started.get(device, 0)) - started.get(device, 0) - belonging.get(device, 0)
            for device in {*changed, *belonging}
        }

    def sites(self) -> pl.Series:
        """Return the call sites of all elements."""
        return self._rows["site"].unique()

    def rename_sites(self, names: Mapping[str, str]) -> None:
        """Give call sites their names in the other run."""
        self._rows = self._rows.with_columns(pl.col("site").replace(names))

    def devices(self) -> set[int]:
        """Return the devices that anything happened on."""
        return {*self._rows["device"].to_list(), *self._peaks}

    def rows(self, device: int) -> pl.DataFrame:
        """Return the elements of a device, in order."""
        return self._rows.filter(pl.col("device") == device)

    def peak(self, device: int) -> int:
        """Return the most that was in use on a device, bytes."""
        total, _ = self._peaks.get(device, (0, 0))
        return max(int(total), 0)

    def remainder(self, device: int) -> int:
        """Return the change of memory of a device that belongs to none of its elements, bytes."""
        return int(self._remainders.get(device, 0))

    def peak_parts(self) -> pl.DataFrame:
        """Return the blocks in use at the peak of each device: `device`, `name`, `site`, `bytes`, `count`."""
        pools = [int(pool) for pool in FRAMEWORK_POOLS]
        blocks = self.recording.blocks.filter(pl.col("pool").is_in(pools))
        parts = [
            blocks_in_use(blocks.filter(pl.col("device") == device), sequence)
            for device, (_, sequence) in self._peaks.items()
        ]
        alive = pl.concat([blocks.clear(), *parts])
        names = self.recording.strings.select(pl.col("id").alias("name_id"), pl.col("text").alias("name"))
        sites = call_sites(self.recording, alive).select(*STACK_COLUMNS, "site")
        found = (
            alive.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")
            .join(names, on="name_id", how="left", maintain_order="left")
            # Without a stack the site is the name once more.
            .with_columns(
                site=pl.when(pl.col("site").is_in(UNKNOWN_SITES) | (pl.col("site") == pl.col("name")))
                .then(None)
                .otherwise(pl.col("site"))
            )
            .group_by("device", "name", "site", maintain_order=True)
            .agg(pl.col("size").sum().cast(pl.Int64).alias("bytes"), pl.len().cast(pl.UInt32).alias("count"))
        )
        # The part that a damaged recording does not explain.
        explained = dict(found.group_by("device").agg(pl.col("bytes").sum()).iter_rows())
        missing = [
            (device, None, None, self.peak(device) - explained.get(device, 0), 0)
            for device in self._peaks
            if self.peak(device) != explained.get(device, 0)
        ]
        return pl.concat([found, pl.DataFrame(missing, found.schema, orient="row")])


def _peak_parts(base: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Put the parts of both sides beside each other."""
    key = ["device", "name", "site"]
    nothing = pl.lit(0, dtype=pl.Int64)
    none = pl.lit(0, dtype=pl.UInt32)
    return (
        pl.concat(
            [
                base.select(
                    *key,
                    pl.col("bytes").alias("base_bytes"),
                    nothing.alias("compare_bytes"),
                    pl.col("count").alias("base_count"),
                    none.alias("compare_count"),
                ),
                other.select(
                    *key,
                    nothing.alias("base_bytes"),
                    pl.col("bytes").alias("compare_bytes"),
                    none.alias("base_count"),
                    pl.col("count").alias("compare_count"),
                ),
            ]
        )
        .group_by(key, maintain_order=True)
        .agg(pl.col("base_bytes", "compare_bytes", "base_count", "compare_count").sum())
        .with_columns(difference_bytes=pl.col("compare_bytes") - pl.col("base_bytes"))
        .sort("device", pl.col("difference_bytes").abs(), descending=[False, True], maintain_order=True)
        .select(PART_SCHEMA.names())
        .cast(PART_SCHEMA)
    )


def _bounds(recording: Recording, step: int | None) -> tuple[int, int]:
    _, last = WHOLE_RECORDING
    if step is None:
        return WHOLE_RECORDING
    table = recording.steps
    chosen = table.filter(pl.col("number") == step)
    if chosen.is_empty():
        message = f"{recording.source} has no such step"
        numbers = sorted(set(table["number"].to_list()))
        accepted = f"{numbers[0]} to {numbers[-1]}" if numbers else "it has no steps at all"
        raise UsageError(message, option="--input", value=f"step={step}", accepted=accepted)
    return int(chosen["begin_sequence"][0]), int(chosen["end_sequence"].fill_null(last)[0])


def _aligned(base: pl.DataFrame, other: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Pair the elements of one device.

    Returns:
        A table of COMPARISON_SCHEMA, and whether no better pairing exists.
    """
    keys = pl.concat([side.select(pl.concat_str("event", pl.lit(" "), "name").alias("key")) for side in (base, other)])
    numbers = keys["key"].rank("dense").cast(pl.UInt32).fill_null(0).to_numpy()
    found, is_longest = _native.align(
        np.ascontiguousarray(numbers[: base.height], np.uint32).tobytes(),
        np.ascontiguousarray(numbers[base.height :], np.uint32).tobytes(),
        MOST_STEPS,
    )
    partners = np.frombuffer(found, np.int64)
    pairs = np.flatnonzero(partners >= 0)
    has_partner = np.zeros(other.height, np.bool_)
    has_partner[partners[pairs]] = True
    alone = (np.flatnonzero(partners < 0), np.flatnonzero(~has_partner))
    # A stretch lies before a pair: the base's elements without partners, the other's, then the pair.
    stretch = np.concatenate(
        [
            np.arange(len(pairs)),
            np.searchsorted(pairs, alone[0]),
            np.searchsorted(partners[pairs], alone[1]),
        ]
    )
    place = np.concatenate([np.full(len(pairs), 2), np.zeros(len(alone[0])), np.ones(len(alone[1]))])
    nothing = (np.full(len(alone[1]), -1), np.full(len(alone[0]), -1))
    in_base = np.concatenate([pairs, alone[0], nothing[0]]).astype(np.int64)
    in_other = np.concatenate([partners[pairs], nothing[1], alone[1]]).astype(np.int64)
    order = np.lexsort((np.maximum(in_base, in_other), place, stretch))
    columns = [_taken(base, in_base[order], "base"), _taken(other, in_other[order], "compare")]
    both = pl.concat(columns, how="horizontal")
    is_compare_larger = pl.col("compare_bytes").abs().fill_null(-1) >= pl.col("base_bytes").abs().fill_null(-1)
    rows = both.select(
        pl.coalesce("base_event", "compare_event").alias("event"),
        pl.coalesce("base_name", "compare_name").alias("name"),
        pl.coalesce("base_device", "compare_device").alias("device"),
        "base_bytes",
        "compare_bytes",
        (pl.col("compare_bytes").fill_null(0) - pl.col("base_bytes").fill_null(0)).alias("difference_bytes"),
        "base_sequence",
        "compare_sequence",
        pl.when(is_compare_larger)
        .then(pl.coalesce("compare_site", "base_site"))
        .otherwise(pl.coalesce("base_site", "compare_site"))
        .alias("site"),
    )
    return rows.cast(COMPARISON_SCHEMA), bool(is_longest)


def _taken(side: pl.DataFrame, places: IntegerArray, prefix: str) -> pl.DataFrame:
    """Return the elements at some places, a row of nulls for -1."""
    index = pl.Series(places).set(pl.Series(places) < 0, None)
    chosen = side.select("event", "name", "device", pl.col("net_bytes").alias("bytes"), "sequence", "site")
    return chosen.select(pl.all().gather(index)).rename(lambda name: f"{prefix}_{name}")
