"""The cause of an allocation that failed for lack of memory, decided by what is missing, who has it, and what came last.

An allocator asks the driver when nothing in its reserve fits, and gives its empty segments back before it asks for the
last time. So at the last attempt: the device has `capacity` bytes, of which `used` are in use by anybody; of the reserve of
the pools `slack` bytes lie in gaps that do not fit. The step needs `need` bytes of the pools in full, which is at least what
is in use and the request (see `comparison`). Closing the gaps lets the step finish if `used - slack + need - in use` does
not exceed the capacity: nothing else is fragmentation. The causes, in the order in which they are looked at:

0. room that was not looked for: a free block would have held the request, and the allocator did not search again (`refusal`);
1. pinned memory of the host: the driver refused memory of the host, or pinned memory has the most of it;
2. a leak, or a cache that grows with every step: without what has come since the first step, the step would finish;
3. a configured limit: torch refused by itself and no driver was asked;
4. what has come since the last good step, if that would have let the step finish: the larger of copies for a checkpoint,
   state of the optimizer, a workspace, a model that is being made, and a batch that needs more than those before it;
5. fragmentation: a gap that would have held the request belongs to another stream; or small blocks that live long pin
   large segments; or segments are split;
6. it cannot be told: the device said that it had enough, and the driver refused nevertheless;
7. another process, or memory of the driver that is no pool's and has grown: the larger of the two, if it is at least what
   is missing and at least LEAST_SHARE of the device, since the system itself and modules of the driver keep some of it;
8. a real shortage: what is left.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.fragmentation.fragmentation import Fragmentation, find_fragmentation
from msmemscope.analysis.peak.cause_words import (
    Cause,
    MemoryFigures,
    Remedy,
    advice_of,
    missing_figures,
    next_command_of,
    remedy_of,
    sentence_of,
    verdict_of,
)
from msmemscope.analysis.peak.comparison import Circumstances, Contribution, StepComparison, circumstances
from msmemscope.analysis.peak.refusal import Refusal, find_refusal
from msmemscope.model.events import EventKind
from msmemscope.model.owners import PROGRAM_MODULE
from msmemscope.model.pools import POOLS_WITH_RESERVE, Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.driver_owners import driver_owners
from msmemscope.recording.failed_allocations import SnapshotFigures, failed_attempts, granted_pieces
from msmemscope.recording.pool_segments import pool_segments, reported_reserves
from msmemscope.recording.timeline import blocks_in_use

if TYPE_CHECKING:
    from msmemscope.recording import Recording

LEAST_SHARE: Final = 1 / 16
"""Of a device: what others hold below that is no cause, whatever is missing."""


PINNING_SHARE: Final = 1 / 8
"""Of the segments with gaps: blocks that have less of them pin them, others split them."""
_LEAST_MODEL: Final = 3 / 4
"""Of what is in use: what a model has at least that is too large by itself."""


@dataclasses.dataclass(frozen=True)
class OutOfMemoryCause:
    """Why an allocation failed."""

    sequence: int
    """The event of its last attempt."""
    cause: Cause
    remedy: Remedy
    site: str
    """The line of the program to look at; the operator if there is no such line, empty if nothing is known."""
    verdict: str
    """One line: the cause in a few words, bytes, device, step and line."""
    sentence: str
    """The cause with the figures that decided it."""
    advice: str
    """What can be done, one sentence."""
    next_command: str
    """What to type next, without a path where that is the one of the recording; empty if there is nothing to type."""
    figures: MemoryFigures
    step: int
    """The step that failed, 0 before the first and without steps."""
    comparison: StepComparison | None
    """With the last good step; None without one."""
    missing: tuple[str, ...]
    """Figures that are not known, one line each."""
    refusal: Refusal | None = None
    """How the caching allocator came to refuse it; None where there is none, or its segments are not known."""


def find_cause(
    recording: Recording, sequence: int, blocks: pl.DataFrame | None = None, gaps: Fragmentation | None = None
) -> OutOfMemoryCause:
    """Find out why memory ran out.

    Args:
        recording: Any with an OOM event.
        sequence: Number of that event, of the last attempt if there were several.
        blocks: Those of the recording with an `owner` each, if the caller has them.
        gaps: What `find_fragmentation` found at that event on its device, likewise.

    Raises:
        ValueError: no OOM event has this number.
    """
    failure = _failure(recording, sequence)
    if gaps is None and failure["device"] >= 0:
        gaps = find_fragmentation(recording, sequence, device=failure["device"])
    figures = memory_figures(recording, sequence, recording.blocks if blocks is None else blocks, gaps)
    found = circumstances(recording, failure, figures.request_bytes)
    refusal = find_refusal(recording, failure, gaps) if gaps is not None else None
    overlooked = refusal.overlooked_bytes if refusal is not None else 0
    figures = dataclasses.replace(figures, need_bytes=found.need_bytes, overlooked_bytes=overlooked)
    cause, figures, site = _decide(figures, found, gaps)
    return OutOfMemoryCause(
        sequence=sequence,
        cause=cause,
        remedy=remedy_of(cause, figures),
        site=site,
        verdict=verdict_of(cause, figures, found.step, site),
        sentence=sentence_of(cause, figures, found.comparison),
        advice=advice_of(cause, figures),
        next_command=next_command_of(cause, figures),
        figures=figures,
        step=found.step,
        comparison=found.comparison,
        missing=missing_figures(figures),
        refusal=refusal,
    )


def _failure(recording: Recording, sequence: int) -> dict[str, Any]:
    found = failed_attempts(recording).filter(pl.col("sequence") == sequence)
    if found.is_empty():
        message = f"sequence: {sequence} is no event of an allocation that failed for lack of memory"
        raise ValueError(message)
    return found.row(0, named=True)


def memory_figures(
    recording: Recording, sequence: int, blocks: pl.DataFrame, gaps: Fragmentation | None = None
) -> MemoryFigures:
    """Collect what the cause of an OOM event is decided by; arguments and errors as for `find_cause`."""
    events = recording.events
    failure = _failure(recording, sequence)
    device = failure["device"]
    function = failure["function"]
    on_device = blocks.filter(pl.col("device") == device)
    alive = blocks_in_use(on_device, sequence)
    pooled = alive.filter(pl.col("pool") != Pool.HAL)
    driver = alive.filter(pl.col("pool") == Pool.HAL)
    granted = granted_pieces(recording, failure, driver)
    driver = driver.join(granted, on="malloc_sequence", how="anti", maintain_order="left")
    pending = int(granted["size"].sum())
    in_use = int(pooled["size"].sum())
    state = SnapshotFigures.of_failure(recording, failure)
    has_blocks = not on_device.is_empty()
    if not has_blocks and state.allocated_bytes is not None:
        in_use = state.allocated_bytes  # nobody recorded its blocks, as on CUDA devices
    used_by_all, used_by_process = _usage(events, sequence, device)
    if state.total_bytes is not None and state.free_bytes is not None:
        # The snapshot is taken inside the failure; the management interface was asked when memory of the driver changed.
        used_by_all = state.total_bytes - state.free_bytes
    known_driver = int(driver["size"].sum()) if device >= 0 and not driver.is_empty() else None
    pinned = driver if device < 0 else driver.clear()
    figures = MemoryFigures(
        device=device,
        function=function,
        request_bytes=int(failure["size"]) + pending,
        in_use_bytes=in_use,
        capacity_bytes=state.total_bytes,
        device_used_bytes=None if used_by_all is None else max(used_by_all - pending, 0),
        pinned_bytes=int(pinned["size"].sum()),
        process_bytes=known_driver if used_by_process is None else max(used_by_process - pending, 0),
    )
    if device < 0:
        return figures
    if not has_blocks:
        return dataclasses.replace(figures, reserved_bytes=state.reserved_bytes)
    known_gaps = find_fragmentation(recording, sequence, device=device) if gaps is None else gaps
    return _with_reserve(figures, recording, known_gaps, (on_device, driver))


def _with_reserve(
    figures: MemoryFigures, recording: Recording, gaps: Fragmentation, blocks: tuple[pl.DataFrame, pl.DataFrame]
) -> MemoryFigures:
    """Adds what the pools hold, and what of the driver's memory they do not.

    Args:
        figures: Without it.
        recording: Of the process.
        gaps: On the device, at the failure.
        blocks: All of the device, and those of the driver that are alive.
    """
    on_device, driver = blocks
    of_pools = on_device.filter(pl.col("pool").is_in(POOLS_WITH_RESERVE))
    first = of_pools["malloc_sequence"].min()
    is_reserve = pool_segments(driver, on_device, recording.events.filter(pl.col("device") == figures.device))
    # Pools tell what they hold when they hand out a block: at a failure that is out of date, the driver's blocks are not.
    reserved: int | None = int(driver.filter(is_reserve)["size"].sum())
    if reserved is not None and reserved < figures.in_use_bytes:
        reported = reported_reserves(recording.events, figures.device, gaps.sequence)["reserved_bytes"]
        reserved = int(reported.sum()) if len(reported) else None
    is_placed = not gaps.totals.is_empty() and gaps.totals["unplaced_bytes"][0] == 0
    outside = driver.clear() if first is None else driver.filter(~is_reserve)
    modules = recording.attributes.select("attribute_id", "module")
    outside = outside.join(modules, on="attribute_id", how="left", maintain_order="left").with_columns(
        owner=pl.coalesce("owner", driver_owners(pl.col("module"), figures.device))
    )
    is_own = pl.col("module").eq_missing(pl.lit(PROGRAM_MODULE))
    grown = outside.filter((pl.col("malloc_sequence") > first) | is_own) if first is not None else outside
    owner = _largest(grown, "owner")
    sites = call_sites(recording, grown)
    of_owner = grown.filter(pl.col("owner") == owner).join(sites, on=STACK_COLUMNS, how="left")
    return dataclasses.replace(
        figures,
        reserved_bytes=reserved,
        largest_gap_bytes=gaps.largest_gap_bytes if is_placed else None,
        outside_bytes=None if driver.is_empty() else int(outside["size"].sum()),
        outside_growth_bytes=None if driver.is_empty() else int(grown["size"].sum()),
        outside_owner=owner,
        outside_site=_largest(of_owner, "site"),
    )


def _largest(blocks: pl.DataFrame, column: str) -> str:
    """Returns the value of a column that most bytes have; empty for none."""
    sums = blocks.drop_nulls(column).group_by(column).agg(pl.col("size").sum())
    return str(sums.sort("size", column, descending=[True, False])[column][0]) if len(sums) else ""


def _usage(events: pl.DataFrame, sequence: int, device: int) -> tuple[int | None, int | None]:
    """Returns what the management interface said last before an event: in use by anybody, and by this process."""
    is_reported = (pl.col("kind") == EventKind.DEVICE_USAGE) & (pl.col("device") == device)
    reported = events.filter(is_reported & (pl.col("sequence") <= sequence)).tail(1)
    if reported.is_empty():
        return None, None
    by_all, by_process = int(reported["size"][0]), int(reported["extra"][0])
    return (by_all if by_all >= 0 else None), (by_process if by_process < 1 << 63 else None)


def _decide(
    figures: MemoryFigures, found: Circumstances, gaps: Fragmentation | None
) -> tuple[Cause, MemoryFigures, str]:
    """Returns the cause, the figures with what its kind of use has, and its line."""
    if figures.overlooked_bytes:
        return Cause.NOT_SEARCHED, figures, found.site
    if figures.device < 0 and _is_pinned(figures):
        return Cause.PINNED_HOST, figures, found.site
    growing = [(Cause.LEAK, found.leak), (Cause.KV_CACHE, found.cache)]
    grown = max(((cause, one) for cause, one in growing if one is not None), key=_size, default=None)
    # What grows with every step exhausts any memory: gaps only decide in which step.
    if grown is not None and grown[1].size_bytes >= _lacking(figures):
        return _blamed(figures, *grown)
    if figures.function.startswith("torch."):
        return Cause.LIMIT, figures, found.site
    recent = [
        (Cause.CHECKPOINT, found.checkpoint),
        (Cause.OPTIMIZER_STATE, found.optimizer),
        (Cause.WORKSPACE, found.workspace),
        (Cause.MODEL_TOO_LARGE, found.model),
        (Cause.BATCH_JUMP, found.batch),
    ]
    come = _largest_contribution(figures, [(cause, one) for cause, one in recent if one is not None])
    if come is not None:
        return _blamed(figures, *come)
    cut_up = _cut_up(figures, gaps)
    if cut_up is not None:
        return cut_up[0], figures, cut_up[1] or found.site
    missing, free = figures.missing_bytes, figures.free_bytes
    if missing is None or free is None or free >= figures.request_bytes:
        return Cause.UNKNOWN, figures, found.site
    others = {
        Cause.OTHER_PROCESS: figures.other_bytes or 0,
        Cause.OUTSIDE_FRAMEWORK: figures.outside_growth_bytes or 0,
    }
    largest = max(others, key=lambda cause: others[cause])
    # What exceeds the whole device is too much, whoever else is there.
    is_possible = figures.request_bytes <= (figures.capacity_bytes or 0)
    if others[largest] >= max(missing, (figures.capacity_bytes or 0) * LEAST_SHARE) and is_possible:
        is_outside = largest is Cause.OUTSIDE_FRAMEWORK
        return largest, figures, figures.outside_site if is_outside and figures.outside_site else found.site
    return Cause.REAL_SHORTAGE, figures, found.site


def _lacking(figures: MemoryFigures) -> int:
    """Returns what would have to go, the gaps being what they are, so that the request is served and the step finishes."""
    missing, free = figures.missing_bytes, figures.free_bytes
    is_reported = missing is not None and free is not None and free < figures.request_bytes
    # A driver that refuses although it has enough has less than it says: how much less, nobody knows.
    return max(missing or 0, figures.request_bytes - (free or 0)) if is_reported else figures.request_bytes


def _largest_contribution(
    figures: MemoryFigures, candidates: list[tuple[Cause, Contribution]]
) -> tuple[Cause, Contribution] | None:
    """Returns the largest of those without which the step would finish; each with what it needs in full."""
    enough = []
    for cause, one in candidates:
        full = dataclasses.replace(figures, need_bytes=max(figures.need_bytes, one.need_bytes))
        # What is still to come of a model that is being made, nobody knows: gaps are not what it lacks.
        is_mostly_model = cause is Cause.MODEL_TOO_LARGE and one.size_bytes >= full.in_use_bytes * _LEAST_MODEL
        if one.size_bytes >= _lacking(full) and (is_mostly_model or not _fits_without_gaps(full)):
            enough.append((cause, one))
    return max(enough, key=_size, default=None)


def _size(candidate: tuple[Cause, Contribution]) -> int:
    return candidate[1].size_bytes


def _fits_without_gaps(figures: MemoryFigures) -> bool:
    """Whether closing the gaps lets the step finish."""
    missing, free = figures.missing_bytes, figures.free_bytes
    return missing is not None and missing <= 0 and free is not None and free < figures.request_bytes


def _blamed(figures: MemoryFigures, cause: Cause, one: Contribution) -> tuple[Cause, MemoryFigures, str]:
    need = max(figures.need_bytes, one.need_bytes)
    return cause, dataclasses.replace(figures, need_bytes=need, blamed_bytes=one.size_bytes), one.site


def _is_pinned(figures: MemoryFigures) -> bool:
    is_driver = figures.function != "posix_memalign" and not figures.function.startswith("torch.")
    pinned = figures.pinned_bytes
    return (is_driver and bool(figures.function)) or pinned > max(figures.in_use_bytes, figures.request_bytes)


def _cut_up(figures: MemoryFigures, gaps: Fragmentation | None) -> tuple[Cause, str] | None:
    """Returns which fragmentation it is, and the line that holds the gaps; None if closing them would not be enough."""
    slack, missing, request = figures.slack_bytes or 0, figures.missing_bytes, figures.request_bytes
    largest = figures.largest_gap_bytes
    is_enough = missing <= 0 if missing is not None else slack >= request
    if not is_enough or slack <= 0 or (figures.free_bytes or 0) >= request:
        return None
    pinned = gaps.pinned() if gaps is not None else None
    if pinned is None or pinned.is_empty():
        return Cause.SPLIT, ""
    if largest is not None and largest >= request:
        held = pinned.filter(pl.col("largest_gap_bytes") >= request)
        return Cause.OTHER_STREAM, (held if len(held) else pinned)["pin_site"][0] or ""
    in_use, size = int(pinned["in_use_bytes"].sum()), int(pinned["size"].sum())
    is_pinned = in_use < PINNING_SHARE * size
    return (Cause.PINNED_SEGMENTS if is_pinned else Cause.SPLIT), _largest_holder(pinned)


def _largest_holder(pinned: pl.DataFrame) -> str:
    sums = pinned.drop_nulls("pin_site").group_by("pin_site").agg(pl.col("free_bytes").sum())
    return str(sums.sort("free_bytes", "pin_site", descending=[True, False])["pin_site"][0]) if len(sums) else ""
