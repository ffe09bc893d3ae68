"""Whether a recorded program fits in devices of other sizes: the allocator's reserve, and its other memory."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject
from msmemscope.analysis.recorded import Need
from msmemscope.analysis.replay.replay import replay
from msmemscope.analysis.replay.replayed_recording import (
    ReplayOptions,
    devices_of,
    holds_states,
    limits_of,
    most_held,
    prepared,
)
from msmemscope.model.devices import DeviceKind, kind_of
from msmemscope.model.events import EventKind
from msmemscope.model.owners import PROGRAM_MODULE
from msmemscope.model.pools import CACHING_POOLS, Pool
from msmemscope.recording.driver_owners import driver_modules
from msmemscope.recording.source_lines import site_text, stack_frames
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msmemscope.analysis.replay.replay import Failure
    from msmemscope.recording import Recording

SUBJECT: Final = Subject("Fits", needed=(Need.ALLOCATIONS,), helpful=(Need.FREES,))
_GIBIBYTE: Final = 1 << 30
_USUAL_CAPACITIES: Final[Mapping[DeviceKind, tuple[int, ...]]] = {
    DeviceKind.NPU: (32 * _GIBIBYTE, 64 * _GIBIBYTE),
    DeviceKind.CUDA: (24 * _GIBIBYTE, 48 * _GIBIBYTE, 80 * _GIBIBYTE),
}
"""Memory that devices of a kind often have."""
_UNRECORDED: Final = "context, not recorded"
"""Memory of the device that the process uses, and that the driver handed out to nobody: its context and kernels."""


@dataclasses.dataclass(frozen=True)
class CapacityFit:
    """The result of the allocations on a device with so much memory."""

    capacity_bytes: int
    fits: bool
    headroom_bytes: int
    """The bytes that are left at the peak; negative: those that are missing, if the allocator is to reserve as much."""
    retries: int
    """How often the allocator had to release all that it cached to go on."""
    failure: Failure | None
    """The first allocation without memory; None where it fits, or where the others alone need more."""
    line: str
    """Of the program, where that allocation happens; empty where it is not known."""


@dataclasses.dataclass(frozen=True)
class DeviceFit:
    """The memory that a process needs of one device."""

    device: int
    peak_reserved_bytes: int
    """By the caching allocator, in the replay."""
    others_bytes: int | None
    """The most that others of the process had from the driver: contexts, HCCL, workspaces; None if not recorded."""
    others_by_module: tuple[tuple[str, int], ...]
    """Of that, by the driver's module, the largest first; of applications without the allocator's reserve."""
    capacities: tuple[CapacityFit, ...]

    @property
    def needed_bytes(self) -> int:
        """The memory that the device must have."""
        return self.peak_reserved_bytes + (self.others_bytes or 0)


@dataclasses.dataclass(frozen=True)
class FittedRecording:
    """The memory that a process needs of its devices."""

    devices: tuple[DeviceFit, ...]
    coverage: Coverage
    """The coverage of the answer."""

    @property
    def needed_bytes(self) -> int:
        """Of the device that it needs most of."""
        return max((device.needed_bytes for device in self.devices), default=0)


def fit_recording(
    recording: Recording, capacities: Sequence[int] | None, recorded_settings: str | None
) -> FittedRecording:
    """Say for each device of a recording in which capacities its allocations fit.

    The most that others take is taken away from the capacity as a whole. It is not known whether both peaks come at
    once on another device.

    Args:
        recording: Any with allocations of torch_npu or torch.cuda.
        capacities: Bytes of memory that the device could have; None: what devices of its kind often have.
        recorded_settings: Of the allocator, as `ReplayOptions` has them.

    Raises:
        ConfigurationError: A setting is not accepted.
    """
    coverage, numbers = devices_of(SUBJECT, recording)
    if not coverage.is_answered:
        return FittedRecording((), coverage)
    found: list[DeviceFit] = []
    limits: list[str] = []
    for device in numbers:
        allocations, settings, _, recorded = prepared(recording, device, ReplayOptions("", recorded_settings))
        others = _others(recording, device)
        others_bytes = sum(size for _, size in others or ())
        fits = []
        sizes = capacities or _USUAL_CAPACITIES[kind_of(device) or DeviceKind.NPU]
        for capacity in sizes:
            options = ReplayOptions("", recorded_settings, max(capacity - others_bytes, 0), capacity)
            replayed = None
            if capacity > others_bytes:
                limited = options.applied_to(settings)
                replayed = replay(allocations, limited, from_states=holds_states(allocations, limited))
            failure = None if replayed is None else replayed.failure
            is_fitting = replayed is not None and failure is None
            reserved = replayed if replayed is not None and is_fitting else recorded
            fits.append(
                CapacityFit(
                    capacity,
                    is_fitting,
                    capacity - others_bytes - reserved.peak_reserved_bytes,
                    0 if replayed is None else replayed.retries,
                    failure,
                    "" if failure is None else _line(recording, failure.sequence),
                )
            )
        found.append(
            DeviceFit(
                device,
                recorded.peak_reserved_bytes,
                None if others is None else others_bytes,
                tuple(others or ()),
                tuple(fits),
            )
        )
        whole = [capacity for capacity in sizes if capacity - others_bytes < most_held(allocations)]
        limits += limits_of(allocations, from_states=not whole, settings=settings)
        if others is None:
            limits.append(
                "memory of the driver outside of the pool (contexts, HCCL, workspaces) was not recorded, and is not counted: "
                "leave room for it"
            )
        failures = recording.events.filter((pl.col("kind") == int(EventKind.OOM)) & (pl.col("device") == device))
        if not failures.is_empty():
            limits.append(
                f"{failures.height} allocations failed while it was recorded: what the program would have gone on to "
                "allocate is not known, and not counted"
            )
    return FittedRecording(tuple(found), coverage.with_limits(limits))


def _others(recording: Recording, device: int) -> list[tuple[str, int]] | None:
    """Return the most that others than the caching allocator had from the driver at one time, by module."""
    if recording.form == "torch snapshot":
        return None  # of the driver it has the allocator's own segments
    driver = recording.blocks.filter((pl.col("device") == device) & (pl.col("pool") == int(Pool.HAL)))
    reports = recording.events.filter(
        (pl.col("device") == device)
        & (pl.col("kind") == int(EventKind.RESERVED))
        & pl.col("pool").is_in([int(pool) for pool in CACHING_POOLS.values()])
    )
    if driver.is_empty() or reports.is_empty():
        return None
    # Between the driver's answer and the allocator's report a segment is in one of them only, so reports are the moments.
    moments = reports["sequence"].to_numpy()
    in_use = MemoryUse.of(driver).after(moments)
    of_others = in_use - reports["size"].to_numpy().astype(np.int64)
    place = int(of_others.argmax())
    moment, reserved = int(moments[place]), int(reports["size"][place])
    alive = driver.filter(
        (pl.col("malloc_sequence") <= moment) & (pl.col("free_sequence").is_null() | (pl.col("free_sequence") > moment))
    ).join(driver_modules(recording), left_on="attribute_id", right_on="id", how="left")
    totals: dict[str, int] = dict(alive.group_by(pl.col("text").fill_null("")).agg(pl.col("size").sum()).iter_rows())
    holder = PROGRAM_MODULE if PROGRAM_MODULE in totals else max(totals, key=lambda name: totals[name])
    totals[holder] -= reserved
    totals[_UNRECORDED] = _unrecorded_bytes(recording, device, MemoryUse.of(driver))
    return sorted(((name, size) for name, size in totals.items() if size > 0), key=lambda pair: (-pair[1], pair[0]))


def _unrecorded_bytes(recording: Recording, device: int, driver: MemoryUse) -> int:
    """Return the most that the process used of a device beyond what the driver handed out, as far as it was reported."""
    reports = recording.events.filter(
        (pl.col("device") == device) & (pl.col("kind") == int(EventKind.DEVICE_USAGE)) & (pl.col("extra") < 1 << 63)
    )
    if reports.is_empty():
        return 0
    # A report is written right in front of the event whose state it tells.
    handed_out = driver.after(reports["sequence"].to_numpy() + np.uint64(1))
    return max(int((reports["extra"].to_numpy().astype(np.int64) - handed_out).max()), 0)


def _line(recording: Recording, sequence: int) -> str:
    """Return the line of the program at which an event happened."""
    stack = recording.events.filter(pl.col("sequence") == sequence).select("python_stack_id").to_series()
    texts = recording.python_stacks.filter(pl.col("id").is_in(stack.implode()))["text"]
    return (site_text(stack_frames(texts[0] or "")) if len(texts) else None) or ""
