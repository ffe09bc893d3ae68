"""Two runs, or two steps, side by side: operator by operator or kernel by kernel, and their peaks.

The sequences of names of each device are aligned so that as few elements as possible stay without a partner (Myers'
algorithm, see native/offline/alignment). What is compared is the net change of memory of each element, see `memory_changes`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope import _native
from msmemscope.analysis.coverage import Coverage, comparison_coverage
from msmemscope.analysis.operators.memory_changes import find_memory_changes
from msmemscope.configuration import Level
from msmemscope.errors import UsageError
from msmemscope.recording.call_sites import NO_CALL_SITE, call_sites

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from msmemscope.analysis.operators.memory_changes import IntegerArray, MemoryChanges
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
class Comparison:
    """How two runs differ."""

    rows: pl.DataFrame
    """COMPARISON_SCHEMA."""
    peaks: tuple[DevicePeak, ...]
    """By device."""
    remarks: tuple[str, ...]
    """What must be known to judge the result, one line each."""
    coverage: Coverage
    """What of this is answered."""

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
        base: What is compared against.
        other: What may be different.
        levels: Compare operators, launches of kernels, or both in one sequence.
        base_step: Only this step of the first; a step is that of `store.steps`.
        other_step: Only this step of the second.

    Raises:
        UsageError: One of the two has no such step.
    """
    sides = [
        _Side(recording, find_memory_changes(recording, levels), step)
        for recording, step in ((base, base_step), (other, other_step))
    ]
    devices = sorted(set().union(*(side.devices() for side in sides)), key=lambda device: (device < 0, device))
    remarks = []
    parts = [COMPARISON_SCHEMA.to_frame()]
    for device in devices:
        rows, is_longest = _aligned(*(side.rows(device) for side in sides))
        parts.append(rows)
        if not is_longest:
            remarks.append(f"device {device}: the runs differ so much that elements may have been paired otherwise")
    peaks = tuple(DevicePeak(device, *(side.peak(device) for side in sides)) for device in devices)
    coverage = comparison_coverage({word: side.coverage for word, side in zip(("base", "compare"), sides, strict=True)})
    return Comparison(pl.concat(parts), peaks, tuple(remarks), coverage)


class _Side:
    """One of the two, cut to a step if one was named."""

    def __init__(self, recording: Recording, changes: MemoryChanges, step: int | None) -> None:
        self.coverage = changes.coverage
        begin, end = _bounds(recording, step)
        is_inside = (pl.col("sequence") >= begin) & (pl.col("sequence") <= end)
        rows = changes.rows.filter(is_inside)
        stacks = rows.select("python_stack_id").with_columns(
            native_stack_id=pl.lit(0, dtype=pl.UInt32), name_id=pl.lit(0, dtype=pl.UInt32)
        )
        sites = call_sites(recording, stacks).select("python_stack_id", "site")
        self._rows = rows.join(sites, on="python_stack_id", how="left", maintain_order="left").with_columns(
            pl.col("site").replace(NO_CALL_SITE, None)
        )
        # What was in use when the step began is part of its peak.
        before = changes.totals.filter(pl.col("sequence") < begin).group_by("device").agg(pl.col("total_bytes").last())
        inside = changes.totals.filter(is_inside).select("device", "total_bytes")
        peaks = pl.concat([before.select("device", "total_bytes"), inside]).group_by("device").max()
        self._peaks = dict(peaks.iter_rows())

    def devices(self) -> set[int]:
        """Returns the devices that anything happened on."""
        return {*self._rows["device"].to_list(), *self._peaks}

    def rows(self, device: int) -> pl.DataFrame:
        """Returns the elements of a device, in order."""
        return self._rows.filter(pl.col("device") == device)

    def peak(self, device: int) -> int:
        """Returns the most that was in use on a device, bytes."""
        return max(int(self._peaks.get(device, 0)), 0)


def _bounds(recording: Recording, step: int | None) -> tuple[int, int]:
    last = (1 << 63) - 1
    if step is None:
        return 0, last
    table = recording.steps
    chosen = table.filter(pl.col("number") == step)
    if chosen.is_empty():
        message = f"{recording.source} has no such step"
        numbers = sorted(set(table["number"].to_list()))
        accepted = f"{numbers[0]} to {numbers[-1]}" if numbers else "it has no steps at all"
        raise UsageError(message, option="--input", value=f"step={step}", accepted=accepted)
    return int(chosen["begin_sequence"][0]), int(chosen["end_sequence"].fill_null(last)[0])


def _aligned(base: pl.DataFrame, other: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Pairs the elements of one device.

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
    # A stretch is what lies before a pair: the base's elements without partners, the other's, then the pair.
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
    """Returns the elements at some places, a row of nulls for -1."""
    index = pl.Series(places).set(pl.Series(places) < 0, None)
    chosen = side.select("event", "name", "device", pl.col("net_bytes").alias("bytes"), "sequence", "site")
    return chosen.select(pl.all().gather(index)).rename(lambda name: f"{prefix}_{name}")
