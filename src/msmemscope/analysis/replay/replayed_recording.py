"""A recording under settings of the allocator, beside the recording as it was."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.recorded import Need
from msmemscope.analysis.replay.allocator_entries import recorded_settings
from msmemscope.analysis.replay.allocator_settings import AllocatorSettings, read_settings
from msmemscope.analysis.replay.recorded_allocations import (
    Action,
    allocating_devices,
    allocator_kind,
    recorded_allocations,
)
from msmemscope.analysis.replay.replay import Replay, replay, with_block_sizes, with_emptied_caches
from msmemscope.errors import ConfigurationError

if TYPE_CHECKING:
    from msmemscope.analysis.replay.recorded_allocations import Allocations
    from msmemscope.model.devices import DeviceKind
    from msmemscope.recording import Recording

SUBJECT: Final = Subject("Replay", needed=(Need.ALLOCATIONS,), helpful=(Need.FREES,))


@dataclasses.dataclass(frozen=True)
class DeviceReplay:
    """The allocations of one device, as recorded and under the settings."""

    device: int
    recorded: Replay
    """Under the settings that the recording was made with: those of `--recorded`, otherwise the usual ones."""
    replayed: Replay
    """Under those that were asked for."""
    compared_blocks: int
    """Blocks whose address is known: those of recordings with segments."""
    equal_blocks: int
    """Of these, how many the model puts at the same address."""
    recorded_peak_reserved_bytes: int | None
    """As the allocator reported it; None where it did not."""

    @property
    def is_exact(self) -> bool:
        """Whether the model does all that the allocator did."""
        return self.compared_blocks > 0 and self.equal_blocks == self.compared_blocks


@dataclasses.dataclass(frozen=True)
class ReplayedRecording:
    """The result of a recording under settings of the allocator."""

    devices: tuple[DeviceReplay, ...]
    coverage: Coverage
    """The coverage of the answer."""


@dataclasses.dataclass(frozen=True)
class ReplayOptions:
    """How a recording is replayed."""

    settings: str = ""
    """`KEY:VALUE,...`, as the environment variable of the allocator has them; empty for the defaults of torch."""
    recorded_settings: str | None = None
    """With which the recording was made; None to take them from it, as far as it shows them."""
    capacity_bytes: int | None = None
    """The driver's memory for the allocator; None for no limit."""
    device_bytes: int | None = None
    """Memory of the device; `per_process_memory_fraction` is a part of it. None for the capacity, or 64 GiB."""

    def applied_to(self, settings: AllocatorSettings) -> AllocatorSettings:
        """Return settings of the allocator with the device that was asked for."""
        total = self.device_bytes or self.capacity_bytes or settings.device_bytes
        return dataclasses.replace(settings, capacity_bytes=self.capacity_bytes, device_bytes=total)


def devices_of(subject: Subject, recording: Recording) -> tuple[Coverage, list[int]]:
    """Return the devices whose caching allocator was recorded, and the coverage of an answer about them."""
    coverage, devices = coverage_of(subject, recording), allocating_devices(recording)
    if coverage.is_answered and not devices:
        coverage = coverage.without_answer(
            ["no blocks of a caching allocator of torch_npu or torch.cuda were recorded"]
        )
    return coverage, devices


def prepared(
    recording: Recording, device: int, options: ReplayOptions
) -> tuple[Allocations, AllocatorSettings, Replay, Replay]:
    """Read the allocations of a device, and replay them as recorded.

    Returns:
        The allocations; the settings that they were recorded with; and two replays. The first follows the recorded
        segments, with its course. The second has no limit and does not follow them: others are compared with it.
    """
    allocations = recorded_allocations(recording, device)
    text = options.recorded_settings
    if text is None:
        text = "expandable_segments:True" if allocations.is_expandable else ""
        text = _settings_of(recording, device, text, allocations.kind)
    settings = dataclasses.replace(
        read_settings(text, allocations.kind, option="--recorded"),
        device_bytes=options.applied_to(read_settings("", allocations.kind)).device_bytes,
    )
    followed = replay(allocations, settings, as_recorded=True, with_course=True)
    allocations = with_emptied_caches(with_block_sizes(allocations, followed), followed)
    return allocations, settings, followed, replay(allocations, settings, from_states=True)


def most_held(allocations: Allocations) -> int:
    """Return the most that the allocator had reserved when its recording began, or began again; 0 if that is not known."""
    return max(allocations.states.reserved_bytes, default=0) if allocations.states is not None else 0


def holds_states(allocations: Allocations, settings: AllocatorSettings) -> bool:
    """Return whether the driver has room for the allocator's memory when its recording began.

    Args:
        allocations: Of the device.
        settings: Those that were recorded with, with the device that was asked for.
    """
    return settings.capacity_bytes is None or most_held(allocations) <= settings.capacity_bytes


def _settings_of(recording: Recording, device: int, shown: str, kind: DeviceKind) -> str:
    """The settings as they were recorded, if we know them all; else as the segments show them."""
    recorded = recorded_settings(recording, device)
    if recorded is None:
        return shown
    try:
        read_settings(recorded[0], kind)
    except ConfigurationError:
        return shown
    return recorded[0]


def replay_recording(recording: Recording, options: ReplayOptions) -> ReplayedRecording:
    """Replay the allocations of each device with a caching allocator.

    Args:
        recording: Any with allocations of torch_npu or torch.cuda.
        options: Settings of the allocator.

    Raises:
        ConfigurationError: A setting is not accepted.
    """
    coverage, numbers = devices_of(SUBJECT, recording)
    for kind in {allocator_kind(device) for device in numbers}:
        read_settings(options.settings, kind)
    if not coverage.is_answered:
        return ReplayedRecording((), coverage)
    found, limits = [], []
    for device in numbers:
        allocations, settings, followed, recorded = prepared(recording, device, options)
        given = options.settings or settings.text
        wanted = options.applied_to(read_settings(given, allocations.kind))
        # Under other settings the allocator would have held something else: both begin with the blocks in use then.
        from_states = wanted.text == settings.text and holds_states(allocations, wanted)
        replayed = replay(allocations, wanted, from_states=from_states)
        if allocations.states is not None and not from_states:
            recorded = replay(allocations, settings)
        reported = allocations.recorded_reserved
        found.append(
            DeviceReplay(
                device,
                recorded,
                replayed,
                *equal_blocks(allocations, followed),
                int(reported.max()) if len(reported) and reported.max() >= 0 else None,
            )
        )
        limits += limits_of(allocations, from_states=from_states, settings=settings)
        told = recorded_settings(recording, device)
        if told is not None and told[1] and options.recorded_settings is None:
            limits.append(f"the program changed settings of the allocator {told[1]} times while it ran: not replayed")
    return ReplayedRecording(tuple(found), coverage.with_limits(limits))


def equal_blocks(allocations: Allocations, followed: Replay) -> tuple[int, int]:
    """Return how many blocks have a known address, and how many of them the model puts there."""
    course = followed.course
    if course is None or not allocations.has_segments:
        return 0, 0
    is_block = allocations.actions == Action.ALLOCATE
    if allocations.states is not None and allocations.leads_to_state is not None:
        is_block &= allocations.leads_to_state == 0  # others stand where they were
    mine = course["address"][course["address"] > 0]
    return int(is_block.sum()), int((mine == allocations.recorded_addresses[is_block][: len(mine)]).sum())


def limits_of(allocations: Allocations, *, from_states: bool, settings: AllocatorSettings | None = None) -> list[str]:
    """Name the assumptions that replace unrecorded facts.

    Args:
        allocations: Of a device.
        from_states: Whether replays began with the allocator's state, as far as that is known.
        settings: Those of these replays.
    """
    lines = []
    if allocations.has_streams:
        lines.append(
            "no private pools, requested sizes and segments were recorded: requests of the size of their block are assumed "
            "(--events=allocator has all of these)"
        )
    elif not allocations.has_segments:
        lines.append(
            "no streams, private pools, requested sizes and segments were recorded; a memory snapshot of torch has them. It is "
            "assumed: one stream, frees that are complete at once, requests of the size of their block"
        )
    states = allocations.states
    if states is not None:
        times = "" if states.count == 1 else f" {states.count} times"
        if any(states.reserved_bytes):
            lines.append(
                f"recording began{times} while the allocator held memory: it is known what, but not what the allocator did "
                "before, and no peak of that counts"
            )
        if from_states and settings is not None and settings.collection_threshold > 0:
            lines.append(
                "how long cached blocks had not been used when recording began is not known: which of them are collected as "
                "garbage first may differ"
            )
        if from_states:
            return lines
        lines.append(
            f"{allocations.older_blocks} blocks came while nothing was recorded: they are allocated in the order of their "
            "addresses, without memory that was cached then"
        )
        if allocations.unknown_requests:
            lines.append(
                f"the requested size of {allocations.unknown_requests} of them is not known: their own size is taken"
            )
    elif allocations.older_blocks:
        lines.append(
            f"{allocations.older_blocks} blocks are older than the recording: the order in which they came is not known"
        )
    return lines
