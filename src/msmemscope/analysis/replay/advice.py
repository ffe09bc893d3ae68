"""Changes with which a job needs less memory: settings of the allocator, and leaks withdrawn, each replayed."""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.analysis.coverage import Coverage, Subject
from msmemscope.analysis.leaks.overview import find_leaks
from msmemscope.analysis.recorded import Need
from msmemscope.analysis.replay.allocator_settings import AllocatorSettings, read_settings
from msmemscope.analysis.replay.packing import packed_bytes
from msmemscope.analysis.replay.recorded_allocations import Action
from msmemscope.analysis.replay.replay import Replay, replay
from msmemscope.analysis.replay.replayed_recording import ReplayOptions, devices_of, limits_of, prepared
from msmemscope.model.devices import DeviceKind
from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.analysis.replay.recorded_allocations import Allocations, Column
    from msmemscope.recording import Recording

SUBJECT: Final = Subject("Advice", needed=(Need.ALLOCATIONS, Need.FREES))
_TOLD: Final = Subject("Advice", needed=(Need.ALLOCATIONS,))
"""Where the allocator itself tells of its frees, and perhaps nobody else does."""
_EXPANDABLE: Final = "expandable_segments:True"
_FIRST: Final = (
    "",
    _EXPANDABLE,
    *(f"max_split_size_mb:{size}" for size in (32, 64, 128, 256, 512)),
    *(f"roundup_power2_divisions:{divisions}" for divisions in (1, 2, 4, 8, 16)),
    "roundup_power2_divisions:[32:8,256:4,1024:2,>:1]",
)
"""Tried on every device, alone."""
_OF_NPU: Final = (
    *(f"large_segment_size_mb:{size}" for size in (40, 80, 160)),
    f"{_EXPANDABLE},large_segment_size_mb:40",
)
_MOST_COMBINED: Final = 3
"""Of the best settings, how many are tried together."""


@dataclasses.dataclass(frozen=True)
class Change:
    """A possible change, and the result of a replay of the allocations with it."""

    settings: str
    """Of the allocator, `KEY:VALUE,...`; empty for the defaults."""
    withdrawn_leaks: int
    """Blocks that are freed in time here, and leaked in the recording."""
    replayed: Replay
    """Without a limit of the device."""
    gained_bytes: int
    """How much less is reserved at the peak; negative if it is more."""
    fits: bool | None
    """Whether the job would have run to the end in the capacity; None where none was given."""

    @property
    def environment_line(self) -> str:
        """The text for a shell; empty where no setting changes."""
        return self.replayed.settings.environment_line


@dataclasses.dataclass(frozen=True)
class DeviceAdvice:
    """The possible changes on one device."""

    device: int
    recorded: Change
    """As it was: nothing changed."""
    changes: tuple[Change, ...]
    """All that gain or make the job fit, the largest gain first."""
    tried: int
    """How many were replayed."""
    live_bytes: int
    """The lower bound: in use at the peak, which no allocator can do without."""
    packed_bytes: int
    """The bytes that an offline plan of all lifetimes needs."""
    capacity_bytes: int | None


@dataclasses.dataclass(frozen=True)
class Advice:
    """The possible changes, by device."""

    devices: tuple[DeviceAdvice, ...]
    coverage: Coverage
    """The coverage of the answer."""


def advise(recording: Recording, options: ReplayOptions) -> Advice:
    """Try possible changes: the allocations are replayed with each.

    Args:
        recording: Any with allocations of torch_npu or torch.cuda.
        options: The capacity, and the settings that were recorded with.

    Raises:
        ConfigurationError: A setting is not accepted.
    """
    is_told = bool((recording.events["kind"] == int(EventKind.ALLOCATOR_FREE)).any())
    coverage, numbers = devices_of(_TOLD if is_told else SUBJECT, recording)
    if not coverage.is_answered:
        return Advice((), coverage)
    leaked = find_leaks(recording).step_leaks.leaked
    found, limits = [], []
    for device in numbers:
        allocations, settings, _, recorded = prepared(recording, device, options)
        if allocations.states is not None:
            # Others cannot begin with the allocator's memory of that time: only equal beginnings can be compared.
            recorded = replay(allocations, settings)
        search = SettingsSearch(allocations, settings, recorded, options, leaked["malloc_sequence"].to_numpy())
        found.append(search.advice())
        limits += limits_of(allocations, from_states=False)
    return Advice(tuple(found), coverage.with_limits(limits))


class SettingsSearch:
    """The changes of one device.

    Args:
        allocations: Of the device.
        settings: With which they were recorded.
        recorded: Their replay without a limit.
        options: The options of the question.
        leaked: Numbers of the allocations that leaks are from.
    """

    def __init__(
        self,
        allocations: Allocations,
        settings: AllocatorSettings,
        recorded: Replay,
        options: ReplayOptions,
        leaked: Column,
    ) -> None:
        """Withdraw the leaks."""
        self._allocations, self._settings, self._recorded, self._options = allocations, settings, recorded, options
        self._mended, self._leaks = without_blocks(allocations, leaked)

    def advice(self) -> DeviceAdvice:
        """Replay all changes, two processors at a time where there are two: the native model needs no lock."""
        words = [*_FIRST, *(_OF_NPU if self._allocations.kind is DeviceKind.NPU else ())]
        words = [text for text in words if text != self._settings.text]
        with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
            alone = list(pool.map(self._tried, words))
            best = sorted(alone, key=_worth)[:_MOST_COMBINED]
            pairs = [text for text in self._combined([change.settings for change in best]) if text not in words]
            together = list(pool.map(self._tried, pairs))
            mended = []
            if self._leaks:
                kept = [self._settings.text, *dict.fromkeys(change.settings for change in best)]
                mended = list(pool.map(lambda text: self._tried(text, mends=True), kept))
            packed = pool.submit(packed_bytes, self._allocations).result()
        tried = [*alone, *together, *mended]
        recorded = self._change(self._settings.text, 0, self._recorded, self._allocations)
        useful = [change for change in tried if change.gained_bytes > 0 or (change.fits and not recorded.fits)]
        useful = [change for change in useful if not any(_does_as_much(other, change) for other in useful)]
        return DeviceAdvice(
            device=self._allocations.device,
            recorded=recorded,
            changes=tuple(sorted(useful, key=_worth)),
            tried=len(tried),
            live_bytes=self._recorded.peak_allocated_bytes,
            packed_bytes=packed,
            capacity_bytes=self._options.capacity_bytes,
        )

    @staticmethod
    def _combined(texts: Sequence[str]) -> list[str]:
        """Two settings at a time, where they do not exclude each other."""
        pairs = [(one, other) for index, one in enumerate(texts) for other in texts[index + 1 :] if one and other]
        found = []
        for one, other in pairs:
            keys = [word.partition(":")[0] for word in (*one.split(","), other.partition(",")[0])]
            excluded = {"expandable_segments", "max_split_size_mb"} <= {*keys}
            if len({*keys}) == len(keys) and not excluded:
                found.append(f"{one},{other}")
        return found

    def _tried(self, text: str, *, mends: bool = False) -> Change:
        allocations = self._mended if mends else self._allocations
        settings = dataclasses.replace(
            read_settings(text, allocations.kind), device_bytes=self._recorded.settings.device_bytes
        )
        return self._change(text, self._leaks if mends else 0, replay(allocations, settings), allocations)

    def _change(self, text: str, leaks: int, replayed: Replay, allocations: Allocations) -> Change:
        fits = None
        if self._options.capacity_bytes is not None:
            limited = self._options.applied_to(replayed.settings)
            # A replay that needs less than there is never asks twice; failed allocations of the recording are tried,
            # too.
            fits = replay(allocations, limited).failure is None
        gained = self._recorded.peak_reserved_bytes - replayed.peak_reserved_bytes
        return Change(text, leaks, replayed, gained, fits)


def _does_as_much(one: Change, other: Change) -> bool:
    """Whether a change has the effect of another one, with only some of its settings or leaks."""
    words, others = ({*change.settings.split(",")} - {""} for change in (one, other))
    is_less = (words, one.withdrawn_leaks) != (others, other.withdrawn_leaks) and (
        words <= others and one.withdrawn_leaks <= other.withdrawn_leaks
    )
    return is_less and one.gained_bytes >= other.gained_bytes and bool(one.fits) >= bool(other.fits)


def _worth(change: Change) -> tuple[bool, int, str]:
    return not change.fits, -change.gained_bytes, change.settings


def without_blocks(allocations: Allocations, begins: Column) -> tuple[Allocations, int]:
    """Leave blocks out.

    Args:
        allocations: Of a device.
        begins: Numbers of the recorded events that allocated them.

    Returns:
        The others, and how many were left out.
    """
    is_begin = (allocations.actions == Action.ALLOCATE) & np.isin(allocations.sequences, begins)
    blocks = allocations.blocks[is_begin]
    of_block = np.isin(allocations.actions, [Action.ALLOCATE, Action.REQUEST_FREE, Action.COMPLETE_FREE])
    kept = ~(of_block & np.isin(allocations.blocks, blocks))
    columns: dict[str, Any] = {
        field.name: column[kept]
        for field in dataclasses.fields(allocations)
        if isinstance(column := getattr(allocations, field.name), np.ndarray) and len(column) == allocations.count
    }
    # The allocator's states have them.
    columns |= {"released": None, "first_address": None, "segment_addresses": None, "states": None}
    return dataclasses.replace(allocations, **columns), len(blocks)
