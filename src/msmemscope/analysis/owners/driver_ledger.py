"""The ledger of the driver's memory of each device: pools, modules of CANN, and the unexplained rest.

The three add up to the driver's total by definition. The rest can be negative: where memory of the driver was taken
before recording began, pools hold more than was seen.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from msmemscope.model.devices import NOT_AVAILABLE
from msmemscope.model.events import MEMORY_KINDS, EventKind
from msmemscope.model.owners import PROGRAM_MODULE, SEPARATOR, UNKNOWN_MODULE
from msmemscope.model.pools import POOL_WORDS, POOLS_WITH_RESERVE, Pool
from msmemscope.recording.timeline import MemoryUse, totals_at

PART_SCHEMA: Final = pl.Schema(
    {
        "step": pl.Int64(),
        "sequence": pl.UInt64(),
        "device": pl.Int16(),
        "part": pl.String(),
        "name": pl.String(),
        "size_bytes": pl.Int64(),
    }
)
"""One row per part of the driver's memory of a device, at its peak (`step` null) and at the end of each step. A peak
lasts for a time. The moment in it counts at which the blocks of pools need the most of it.

part: `pool`: the driver's memory that a pool holds, in use or not. `module`: that of a module of CANN. `unknown`: the
   driver's total without these, or null if the driver was not observed.
name: of the pool or module; empty for `unknown`.
"""

DEVICE_SCHEMA: Final = pl.Schema(
    {
        "step": pl.Int64(),
        "sequence": pl.UInt64(),
        "device": pl.Int16(),
        "driver_bytes": pl.Int64(),
        "process_bytes": pl.Int64(),
        "device_bytes": pl.Int64(),
    }
)
"""One row per moment and device of PART_SCHEMA.

driver_bytes: blocks of the driver that are alive; null if the driver was not observed.
process_bytes, device_bytes: in use on the device by this process, and by anybody; null if the management interface said
   nothing. They follow the blocks of the driver from the time when it was asked last.
"""


_PLACE: Final = ["sequence", "device"]
_POOL_KEY: Final = ["device", "pool"]


def driver_ledger(
    events: pl.DataFrame, blocks: pl.DataFrame, peaks: pl.DataFrame, ends: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """List the parts of the driver's memory of each device.

    Args:
        events: EVENT_SCHEMA, at least MALLOC, FREE, RESERVED and DEVICE_USAGE.
        blocks: BLOCK_SCHEMA and `owner`.
        peaks: Of pools: `device`, `pool`, `sequence`, `peak_bytes`.
        ends: Of steps: `step`, `sequence`.

    Returns:
        PART_SCHEMA and DEVICE_SCHEMA.
    """
    points = _points(events, blocks, peaks, ends)
    # A peak may last to the end of a step: the same moment twice.
    moments = points.select(_PLACE).unique().sort(_PLACE)
    pools = _pool_parts(events, blocks, moments)
    of_driver = blocks.filter(pl.col("pool") == Pool.HAL)
    all_modules = (
        totals_at(of_driver.with_columns(owner=_module(pl.col("owner"))), moments["sequence"], "device", "owner")
        .select(*_PLACE, part=pl.lit("module"), name="owner", size_bytes="size_bytes")
        .join(moments, on=_PLACE, how="semi")
    )
    # Where there are pools, they own memory that the program, or nobody known, asked for. This holds as far as they
    # report it; the rest is unknown.
    is_of_pools = pl.col("name").is_in([PROGRAM_MODULE, UNKNOWN_MODULE]) & pl.col("device").is_in(
        pools["device"].unique().implode()
    )
    parts = pl.concat([pools, all_modules.filter(~is_of_pools)])
    is_observed = pl.col("device").is_in(of_driver["device"].unique().implode())
    totals = (
        moments.join(_sum(all_modules, "driver_bytes"), on=_PLACE, how="left")
        .join(_sum(parts, "explained_bytes"), on=_PLACE, how="left")
        .with_columns(driver_bytes=pl.when(is_observed).then(pl.col("driver_bytes").fill_null(0)))
    )
    unknown = totals.select(
        *_PLACE,
        part=pl.lit("unknown"),
        name=pl.lit(""),
        size_bytes=pl.col("driver_bytes") - pl.col("explained_bytes").fill_null(0),
    )
    ledger = points.join(pl.concat([parts.filter(pl.col("size_bytes") > 0), unknown]), on=_PLACE)
    devices = points.join(_with_usage(events, of_driver, totals), on=_PLACE, maintain_order="left")
    order = pl.col("part").replace_strict({"pool": 0, "module": 1, "unknown": 2}, return_dtype=pl.UInt8)
    return (
        ledger.select(PART_SCHEMA.names()).cast(PART_SCHEMA).sort("sequence", "step", "device", order, "name"),
        devices.select(DEVICE_SCHEMA.names()).cast(DEVICE_SCHEMA),
    )


def _sum(parts: pl.DataFrame, name: str) -> pl.DataFrame:
    return parts.group_by(_PLACE).agg(pl.col("size_bytes").sum().alias(name))


def _points(events: pl.DataFrame, blocks: pl.DataFrame, peaks: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return `step`, `sequence`, `device` of the moments of a ledger: each device's peak, and each step's end."""
    of_devices = peaks.filter(pl.col("device") >= 0)
    # Of a device whose driver memory was not observed, the peak of its largest pool.
    at_peaks = (
        of_devices.sort(pl.col("pool") == Pool.HAL, "peak_bytes", descending=True)
        .unique("device", keep="first", maintain_order=True)
        .select("device", "pool", reached="sequence")
        .sort("reached")
    )
    # A pool reports its reserve only after it got memory from the driver. The peak lasts until the driver's memory
    # changes. The first sign of a change is the usage of the device: it is asked for right before the block is written.
    changes = (
        events.filter(pl.col("kind").is_in([*MEMORY_KINDS]))
        .select("device", "pool", reached=pl.col("sequence") - 1, sequence=pl.col("sequence") - 1)
        .join(
            events.filter(pl.col("kind") == EventKind.DEVICE_USAGE).select("device", "sequence", is_usage=pl.lit(1)),
            on=["sequence", "device"],
            how="left",
            maintain_order="left",
        )
        .with_columns(sequence=pl.col("sequence") - pl.col("is_usage").fill_null(0).cast(pl.UInt64))
    )
    stretches = at_peaks.join_asof(
        changes, on="reached", by=_POOL_KEY, strategy="forward", check_sortedness=False
    ).select("device", "reached", pl.col("sequence").fill_null(pl.lit(events["sequence"].max(), dtype=pl.UInt64)))
    of_pools = blocks.filter(pl.col("pool").is_in([*POOLS_WITH_RESERVE]))
    fullest = [
        (None, _fullest(of_pools.filter(pl.col("device") == device), reached, end), device)
        for device, reached, end in stretches.iter_rows()
    ]
    at_peaks = pl.DataFrame(
        fullest, {"step": pl.Int64(), "sequence": pl.UInt64(), "device": stretches.schema["device"]}, orient="row"
    )
    at_ends = ends.join(of_devices.select(pl.col("device").unique()), how="cross").select("step", "sequence", "device")
    return pl.concat([at_peaks, at_ends]).sort("sequence", "step", "device")


def _fullest(blocks: pl.DataFrame, begin: int, end: int) -> int:
    """Return the last moment of a stretch at which blocks have the most in use: right before their next change."""
    is_within = [pl.col(name).is_between(begin, end, closed="right") for name in ("malloc_sequence", "free_sequence")]
    use = MemoryUse.of(blocks.filter(pl.any_horizontal(is_within)))
    first, last = np.searchsorted(use.moments, [begin, end], side="right")
    latest_first = use.in_use[first : last + 1][::-1]
    change = int(last) - int(latest_first.argmax())  # the one that ends it
    return end if change == last else int(use.moments[change]) - 1


def _pool_parts(events: pl.DataFrame, blocks: pl.DataFrame, moments: pl.DataFrame) -> pl.DataFrame:
    """Return the bytes that each pool of a device holds.

    Where a pool does not report them, the bytes in use stand for them.
    """
    of_pools = blocks.filter(pl.col("pool").is_in([*POOLS_WITH_RESERVE]))
    in_use = totals_at(of_pools, moments["sequence"], *_POOL_KEY).select(*_PLACE, "pool", in_use="size_bytes")
    reported = events.filter(pl.col("kind") == EventKind.RESERVED).select(*_PLACE, "pool", reserved="size")
    pools = pl.concat([of_pools.select(_POOL_KEY), reported.select(_POOL_KEY)]).unique()
    return (
        moments.join(pools, on="device")
        .sort("sequence")
        .join_asof(reported.sort("sequence"), on="sequence", by=_POOL_KEY, strategy="backward", check_sortedness=False)
        .join(in_use, on=[*_PLACE, "pool"], how="left")
        .select(
            *_PLACE,
            part=pl.lit("pool"),
            name=pl.col("pool").replace_strict(POOL_WORDS, default=NOT_AVAILABLE, return_dtype=pl.String),
            size_bytes=pl.when(pl.col("reserved") >= 0).then("reserved").otherwise("in_use").fill_null(0),
        )
    )


def _with_usage(events: pl.DataFrame, of_driver: pl.DataFrame, moments: pl.DataFrame) -> pl.DataFrame:
    """Add `process_bytes` and `device_bytes`: the last figures of the management interface, and the changes since."""
    reported = events.filter(pl.col("kind") == EventKind.DEVICE_USAGE).select(
        "sequence",
        "device",
        # A report is written right in front of the event whose state it tells.
        told=pl.col("sequence") + 1,
        device_bytes=pl.when(pl.col("size") >= 0).then("size"),
        process_bytes=pl.when(pl.col("extra") < 1 << 63).then(pl.col("extra")).cast(pl.Int64),
    )
    found = moments.sort("sequence").join_asof(
        reported.sort("sequence"), on="sequence", by="device", strategy="backward", check_sortedness=False
    )
    parts = [found.clear().with_columns(then_bytes=pl.lit(0, pl.Int64))]
    for (device,), part in found.partition_by("device", as_dict=True, maintain_order=True).items():
        use = MemoryUse.of(of_driver.filter(pl.col("device") == device))
        parts.append(part.with_columns(then_bytes=pl.Series(use.after(part["told"].fill_null(0).to_numpy()))))
    since = pl.col("driver_bytes").fill_null(pl.col("then_bytes")) - pl.col("then_bytes")
    return pl.concat(parts).with_columns(pl.col("process_bytes", "device_bytes") + since).drop("told", "then_bytes")


def _module(owner: pl.Expr) -> pl.Expr:
    """Return the module of CANN of an owner of the driver's memory."""
    return owner.str.split(SEPARATOR).list.get(1, null_on_oob=True).fill_null(UNKNOWN_MODULE)
