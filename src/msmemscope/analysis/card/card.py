"""The parts of a whole device's memory: pools, idle memory in them, modules, other processes, the unknown.

The driver's total is the sum of four parts (`owners.driver_ledger`):

- bytes in use by pools
- bytes that pools hold without use
- memory of modules of the vendor's software
- the rest, which nothing explains

Two figures stand beside it: the part of other processes, as the management interface says, and host memory that is
pinned for the device.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.owners.decomposition import NO_DRIVER, owned_blocks
from msmemscope.analysis.owners.driver_ledger import driver_ledger
from msmemscope.analysis.recorded import Need
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.owners import PROGRAM_MODULE, SEPARATOR, UNKNOWN_MODULE
from msmemscope.model.pools import POOL_WORDS, POOLS_WITH_RESERVE, Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.step_bounds import WARM_UP_STEPS
from msmemscope.recording.timeline import blocks_in_use, peak_moments, totals_at

if TYPE_CHECKING:
    from msmemscope.analysis.options import QuestionOptions
    from msmemscope.recording import Recording

SUBJECT: Final = Subject("Memory of the device", needed=(Need.ALLOCATIONS,), helpful=(Need.FREES,))


class Part(str, Enum):
    """Parts of the memory of a device; the first four add up to the driver's total."""

    POOL = "pool in use"
    RESERVE = "pool, not in use"
    """Held by a pool ahead of blocks to come, and behind those that were freed."""
    MODULE = "module"
    UNKNOWN = "unknown"
    """The driver's total without all of these."""
    UNRECORDED = "not recorded"
    """In use by this process beyond the memory that the driver handed out under observation."""
    OTHERS = "other processes"
    HOST = "pinned host"
    """Memory of the host that is pinned, for all devices together, at its own peak; it is none of the device's."""


_OF_DRIVER: Final = (Part.POOL, Part.RESERVE, Part.MODULE, Part.UNKNOWN)
_PART_TYPE: Final = pl.Enum([part.value for part in Part])

CARD_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "part": _PART_TYPE,
        "name": pl.String(),
        "peak_bytes": pl.Int64(),
        "first_step": pl.Int64(),
        "first_bytes": pl.Int64(),
        "last_step": pl.Int64(),
        "last_bytes": pl.Int64(),
    }
)
"""One row per part of a device's memory.

part, name: of Part, and of the pool or module; empty for the others.
peak_bytes: when the driver's memory of the device was at its highest; of pinned memory of the host when that was.
first_bytes, last_bytes: at the ends of `first_step`, the first one behind the warm-up, and of `last_step`; null without two
   such steps.
"""

SITE_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "module": pl.String(),
        "size_bytes": pl.Int64(),
        "block_count": pl.UInt32(),
        "site": pl.String(),
    }
)
"""One row per module and call site with blocks of the driver at the peak. Buffers of a communicator stand at the line
that made it.
"""


@dataclasses.dataclass(frozen=True)
class CardResult:
    """The parts of the memory of each device."""

    parts: pl.DataFrame
    """CARD_SCHEMA, by device and part, the largest first."""
    sites: pl.DataFrame
    """SITE_SCHEMA, by device, the largest first."""
    coverage: Coverage
    """The coverage of the answer."""

    def to_polars(self) -> pl.DataFrame:
        """Return `parts`."""
        return self.parts

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that there are parts of, ascending."""
        return tuple(self.parts["device"].unique().sort())

    def total_bytes(self, device: int) -> int:
        """Return the driver's memory of a device at its peak."""
        return int(self._of(device, *_OF_DRIVER)["peak_bytes"].sum())

    def unknown_bytes(self, device: int) -> int:
        """Return the unexplained part of `total_bytes`; negative where pools hold more than the driver visibly gave."""
        return int(self._of(device, Part.UNKNOWN)["peak_bytes"].sum())

    def growing(self, device: int) -> pl.DataFrame:
        """Return the parts that grew from the end of the first step to that of the last: CARD_SCHEMA, fastest first.

        A pool is one part here: blocks that come and go move its memory between use and idleness.
        """
        of_pool = pl.col("part").cast(pl.String).replace(Part.RESERVE.value, Part.POOL.value).cast(_PART_TYPE)
        sizes = pl.col("peak_bytes", "first_bytes", "last_bytes").sum()
        grown = self._of(device, *Part).group_by("device", of_pool, "name", "first_step", "last_step").agg(sizes)
        return (
            grown.filter(pl.col("last_bytes") > pl.col("first_bytes"))
            .select(CARD_SCHEMA.names())
            .sort(pl.col("last_bytes") - pl.col("first_bytes"), "name", descending=[True, False])
        )

    def _of(self, device: int, *parts: Part) -> pl.DataFrame:
        return self.parts.filter((pl.col("device") == device) & pl.col("part").is_in([part.value for part in parts]))


def account_for_card(recording: Recording, options: QuestionOptions | None = None) -> CardResult:
    """Work out the parts of the memory of each device.

    Args:
        recording: Any.
        options: There are none.
    """
    del options
    coverage = coverage_of(SUBJECT, recording)
    blocks, _ = owned_blocks(recording)
    peaks = peak_moments(blocks).filter(pl.col("peak_bytes") > 0)
    ends = recording.steps.drop_nulls("end_sequence").select(step="number", sequence="end_sequence")
    ends = ends.filter(pl.col("step") > WARM_UP_STEPS).sort("step")
    bounds = pl.concat([ends.head(1), ends.tail(1)]) if len(ends) > 1 else ends.clear()
    ledger, devices = driver_ledger(recording.events, blocks, peaks, bounds)
    if devices["driver_bytes"].null_count() > 0:
        coverage = coverage.with_limits([NO_DRIVER])
    found = pl.concat([_with_reserves_apart(ledger, blocks), _beside(devices, blocks)])
    at_peaks = devices.filter(pl.col("step").is_null())
    return CardResult(_parts(found, bounds), module_sites(recording, blocks, at_peaks), coverage)


_MOMENT: Final = ["step", "sequence", "device"]


def _with_reserves_apart(ledger: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """Return the ledger with the used and the idle memory of pools as parts of their own."""
    of_pools = blocks.filter(pl.col("pool").is_in([*POOLS_WITH_RESERVE]))
    in_use = totals_at(of_pools, ledger["sequence"].unique().sort(), "device", "pool").select(
        "sequence",
        "device",
        part=pl.lit("pool"),
        name=pl.col("pool").replace_strict(POOL_WORDS, return_dtype=pl.String),
        in_use="size_bytes",
    )
    rows = ledger.join(in_use, on=["sequence", "device", "part", "name"], how="left", maintain_order="left")
    # A pool that does not report its reserve counts with its bytes in use, never with less.
    used = pl.min_horizontal(pl.col("in_use").fill_null(0), "size_bytes")
    is_pool = pl.col("part") == "pool"
    return pl.concat(
        [
            rows.filter(is_pool).select(*_MOMENT, part=pl.lit(Part.POOL.value), name="name", size_bytes=used),
            rows.filter(is_pool).select(
                *_MOMENT, part=pl.lit(Part.RESERVE.value), name="name", size_bytes=pl.col("size_bytes") - used
            ),
            rows.filter(~is_pool).select(*_MOMENT, "part", "name", "size_bytes"),
        ]
    ).drop_nulls("size_bytes")


def _beside(devices: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """Return the memory beside the driver's memory of this process: unseen, of other processes, and of the host."""
    unrecorded = pl.col("process_bytes") - pl.col("driver_bytes")
    others = pl.col("device_bytes") - pl.col("process_bytes")
    pinned = blocks.filter((pl.col("pool") == Pool.HAL) & (pl.col("device") == DEVICE_CPU))
    own_peak = peak_moments(pinned)["peak_bytes"].max() or 0
    of_host = totals_at(pinned, devices["sequence"].unique().sort(), "device").select(
        "sequence", size_bytes="size_bytes"
    )
    return pl.concat(
        [
            *(
                devices.select(*_MOMENT, part=pl.lit(part.value), name=pl.lit(""), size_bytes=size)
                for part, size in ((Part.UNRECORDED, unrecorded), (Part.OTHERS, others))
            ),
            devices.join(of_host, on="sequence", how="left").select(
                *_MOMENT,
                part=pl.lit(Part.HOST.value),
                name=pl.lit(""),
                size_bytes=pl.when(pl.col("step").is_null()).then(pl.lit(own_peak, pl.Int64)).otherwise("size_bytes"),
            ),
        ]
    ).filter(pl.col("size_bytes") > 0)


def _parts(found: pl.DataFrame, bounds: pl.DataFrame) -> pl.DataFrame:
    """Put the sizes of each part at the peak, and at the ends of the first and the last step, into one row."""
    key = ["device", "part", "name"]
    first, last = (bounds["step"][0], bounds["step"][-1]) if len(bounds) else (None, None)
    size = pl.col("size_bytes")
    parts = found.group_by(key).agg(
        peak_bytes=size.filter(pl.col("step").is_null()).sum(),
        first_bytes=size.filter(pl.col("step") == pl.lit(first, pl.Int64)).sum(),
        last_bytes=size.filter(pl.col("step") == pl.lit(last, pl.Int64)).sum(),
    )
    has_steps = first is not None
    parts = parts.with_columns(
        first_step=pl.lit(first, pl.Int64),
        last_step=pl.lit(last, pl.Int64),
        first_bytes="first_bytes" if has_steps else pl.lit(None, pl.Int64),
        last_bytes="last_bytes" if has_steps else pl.lit(None, pl.Int64),
    )
    is_shown = (pl.col("part") == Part.UNKNOWN.value) | (
        pl.max_horizontal("peak_bytes", pl.col("first_bytes").fill_null(0), pl.col("last_bytes").fill_null(0)) > 0
    )
    return (
        parts.filter(is_shown)
        .select(CARD_SCHEMA.names())
        .cast(CARD_SCHEMA)
        .sort("device", "part", "peak_bytes", "name", descending=[False, False, True, False])
    )


def module_sites(recording: Recording, blocks: pl.DataFrame, at_peaks: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that asked for the memory of modules.

    Args:
        recording: Any.
        blocks: Its blocks, with their owners.
        at_peaks: `device` and `sequence` of the moments to look at.

    Returns:
        SITE_SCHEMA.
    """
    module = pl.col("owner").str.split(SEPARATOR).list.get(1, null_on_oob=True).fill_null(UNKNOWN_MODULE)
    tables = [SITE_SCHEMA.to_frame()]
    for device, sequence in at_peaks.select("device", "sequence").iter_rows():
        of_device = blocks.filter((pl.col("pool") == Pool.HAL) & (pl.col("device") == device))
        of_modules = blocks_in_use(of_device, sequence).with_columns(module=module)
        # As in the ledger: pools own what names nobody, where there are any.
        has_pools = blocks.filter(pl.col("pool").is_in([*POOLS_WITH_RESERVE]), pl.col("device") == device).height > 0
        of_modules = of_modules.filter(
            ~pl.col("module").is_in([PROGRAM_MODULE, UNKNOWN_MODULE] if has_pools else [PROGRAM_MODULE])
        )
        sites = call_sites(recording, of_modules).select(*STACK_COLUMNS, "site")
        tables.append(
            of_modules.join(sites, on=STACK_COLUMNS, how="left")
            .group_by("module", "site")
            .agg(size_bytes=pl.col("size").sum(), block_count=pl.len())
            .select(pl.lit(device).alias("device"), "module", "size_bytes", "block_count", "site")
            .cast(SITE_SCHEMA)
            .sort("size_bytes", "module", "site", descending=[True, False, False])
        )
    return pl.concat(tables)
