"""Memory that waits for the garbage collector: objects that nothing of the program refers to but each other.

A search for holders finds such blocks while the program runs. The bytes that waited at the peak of their pool are
estimated from it. They are all live bytes of these lines at the peak, in blocks of about the same size. Those that were
alive at the search and did not wait are taken off. The searches record a part of the waiting blocks, so this errs to the
low side. A search at the end of the process does not count: with the last functions, their cycles have ended as well.

The collector tells as well, by what it frees when it begins by itself. Searches take a hundredth of the time, and may
come too late. When each object was done with is not known then, so it is said only that the collector alone freed them.
It counts where one line allocated them in several steps, without those of the last one. A search must also have found
the cycle; here one at the end counts.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.holders import IN_CYCLE
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.step_bounds import process_steps, with_steps
from msmemscope.recording.timeline import MemoryUse, blocks_in_use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.recording import Recording
    from msmemscope.recording.step_bounds import ProcessSteps

LEAST_WAITING_BYTES: Final = 1 << 20
LEAST_WAITING_SHARE: Final = 0.1
"""Of its pool's peak, that is worth a finding."""
_SIMILAR: Final = 2
"""How many times as large, or as small, blocks of one line and operator are at most that are taken for the same thing."""


@dataclasses.dataclass(frozen=True)
class WaitingCycles:
    """The memory that waited for the garbage collector in one pool of one device."""

    device: int
    pool: int
    step: int
    """The number of steps that had ended when it was found."""
    found_bytes: int
    found_blocks: int
    """That were found waiting."""
    is_collected: bool
    """Whether the garbage collector freed them then; otherwise a search found them."""
    waiting_bytes: int
    """That waited at the peak of the pool, or when it was looked for, whichever is more; of `is_collected`, what was freed."""
    site: str
    """The line that allocated most of it."""
    cycle: str
    """The way through which most of it refers to itself."""


def find_waiting_cycles(recording: Recording) -> tuple[WaitingCycles, ...]:
    """Find memory that waited for the garbage collector while the program went on.

    Args:
        recording: Of a process whose holders were looked for, and whose collections were noted.

    Returns: By device and pool; only those that are worth a finding.
    """
    noted = _found_in_cycles(recording)
    bounds = process_steps(recording)
    if not bounds.ended:
        return ()
    blocks = recording.blocks.join(noted, on="malloc_sequence", maintain_order="left")
    placed = with_steps(blocks, bounds).with_columns(
        at_step=pl.Series(bounds.shared.ends_before(blocks["noted"].to_numpy()))
    )
    waiting = placed.filter(pl.col("at_step") < pl.col("ended"))
    found = [_of_pool(recording, part) for part in waiting.partition_by("device", "pool", maintain_order=True)]
    by_pool = {(one.device, one.pool): one for one in found if one is not None}
    for one in _collected(recording, bounds, noted):
        by_pool.setdefault((one.device, one.pool), one)
    return tuple(by_pool.values())


def _found_in_cycles(recording: Recording) -> pl.DataFrame:
    """The blocks that a search has found in a cycle: `malloc_sequence`, `noted` and `chain`, the first search of each."""
    names = recording.strings.select(name_id="id", chain="text")
    return (
        recording.events.filter(pl.col("kind") == EventKind.HOLDER)
        .select("name_id", noted="sequence", malloc_sequence="extra")
        .join(names, on="name_id")
        .filter(pl.col("chain").str.contains(IN_CYCLE, literal=True))
        .sort("noted")
        .unique("malloc_sequence", keep="first", maintain_order=True)
    )


def _of_pool(recording: Recording, waiting: pl.DataFrame) -> WaitingCycles | None:
    device, pool = waiting.select("device", "pool").row(0)
    everything = recording.blocks.filter((pl.col("device") == device) & (pl.col("pool") == pool))
    # The search that found the most: from when a block is found waiting, it waits until it is freed.
    moment = MemoryUse.of(waiting.with_columns(malloc_sequence=pl.col("noted"))).peak_moment
    sites = call_sites(recording, everything)
    then = blocks_in_use(waiting.filter(pl.col("noted") <= moment), moment)
    then = then.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")
    same = _similar(everything.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left"), then)
    found_bytes = int(then["size"].sum())
    needed = int(blocks_in_use(same, moment)["size"].sum()) - found_bytes
    use = MemoryUse.of(everything)
    at_peak = int(blocks_in_use(same, use.peak_moment)["size"].sum()) - needed
    bytes_waiting = max(at_peak, found_bytes)
    if bytes_waiting < max(LEAST_WAITING_BYTES, LEAST_WAITING_SHARE * use.peak_bytes):
        return None
    by_site = then.group_by("site").agg(pl.col("size").sum()).sort("size", "site")
    cycles = then.with_columns(cycle=pl.col("chain").str.split(IN_CYCLE).list.last())
    by_cycle = cycles.group_by("cycle").agg(pl.col("size").sum()).sort("size", "cycle")
    return WaitingCycles(
        device,
        pool,
        int(then["at_step"].sort()[-1]),
        found_bytes,
        then.height,
        is_collected=False,
        waiting_bytes=bytes_waiting,
        site=by_site["site"][-1] or "",
        cycle=by_cycle["cycle"][-1],
    )


def _collected(recording: Recording, bounds: ProcessSteps, noted: pl.DataFrame) -> Iterator[WaitingCycles]:
    """The blocks that the collector freed at once, the most of each pool, without the newest of each line.

    Args:
        recording: Of a process with steps.
        bounds: Its steps.
        noted: By `_found_in_cycles`; one of the same line tells the cycle.
    """
    events = recording.events
    freed = events.filter(pl.col("kind") == EventKind.FREE, (pl.col("flags") & int(EventFlag.COLLECTED)) != 0)
    if freed.is_empty():
        return
    # While the collector works its thread allocates nothing: what is freed between two allocations goes together.
    allocations = events.filter(pl.col("kind") == EventKind.MALLOC)["sequence"]
    freed = freed.select(
        malloc_sequence="extra", freed="sequence", collection=allocations.search_sorted(freed["sequence"], side="left")
    )
    blocks = recording.blocks.join(freed, on="malloc_sequence", maintain_order="left")
    blocks = blocks.join(call_sites(recording, blocks), on=STACK_COLUMNS, how="left", maintain_order="left")
    together = ["device", "pool", "collection", "site_path", "name"]
    blocks = blocks.with_columns(step=pl.Series(bounds.shared.ends_before(blocks["malloc_sequence"].to_numpy())))
    waiting = blocks.filter(pl.col("step") < pl.col("step").max().over(together))
    for (device, pool), of_pool in waiting.partition_by("device", "pool", as_dict=True, maintain_order=True).items():
        most = of_pool.group_by("collection").agg(pl.col("size").sum()).sort("size", "collection")["collection"][-1]
        then = of_pool.filter(pl.col("collection") == most)
        size = int(then["size"].sum())
        everything = recording.blocks.filter((pl.col("device") == device) & (pl.col("pool") == pool))
        if size < max(LEAST_WAITING_BYTES, LEAST_WAITING_SHARE * MemoryUse.of(everything).peak_bytes):
            continue
        by_site = then.group_by("site", "site_path").agg(pl.col("size").sum()).sort("size", "site")
        cycle = _cycle_of(recording, noted, by_site["site_path"][-1])
        if not cycle:
            continue
        yield WaitingCycles(
            device,
            pool,
            int(bounds.shared.ends_before(then["freed"].to_numpy()).max()),
            size,
            then.height,
            is_collected=True,
            waiting_bytes=size,
            site=by_site["site"][-1] or "",
            cycle=cycle,
        )


def _cycle_of(recording: Recording, noted: pl.DataFrame, site_path: str) -> str:
    """The way through which blocks of a line refer to themselves, as any search found it; empty if none has."""
    found = recording.blocks.join(noted, on="malloc_sequence", maintain_order="left")
    found = found.join(call_sites(recording, found), on=STACK_COLUMNS, how="left", maintain_order="left")
    found = found.filter(pl.col("site_path") == site_path)
    cycles = found.with_columns(cycle=pl.col("chain").str.split(IN_CYCLE).list.last())
    by_cycle = cycles.group_by("cycle").agg(pl.col("size").sum()).sort("size", "cycle")["cycle"]
    return str(by_cycle[-1]) if len(by_cycle) else ""


def _similar(blocks: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Return the blocks that were allocated as some others were, by line, operator and about the size."""
    made = ["site_path", "name"]
    sizes = found.group_by(made).agg(smallest=pl.col("size").min(), largest=pl.col("size").max())
    of_lines = blocks.join(sizes, on=made, nulls_equal=True, maintain_order="left")
    return of_lines.filter(pl.col("size").is_between(pl.col("smallest") / _SIMILAR, pl.col("largest") * _SIMILAR))
