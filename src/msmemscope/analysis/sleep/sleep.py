"""Memory that stays in use while a program's device memory sleeps, and its growth from one sleep to the next.

A sleep is looked at when it is complete: memory in use then stays until the program wakes it, or allocates anew. On a
device whose driver was observed, three kinds of the driver's memory stay:

- blocks of pools, without those that keep an address while the memory behind it was given back (`recording.mappings`)
- memory that the pools hold without use
- the driver's other blocks

On a device whose driver was not observed, the memory of the pools stays. Of a program that uses no accelerator, its
tensors stay.

Growth is judged from the second sleep on: by then a program has set itself up. A call site grows if its kept bytes
never fall from one sleep to the next, and rise at half of them at least.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.analysis.recorded import Need
from msmemscope.model.devices import DEVICE_CPU, device_name
from msmemscope.model.events import EventKind
from msmemscope.model.pools import POOLS_WITH_RESERVE, Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.mappings import mapped_ranges, range_rows
from msmemscope.recording.pool_segments import pool_segments, reported_reserves
from msmemscope.recording.sleep_cycles import CYCLE_SCHEMA, sleep_cycles
from msmemscope.recording.timeline import blocks_in_use

if TYPE_CHECKING:
    from msmemscope.analysis.options import QuestionOptions
    from msmemscope.recording import Recording

SUBJECT: Final = Subject("Sleep", needed=(Need.ALLOCATIONS,), helpful=(Need.FREES, Need.STACKS))
WARM_UP_CYCLES: Final = 1
"""Sleeps at the beginning that growth is not judged by."""
LEAST_CYCLES: Final = WARM_UP_CYCLES + 2
"""Sleeps that growth is judged from."""
NO_SLEEP: Final = (
    "the program put no memory to sleep: no sleep mode of vLLM was called, and no mstx range, mark or "
    'msmemscope.RecordFunction is named "sleep"'
)
NO_MAPPINGS: Final = (
    "this input does not say where memory of the driver is mapped: blocks of pools whose memory sleeps count as in use"
)
_KINDS: Final = (EventKind.MAPPED, EventKind.UNMAPPED, EventKind.RESERVED)
"""Kinds of events, beside the blocks, that say which memory stays."""
_PHYSICAL: Final = "create"
"""The attribute of blocks of the driver that have a handle in the place of an address."""
NO_BLOCKS: Final = "no memory of a device was in use, and no tensor of the cpu"

_KEY: Final = ["device", "pool", "is_reserve", "owner", "site"]
_KEY_TYPES: Final = {
    "device": pl.Int16(),
    "pool": pl.UInt8(),
    "is_reserve": pl.Boolean(),
    "owner": pl.String(),
    "site": pl.String(),
}
KEPT_SCHEMA: Final = pl.Schema({"cycle": pl.Int64(), **_KEY_TYPES, "size_bytes": pl.Int64(), "block_count": pl.Int64()})
"""One row per sleep and memory that stays in use while it lasts.

device, pool: where; the pool is the driver's for blocks that it gave to nobody's pool.
is_reserve: held by pools without use; `owner` and `site` are null, and `pool` is the driver's if several pools hold some.
owner: see `analysis.owners.ownership`. site: the call site that allocated it.
"""

DEVICE_CYCLE_SCHEMA: Final = pl.Schema(
    {**CYCLE_SCHEMA, "device": pl.Int16(), "awake_bytes": pl.Int64(), "asleep_bytes": pl.Int64()}
)
"""One row per sleep and device; see `recording.sleep_cycles.CYCLE_SCHEMA`.

awake_bytes: in use right before the sleep began. asleep_bytes: when it was complete; the sum of its rows of KEPT_SCHEMA, as far
   as it is known which memory is mapped where.
"""

SITE_SCHEMA: Final = pl.Schema(
    {
        **_KEY_TYPES,
        "first_bytes": pl.Int64(),
        "last_bytes": pl.Int64(),
        "block_count": pl.Int64(),
        "is_growing": pl.Boolean(),
        "growth_bytes_per_cycle": pl.Int64(),
    }
)
"""One row per kept memory, of KEPT_SCHEMA, that is there in the first or in the last sleep that is judged.

first_bytes, last_bytes: in these two; block_count: in the last.
is_growing: see above; false where growth is not judged. growth_bytes_per_cycle: from the first to the last, for each sleep;
   null where growth is not judged.
"""


@dataclasses.dataclass(frozen=True)
class SleepResult:
    """Memory that stays in use while memory sleeps."""

    cycles: pl.DataFrame
    """DEVICE_CYCLE_SCHEMA."""
    kept: pl.DataFrame
    """KEPT_SCHEMA, the largest of each sleep first."""
    sites: pl.DataFrame
    """SITE_SCHEMA: growing rows first, the fastest of them, then the largest."""
    judged: tuple[int, int] | None
    """The first and the last sleep that growth is judged by; None with fewer than LEAST_CYCLES."""
    coverage: Coverage
    """The coverage of the answer."""

    def to_polars(self) -> pl.DataFrame:
        """Return `sites`."""
        return self.sites

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that there is something to tell of, ascending."""
        return tuple(self.cycles["device"].unique().sort())

    @property
    def growing(self) -> pl.DataFrame:
        """Returns the rows of `sites` that grow."""
        return self.sites.filter("is_growing")

    def growth_bytes_per_cycle(self, device: int) -> int | None:
        """Return by how much all that stays on a device grows with each sleep; None where it is not judged."""
        if self.judged is None:
            return None
        first, last = self.judged
        of_device = self.cycles.filter(pl.col("device") == device)
        ends = [int(of_device.filter(pl.col("cycle") == cycle)["asleep_bytes"].sum()) for cycle in (first, last)]
        return round((ends[1] - ends[0]) / (last - first))


def examine_sleep(recording: Recording, options: QuestionOptions | None = None) -> SleepResult:
    """Work out which memory stays in use while memory sleeps, and its growth.

    Args:
        recording: Any.
        options: There are none.
    """
    del options
    coverage = coverage_of(SUBJECT, recording)
    cycles = sleep_cycles(recording)
    if cycles.is_empty():
        coverage = coverage.without_answer([*coverage.missing, NO_SLEEP])
    blocks, devices = _blocks_looked_at(recording)
    if devices.is_empty() and not cycles.is_empty():
        coverage = coverage.without_answer([*coverage.missing, NO_BLOCKS])
    if not coverage.is_answered:
        return SleepResult(
            DEVICE_CYCLE_SCHEMA.to_frame(), KEPT_SCHEMA.to_frame(), SITE_SCHEMA.to_frame(), None, coverage
        )
    unobserved = [device for device in devices if device >= 0 and not _has_driver(blocks, device)]
    coverage = coverage.with_limits(
        f"{device_name(device)}: its driver was not observed, so that memory is counted which a pool has given back while "
        "its blocks stay"
        for device in unobserved
    )
    if _lacks_mappings(recording, blocks):
        coverage = coverage.with_limits([NO_MAPPINGS])
    sites = call_sites(recording, blocks).select(*STACK_COLUMNS, "site")
    blocks = blocks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")
    events = recording.events.filter(pl.col("kind").is_in([*_KINDS]))
    tables = [KEPT_SCHEMA.to_frame()]
    totals: list[dict[str, int | None]] = []
    for cycle in cycles.iter_rows(named=True):
        before = _kept(events, blocks, max(cycle["begin_sequence"] - 1, 0))
        asleep = _kept(events, blocks, cycle["asleep_sequence"])
        tables.append(asleep.with_columns(cycle=pl.lit(cycle["cycle"], pl.Int64)))
        totals.extend(
            {
                **cycle,
                "device": device,
                "awake_bytes": _total(blocks, before, device, max(cycle["begin_sequence"] - 1, 0)),
                "asleep_bytes": _total(blocks, asleep, device, cycle["asleep_sequence"]),
            }
            for device in devices
        )
    kept = pl.concat([table.select(KEPT_SCHEMA.names()).cast(KEPT_SCHEMA) for table in tables])
    judged = (WARM_UP_CYCLES + 1, len(cycles)) if len(cycles) >= LEAST_CYCLES else None
    return SleepResult(pl.DataFrame(totals, DEVICE_CYCLE_SCHEMA), kept, growth_of(kept, len(cycles)), judged, coverage)


def growth_of(kept: pl.DataFrame, cycles: int) -> pl.DataFrame:
    """Find the memory that grows from one sleep to the next.

    Args:
        kept: KEPT_SCHEMA.
        cycles: How many sleeps there were.

    Returns:
        SITE_SCHEMA.
    """
    is_judged = cycles >= LEAST_CYCLES
    first = WARM_UP_CYCLES + 1 if is_judged else 1
    numbers = pl.DataFrame({"cycle": pl.Series(range(first, cycles + 1), dtype=pl.Int64)})
    series = (
        kept.select(_KEY)
        .unique()
        .join(numbers, how="cross")
        .join(kept, on=["cycle", *_KEY], how="left", nulls_equal=True)
        .with_columns(pl.col("size_bytes", "block_count").fill_null(0))
        .sort("cycle")
    )
    change = pl.col("size_bytes").diff().drop_nulls()
    rises = change.filter(change > 0).len()
    found = series.group_by(_KEY).agg(
        first_bytes=pl.col("size_bytes").first(),
        last_bytes=pl.col("size_bytes").last(),
        block_count=pl.col("block_count").last(),
        is_growing=pl.lit(is_judged)
        & (rises > 0)
        & (2 * rises >= change.len())
        & (change.min() >= 0).fill_null(value=False),
    )
    growth = (pl.col("last_bytes") - pl.col("first_bytes")) / max(cycles - first, 1)
    return (
        found.filter(pl.max_horizontal("first_bytes", "last_bytes") > 0)
        .with_columns(
            is_growing=pl.col("is_growing"),
            growth_bytes_per_cycle=growth.round().cast(pl.Int64) if is_judged else pl.lit(None, pl.Int64),
        )
        .select(SITE_SCHEMA.names())
        .cast(SITE_SCHEMA)
        .sort(
            "device",
            "is_growing",
            pl.when("is_growing").then("growth_bytes_per_cycle").otherwise(0),
            "last_bytes",
            "pool",
            "owner",
            "site",
            descending=[False, True, True, True, False, False, False],
        )
    )


def _total(blocks: pl.DataFrame, kept: pl.DataFrame, device: int, sequence: int) -> int:
    """Return the bytes of a device in use right after an event: the driver's blocks, else the memory that stays."""
    of_driver = blocks.filter((pl.col("device") == device) & (pl.col("pool") == Pool.HAL))
    counted = kept.filter(pl.col("device") == device)["size_bytes"]
    return int((counted if of_driver.is_empty() else blocks_in_use(of_driver, sequence)["size"]).sum())


def _has_driver(blocks: pl.DataFrame, device: int) -> bool:
    return not blocks.filter((pl.col("device") == device) & (pl.col("pool") == Pool.HAL)).is_empty()


def _lacks_mappings(recording: Recording, blocks: pl.DataFrame) -> bool:
    """Whether there is physical memory that must be mapped somewhere, and nothing says where: in dumps, and in older logs."""
    is_created = pl.col("allocation_kind") == _PHYSICAL
    created = recording.attributes.filter(is_created)["attribute_id"]
    return (
        blocks["attribute_id"].is_in(created.implode()).any()
        and not (recording.events["kind"] == EventKind.MAPPED).any()
    )


def _blocks_looked_at(recording: Recording) -> tuple[pl.DataFrame, pl.Series]:
    """Return the blocks of accelerators, and which there are; the tensors of a program that uses none."""
    blocks, _ = owned_blocks(recording)
    of_devices = blocks.filter(pl.col("device") >= 0)
    if of_devices.is_empty():
        of_devices = blocks.filter((pl.col("device") == DEVICE_CPU) & (pl.col("pool") == Pool.HOST))
    return of_devices, of_devices["device"].unique().sort()


def _kept(events: pl.DataFrame, blocks: pl.DataFrame, sequence: int) -> pl.DataFrame:
    """Return the memory in use right after an event: KEPT_SCHEMA without the cycle, the largest first."""
    in_use = blocks_in_use(blocks, sequence)
    ranges = mapped_ranges(events, sequence)
    there, gone = ranges.filter("is_mapped"), ranges.filter(~pl.col("is_mapped"))
    is_driver = pl.col("pool") == Pool.HAL
    pooled = in_use.filter(~is_driver)
    rows = range_rows(pooled["address"], there)
    is_asleep = (rows < 0) & (range_rows(pooled["address"], gone) >= 0)
    pooled = pooled.filter(~is_asleep)
    physical = there["physical_sequence"].gather(rows.filter(rows >= 0).unique())
    of_driver = in_use.filter(is_driver)
    parts = [pooled]
    reserves = []
    for (device,), mine in of_driver.partition_by("device", as_dict=True).items():
        is_of_pools = pool_segments(mine, blocks, events) | mine["malloc_sequence"].is_in(physical.implode())
        parts.append(mine.filter(~is_of_pools))
        lent = pooled.filter((pl.col("device") == device) & pl.col("pool").is_in([*POOLS_WITH_RESERVE]))
        reserves.append((device, _pool_of(lent), int(mine.filter(is_of_pools)["size"].sum()) - int(lent["size"].sum())))
    for device in pooled["device"].unique():
        if device >= 0 and not _has_driver(blocks, device):
            reserves.extend(_reported(events, pooled, device, sequence))
    in_use = pl.concat(parts).with_columns(is_reserve=pl.lit(value=False))
    found = in_use.group_by(_KEY).agg(size_bytes=pl.col("size").sum(), block_count=pl.len().cast(pl.Int64))
    reserved = [(device, pool, True, None, None, size, 0) for device, pool, size in reserves if size > 0]
    columns = pl.Schema({**_KEY_TYPES, "size_bytes": pl.Int64(), "block_count": pl.Int64()})
    return pl.concat([found.cast(columns), pl.DataFrame(reserved, columns, orient="row")]).sort(
        "size_bytes", *_KEY, descending=[True, *[False] * len(_KEY)]
    )


def _pool_of(lent: pl.DataFrame) -> int:
    """Return the pool of some blocks, the driver's if there are several."""
    pools = lent["pool"].unique()
    return int(pools[0]) if len(pools) == 1 else int(Pool.HAL)


def _reported(events: pl.DataFrame, pooled: pl.DataFrame, device: int, sequence: int) -> list[tuple[int, int, int]]:
    """Return the unused memory of each pool of a device without an observed driver, as the pool reported it."""
    mine = pooled.filter(pl.col("device") == device).group_by("pool").agg(pl.col("size").sum())
    reported = reported_reserves(events, device, sequence).join(mine, on="pool", how="left")
    return [(device, int(pool), int(reserved) - int(used or 0)) for pool, reserved, used in reported.iter_rows()]
