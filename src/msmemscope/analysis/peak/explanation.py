"""Why memory was as full as it was: the blocks in use at a moment, their owners, the latest ones, and possible savings.

The moment is a device's peak, an event that the caller names, or the last allocation that failed for lack of memory. The
memory is that of the pools of frameworks on the device, all together; on a device without such pools, the driver's.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.fragmentation.fragmentation import Fragmentation, find_fragmentation
from msmemscope.analysis.leaks.trends import growth, positions
from msmemscope.analysis.options import DeviceName, QuestionOptions, WholeNumber, option
from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.analysis.peak.cause import OutOfMemoryCause, find_cause
from msmemscope.analysis.peak.comparison import failing_operator
from msmemscope.analysis.recorded import Need
from msmemscope.model.devices import DEVICE_CPU, device_name, parse_device_name
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.owners import without_module
from msmemscope.recording.call_sites import NO_CALL_SITE, STACK_COLUMNS, call_sites, failing_call_site
from msmemscope.recording.failed_allocations import failed_attempts
from msmemscope.recording.peak_without import peaks_without
from msmemscope.recording.pool_segments import reported_reserves
from msmemscope.recording.step_bounds import WARM_UP_STEPS, StepBounds, process_steps
from msmemscope.recording.timeline import MemoryUse, blocks_in_use, framework_blocks

if TYPE_CHECKING:
    from msmemscope.recording import Recording

SUBJECT: Final = Subject(
    "Peak", needed=(Need.ALLOCATIONS,), helpful=(Need.FREES, Need.OPERATORS, Need.STACKS, Need.OWNERS)
)
MOST_SAVINGS: Final = 20
"""Call sites, the largest, whose absence is worked out."""
RECENT_SHARE: Final = 0.1
"""Without steps, the latest blocks are those since memory was last lower than the moment by this share."""
LEAST_STEPS: Final = 5
"""Steps after the warm-up below which nothing is said about growth."""
SIGNIFICANCE: Final = 0.02
"""Chance that peaks of steps without a trend are taken for growing ones."""
_COLUMNS: Final = (
    "malloc_sequence", "free_sequence", "size", "device", "pool", "flags", "allocated_ns", "name", "owner", *STACK_COLUMNS,
)  # fmt: skip

_TYPES: Final[dict[str, pl.DataType]] = {
    "device": pl.Int16(),
    "pool": pl.UInt8(),
    **dict.fromkeys(("operator", "owner", "site", "site_path"), pl.String()),
    **dict.fromkeys(("oldest_sequence", "last_sequence"), pl.UInt64()),
}
"""Of the columns that are no numbers of bytes, blocks, nanoseconds or steps: these are Int64."""


def _schema(columns: str) -> pl.Schema:
    return pl.Schema({name: _TYPES.get(name, pl.Int64()) for name in columns.split()})


POOL_SCHEMA: Final = _schema("device pool size_bytes block_count reserved_bytes")
"""One row per pool with blocks in use, or that held memory of the driver, by device and pool.

size_bytes, block_count: in use.
reserved_bytes: the pool's last report of the driver's memory that it holds; null if it never did.
"""

OWNER_SCHEMA: Final = _schema("device pool owner size_bytes block_count largest_bytes oldest_sequence")
"""One row per pool and owner with blocks in use, by device, largest first.

largest_bytes: of the largest block.
oldest_sequence: MALLOC of the oldest block.
"""

SITE_SCHEMA: Final = _schema(
    "device pool site site_path size_bytes block_count largest_bytes oldest_sequence oldest_age_ns oldest_step "
    "peak_without_bytes saved_bytes"
)
"""One row per pool and call site with blocks in use, by device, largest first.

oldest_sequence, oldest_age_ns, oldest_step: of the oldest block its MALLOC, the time since then, and its step. The step
   is 0 before the first, and null without steps. The time is null where the input has no times.
peak_without_bytes: the peak of the device if no block of the site had ever been; null beyond MOST_SAVINGS sites.
saved_bytes: by how much that is lower than the peak. Less than `size_bytes` where another moment is the peak then.
"""

RECENT_SCHEMA: Final = _schema("device operator site size_bytes block_count largest_bytes last_sequence")
"""One row per operator and call site that raised memory last: their blocks in use that the last step allocated.

operator: null outside of operators.
last_sequence: MALLOC of the latest of them.
"""

STEP_PEAK_SCHEMA: Final = _schema("device step peak_bytes")
"""One row per step that has ended: the most that was in use in it."""


class Moment(str, Enum):
    """Which moment of a device is explained."""

    PEAK = "peak"
    OUT_OF_MEMORY = "out of memory"
    GIVEN = "given"


@dataclasses.dataclass(frozen=True)
class PeakGrowth:
    """Whether the peak grows from step to step."""

    judged_steps: int
    """Steps that have ended, without the warm-up."""
    slope_bytes_per_step: float | None
    """Median growth of the peak per step; None with fewer than LEAST_STEPS steps."""
    is_growing: bool | None
    """Whether it does, in the whole run and in its second half; None if nothing can be said."""


@dataclasses.dataclass(frozen=True)
class DevicePeak:
    """One moment of one device."""

    device: int
    moment: Moment
    sequence: int
    """The event; the blocks right after it are in use."""
    timestamp_ns: int
    """CLOCK_REALTIME of it, 0 if not known."""
    step: int | None
    """The step that had begun last, 0 before the first; of a failure, the one that failed. None without steps."""
    in_use_bytes: int
    block_count: int
    peak_bytes: int
    """The most that was ever in use on the device."""
    peak_sequence: int
    """The event that first reached it."""
    operator: str | None
    """The operator whose allocation reached or failed at the moment; None outside of operators, or if it was none."""
    site: str | None
    """The call site of that allocation; None if the event is no allocation."""
    request_bytes: int | None
    """Bytes of that allocation; of one that failed, as `MemoryFigures.request_bytes`."""
    pools: pl.DataFrame
    """POOL_SCHEMA."""
    owners: pl.DataFrame
    """OWNER_SCHEMA."""
    sites: pl.DataFrame
    """SITE_SCHEMA."""
    recent: pl.DataFrame
    """RECENT_SCHEMA."""
    recent_since: int
    """The event with which the recent part begins: the begin of the step, or see RECENT_SHARE."""
    step_peaks: pl.DataFrame
    """STEP_PEAK_SCHEMA."""
    growth: PeakGrowth
    fragmentation: Fragmentation | None
    """Of the moment; None for the cpu."""
    cause: OutOfMemoryCause | None
    """Why memory ran out; None if that is not the moment."""


@dataclasses.dataclass(frozen=True)
class PeakExplanation:
    """The moments of all devices that were asked about."""

    devices: tuple[DevicePeak, ...]
    """Accelerators by number, then the cpu; those without memory are left out."""
    coverage: Coverage
    """The coverage of the answer."""

    def to_polars(self) -> pl.DataFrame:
        """Return the call sites in use at the moments, of SITE_SCHEMA."""
        return pl.concat([SITE_SCHEMA.to_frame(), *(device.sites for device in self.devices)])


@dataclasses.dataclass(frozen=True)
class PeakOptions(QuestionOptions):
    """The moment to explain, and its device."""

    device: str | int | None = option(None, DeviceName(), "cpu, npu:{id} or cuda:{id}; default: all that have memory")
    """`cpu`, `npu:{id}`, `cuda:{id}`, or the number of an NPU; None for all that have memory."""
    at: int | None = option(
        None, WholeNumber(metavar="ID"), "explain the moment of this event, an ID of the dump, instead"
    )
    """ID of the event that is the moment; None for the last allocation that failed, or else the peak."""

    @property
    def device_number(self) -> int | None:
        """The device as events have it."""
        return None if self.device is None else parse_device_name(str(self.device))


def explain_peak(recording: Recording, *, device: int | None = None, at: int | None = None) -> PeakExplanation:
    """Explain which blocks filled memory at a moment.

    Args:
        recording: Any.
        device: The device, -2 for the cpu; by default all that have memory.
        at: Number of the event that is the moment. By default, for each device: the last allocation that failed for
            lack of memory on it, and its peak if there is none.

    Raises:
        ValueError: `at` lies before the first event or behind the last one.
    """
    _check_moment(recording, at)
    blocks, untold = owned_blocks(recording)
    coverage = coverage_of(SUBJECT, recording)
    numbers = [number for number in blocks["device"].unique().to_list() if number >= 0 or number == DEVICE_CPU]
    chosen = [number for number in numbers if device is None or number == device]
    if device is not None and not chosen and coverage.is_answered:
        coverage = coverage.without_answer((*coverage.limits, f"no memory of {device_name(device)} was recorded"))
    steps = process_steps(recording)
    found = [
        _DeviceMemory(recording, blocks, number, steps.of(number)).explain(at)
        for number in sorted(chosen, key=lambda number: (number < 0, number))
    ]
    notes = [*untold, *(line for one in found if one.fragmentation is not None for line in one.fragmentation.coverage)]
    notes += [line for one in found if one.cause is not None for line in one.cause.missing]
    return PeakExplanation(tuple(found), coverage.with_limits(notes))


class _DeviceMemory:
    """The memory of one device, and its running total.

    Args:
        recording: Of the process.
        blocks: All of the process, with an owner each.
        device: The number.
        steps: That count for the device.
    """

    def __init__(self, recording: Recording, blocks: pl.DataFrame, device: int, steps: StepBounds) -> None:
        self._recording = recording
        self._device = device
        self._steps = steps
        counted = framework_blocks(blocks.select(_COLUMNS).filter(pl.col("device") == device))
        # Blocks have numbers of sites: paths are long, and few differ.
        sites = call_sites(recording, counted).with_columns(site_id=pl.col("site_path").rank("dense").cast(pl.UInt32))
        self._site_texts = sites.select("site_id", "site", "site_path").unique("site_id", keep="first")
        numbered = sites.select(*STACK_COLUMNS, "site_id")
        self._blocks = counted.join(numbered, on=STACK_COLUMNS, how="left", maintain_order="left")
        self._use = MemoryUse.of(counted)

    def explain(self, at: int | None) -> DevicePeak:
        """Explain a moment; the failure or the peak if none is given."""
        events = self._recording.events
        attempts = failed_attempts(self._recording).filter(pl.col("device") == self._device)
        failures = attempts.filter(~pl.col("is_served"))["sequence"].tail(1)
        if at is not None:
            moment, sequence = Moment.GIVEN, at
        elif len(failures):
            moment, sequence = Moment.OUT_OF_MEMORY, int(failures[0])
        else:
            moment, sequence = Moment.PEAK, self._use.peak_moment
        event = events.filter(pl.col("sequence") <= sequence).tail(1)
        timestamp_ns = int(event["timestamp_ns"][0]) if len(event) else 0
        in_use = blocks_in_use(self._blocks, sequence)
        operator, site, request = self._allocation(event, sequence)
        since = self._recent_since(sequence)
        step_peaks = self._step_peaks()
        gaps = find_fragmentation(self._recording, sequence, device=self._device) if self._device >= 0 else None
        is_failure = sequence in attempts["sequence"]
        cause = find_cause(self._recording, sequence, gaps) if is_failure else None
        return DevicePeak(
            device=self._device,
            moment=moment,
            sequence=sequence,
            timestamp_ns=timestamp_ns,
            step=self._step(sequence, cause),
            in_use_bytes=int(in_use["size"].sum()),
            block_count=in_use.height,
            peak_bytes=self._use.peak_bytes,
            peak_sequence=self._use.peak_moment,
            operator=operator,
            site=site,
            request_bytes=request if cause is None else cause.figures.request_bytes,
            pools=self._pools(in_use, sequence),
            owners=_owners(in_use),
            sites=self._sites(in_use, timestamp_ns),
            recent=_recent(in_use.filter(pl.col("malloc_sequence") >= since), self._site_texts),
            recent_since=since,
            step_peaks=step_peaks,
            growth=_growth(step_peaks),
            fragmentation=gaps,
            cause=cause,
        )

    def _step(self, sequence: int, cause: OutOfMemoryCause | None) -> int | None:
        if not len(self._steps.begins):
            return None
        return cause.step if cause is not None else int(self._steps.step_of(np.array([sequence], dtype=np.uint64))[0])

    def _allocation(self, event: pl.DataFrame, sequence: int) -> tuple[str | None, str | None, int | None]:
        """Return operator, call site and bytes of the allocation that an event is."""
        is_allocation = len(event) and event["kind"][0] in {EventKind.MALLOC, EventKind.OOM}
        if not is_allocation or event["sequence"][0] != sequence or event["device"][0] != self._device:
            return None, None, None
        if event["kind"][0] == EventKind.OOM:
            site = failing_call_site(self._recording, event.row(0, named=True))[0] or NO_CALL_SITE
        else:
            site = call_sites(self._recording, event)["site"][0]
        block = self._blocks.filter(pl.col("malloc_sequence") == sequence)["name"]
        operator = block[0] if len(block) else failing_operator(self._recording, event.row(0, named=True))[0]
        return operator, site, int(event["size"][0])

    def _pools(self, in_use: pl.DataFrame, sequence: int) -> pl.DataFrame:
        reported = reported_reserves(self._recording.events, self._device, sequence)
        return (
            _summed(in_use, "pool")
            .join(reported, on="pool", how="full", coalesce=True)
            .with_columns(pl.col("size_bytes", "block_count").fill_null(0), device=pl.lit(self._device))
            .filter((pl.col("size_bytes") > 0) | (pl.col("reserved_bytes") > 0))
            .select(POOL_SCHEMA.names())
            .cast(POOL_SCHEMA)
            .sort("pool")
        )

    def _sites(self, in_use: pl.DataFrame, timestamp_ns: int) -> pl.DataFrame:
        keys = ["device", "pool", "site_id"]
        sites = (
            _summed(in_use, *keys)
            .join(self._site_texts, on="site_id")
            .sort("size_bytes", "site_path", "pool", descending=[True, False, False])
            .with_row_index("group")
        )
        chosen = sites.head(MOST_SAVINGS).select(*keys, pl.col("group").cast(pl.Int64))
        lives = self._blocks.select("malloc_sequence", "free_sequence", "size", *keys)
        peak, _, without = peaks_without(lives, lives.join(chosen, on=keys))
        step = pl.Series(self._steps.step_of(sites["oldest_sequence"].to_numpy()))
        return (
            sites.with_columns(
                oldest_age_ns=(timestamp_ns or None) - pl.col("oldest_ns").cast(pl.Int64),
                oldest_step=step if len(self._steps.begins) else pl.lit(None),
                peak_without_bytes=pl.col("group").replace_strict(without, default=None, return_dtype=pl.Int64),
            )
            .with_columns(saved_bytes=peak - pl.col("peak_without_bytes"))
            .select(SITE_SCHEMA.names())
            .cast(SITE_SCHEMA)
        )

    def _recent_since(self, sequence: int) -> int:
        step = int(np.searchsorted(self._steps.begins, sequence, side="right"))
        if step:
            return int(self._steps.begins[step - 1])
        moments = self._use.moments
        count = int(np.searchsorted(moments, sequence, side="right"))
        if count == 0:
            return sequence
        after = self._use.in_use[1 : count + 1]
        below = np.flatnonzero(after <= after[-1] * (1 - RECENT_SHARE))
        return int(moments[below[-1]]) + 1 if len(below) else int(moments[0])

    def _step_peaks(self) -> pl.DataFrame:
        ended = self._steps.ended
        _, peaks = self._use.extremes(self._steps.begins[:ended], self._steps.ends)
        columns = {"device": np.full(ended, self._device), "step": np.arange(1, ended + 1), "peak_bytes": peaks}
        return pl.DataFrame(columns, schema=STEP_PEAK_SCHEMA)


def _check_moment(recording: Recording, at: int | None) -> None:
    numbers = recording.events["sequence"]
    if at is not None and (numbers.is_empty() or not numbers[0] <= at <= numbers[-1]):
        accepted = f"{numbers[0]} to {numbers[-1]}" if len(numbers) else "none, there are no events"
        message = f"at: {at} is no number of an event of {recording.source}; expected {accepted}"
        raise ValueError(message)


def _summed(blocks: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return for each group of blocks the columns that the tables of this module have."""
    return blocks.group_by(keys).agg(
        size_bytes=pl.col("size").sum(),
        block_count=pl.len(),
        largest_bytes=pl.col("size").max(),
        oldest_sequence=pl.col("malloc_sequence").min(),
        oldest_ns=pl.col("allocated_ns").min(),
        last_sequence=pl.col("malloc_sequence").max(),
    )


def _owners(in_use: pl.DataFrame) -> pl.DataFrame:
    folded = {owner: without_module(owner) for owner in in_use["owner"].unique()}
    return (
        in_use.with_columns(pl.col("owner").replace(folded))
        .pipe(_summed, "device", "pool", "owner")
        .select(OWNER_SCHEMA.names())
        .cast(OWNER_SCHEMA)
        .sort("size_bytes", "owner", "pool", descending=[True, False, False])
    )


def _recent(blocks: pl.DataFrame, site_texts: pl.DataFrame) -> pl.DataFrame:
    # Blocks that were there when the recording began came at some time before.
    new = blocks.filter(pl.col("flags") & int(EventFlag.SHADOW) == 0)
    return (
        _summed(new, "device", "name", "site_id")
        .join(site_texts, on="site_id")
        .rename({"name": "operator"})
        .sort("size_bytes", "last_sequence", descending=[True, False])
        .select(RECENT_SCHEMA.names())
        .cast(RECENT_SCHEMA)
    )


def _growth(step_peaks: pl.DataFrame) -> PeakGrowth:
    peaks = step_peaks["peak_bytes"].to_numpy()[WARM_UP_STEPS:]
    if len(peaks) < LEAST_STEPS:
        return PeakGrowth(len(peaks), None, None)
    chosen = positions(0, len(peaks) - 1)
    found = growth(peaks[chosen].astype(np.float64)[None, :], LEAST_STEPS)
    # Of a long run only some steps are in the series: a position is several steps.
    slope = float(found.slope[0]) * (len(chosen) - 1) / (len(peaks) - 1)
    return PeakGrowth(len(peaks), slope, bool(found.significance[0] <= SIGNIFICANCE))
