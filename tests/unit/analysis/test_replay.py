"""The model of the caching allocator on small inputs: sizes, retries, failures, bounds, and the verbs that show them."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.replay.allocator_settings import AllocatorSettings, read_settings
from msmemscope.analysis.replay.packing import packed_bytes
from msmemscope.analysis.replay.recorded_allocations import (
    Action,
    Allocations,
    allocating_devices,
    recorded_allocations,
)
from msmemscope.analysis.replay.replay import Replay, replay
from msmemscope.analysis.replay.replayed_recording import ReplayOptions, replay_recording
from msmemscope.cli.main import main
from msmemscope.errors import ConfigurationError, InputError
from msmemscope.formats.reading import load
from msmemscope.model.devices import DeviceKind
from tests.fakes.traces import Trace
from tests.support.recorded_runs import write_run
from tests.support.small_snapshot import entry, write_history, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MIB = 1 << 20
CUDA = read_settings("", DeviceKind.CUDA)


def allocations(events: Sequence[tuple[int, int, int]]) -> Allocations:
    """Columns of (action, block, requested bytes), on one stream."""
    actions, blocks, sizes = (np.array(column, dtype=np.uint64) for column in zip(*events, strict=True))
    nothing = np.zeros(len(events), np.uint32)
    return Allocations(
        0,
        DeviceKind.CUDA,
        actions.astype(np.uint8),
        blocks.astype(np.uint32),
        sizes.astype(np.uint64),
        nothing,
        nothing,
        np.arange(1, len(events) + 1, dtype=np.uint64),
        nothing.astype(np.uint64),
        np.where(actions == Action.ALLOCATE, sizes, 0).astype(np.uint64).astype(np.int64),
        np.full(len(events), -1),
    )


def begins(block: int, size: int) -> list[tuple[int, int, int]]:
    """A block is allocated."""
    return [(Action.ALLOCATE, block, size)]


def ends(block: int) -> list[tuple[int, int, int]]:
    """It is freed, and can be handed out again."""
    return [(Action.REQUEST_FREE, block, 0), (Action.COMPLETE_FREE, block, 0)]


def course_of(events: Sequence[tuple[int, int, int]], settings: AllocatorSettings = CUDA) -> dict[str, Any]:
    """The state that each event left behind."""
    found = replay(allocations(events), settings, with_course=True).course
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "kind", "requested", "block", "segment"),
    [
        ("", DeviceKind.CUDA, 1, 512, 2 * MIB),
        ("", DeviceKind.CUDA, 512, 512, 2 * MIB),
        ("", DeviceKind.NPU, 481, 1024, 2 * MIB),
        ("", DeviceKind.NPU, MIB, MIB + 512, 20 * MIB),
        ("", DeviceKind.CUDA, 10 * MIB, 10 * MIB, 10 * MIB),
        ("", DeviceKind.CUDA, 11 * MIB, 12 * MIB, 12 * MIB),
        ("large_segment_size_mb:64", DeviceKind.CUDA, 3 * MIB, 3 * MIB, 64 * MIB),
        ("roundup_power2_divisions:4", DeviceKind.CUDA, 9 * MIB, 10 * MIB, 10 * MIB),
        ("roundup_power2_divisions:[8:1,>:2]", DeviceKind.CUDA, 17 * MIB, 24 * MIB, 24 * MIB),
        ("page_size:1g", DeviceKind.NPU, 3 * MIB - 32, 3 * MIB, 1 << 30),
    ],
)
def test_sizes(text: str, kind: DeviceKind, requested: int, block: int, segment: int) -> None:
    """Of a block and its segment, by the rules of the allocator."""
    course = course_of(begins(0, requested), read_settings(text, kind))
    assert (course["block_bytes"][0], course["reserved_bytes"][0]) == (block, segment)


_SIZES = st.one_of(st.integers(0, 64 * MIB), st.sampled_from([2**31, 2**40, 2**46, 2**63, 2**64 - 1]))
_WORDS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:32",
    "roundup_power2_divisions:16",
    "garbage_collection_threshold:0.1,per_process_memory_fraction:0.01",
    "large_segment_size_mb:1048576",
]


@given(
    st.lists(st.tuples(st.sampled_from(list(Action)), st.integers(0, 8), _SIZES), min_size=1, max_size=60),
    st.sampled_from(_WORDS),
    st.sampled_from([None, 0, 1, MIB, 50 * MIB, 2**40, 2**64 - 1]),
)
def test_any_events_are_replayed(events: list[tuple[int, int, int]], text: str, capacity: int | None) -> None:
    """Also such as no allocator can have recorded: what is in use is reserved, and sizes that are too large fail."""
    settings = read_settings(text, DeviceKind.CUDA)
    if capacity is not None:
        settings = dataclasses.replace(settings, capacity_bytes=capacity, device_bytes=capacity)
    found = replay(allocations(events), settings, with_course=True)
    assert found.course is not None
    reserved, used = found.course["reserved_bytes"], found.course["allocated_bytes"]
    assert (used <= reserved).all()
    assert capacity is None or (reserved <= capacity).all()


def test_more_than_the_addresses_of_the_device() -> None:
    """A request that no expandable segment can hold fails, as where memory has run out."""
    found = replay(allocations(begins(0, 1 << 40)), read_settings("expandable_segments:True", DeviceKind.CUDA))
    assert found.failure is not None
    assert found.failure.requested_bytes == 1 << 40


def test_memory_that_came_free_within_an_allocation_is_not_searched(tmp_path: Path) -> None:
    """The allocator waits for other streams once the driver has nothing left, and goes to the driver again, whatever came free."""
    first, second, third = 1 << 40, 2 << 40, 3 << 40
    behind = first + 20 * MIB
    history = [
        entry("segment_alloc", first, 60 * MIB),
        entry("alloc", first, 60 * MIB),
        entry("segment_alloc", second, 30 * MIB),
        entry("alloc", second, 30 * MIB),
        *(entry(f"free_{step}", first, 60 * MIB) for step in ("requested", "completed")),
        entry("alloc", first, 20 * MIB),
        entry("alloc", behind, 40 * MIB),
        *(entry(f"free_{step}", second, 30 * MIB) for step in ("requested", "completed")),
        entry("free_requested", behind, 40 * MIB),
        # Within the allocation of 32 MiB:
        entry("free_completed", behind, 40 * MIB),
        entry("segment_free", second, 30 * MIB),
        entry("segment_alloc", third, 32 * MIB),
        entry("alloc", third, 32 * MIB),
    ]
    recording = load(write_history(tmp_path, history))
    (device,) = allocating_devices(recording)
    given = recorded_allocations(recording, device)
    found = replay(given, CUDA, as_recorded=True, with_course=True)
    assert found.course is not None
    assert found.course["address"][-1] == given.recorded_addresses[-1] == third
    assert found.course["reserved_bytes"][-1] == given.recorded_reserved[-1] == 92 * MIB
    assert found.retries == 1


def test_streams_and_pools_without_end_are_refused() -> None:
    """Each pair of them takes memory."""
    some = allocations(begins(0, MIB))
    with pytest.raises(InputError, match="more than any program has"):
        replay(dataclasses.replace(some, streams=some.streams + 5000, pools=some.pools + 5000), CUDA)


def test_expandable_segments_grow_by_chunks() -> None:
    """One segment for all large blocks; what is freed is handed out from the front."""
    events = [*begins(0, 15 * MIB), *begins(1, 15 * MIB), *ends(0), *begins(2, 14 * MIB)]
    course = course_of(events, read_settings("expandable_segments:True", DeviceKind.CUDA))
    assert [int(size) // MIB for size in course["reserved_bytes"]] == [20, 40, 40, 40, 40]
    assert course["address"][4] == course["address"][0]
    assert course["segment_count"][-1] == 1


def limited(capacity: int, text: str = "") -> AllocatorSettings:
    """Settings with a device of some bytes."""
    return dataclasses.replace(read_settings(text, DeviceKind.CUDA), capacity_bytes=capacity, device_bytes=capacity)


def test_cached_blocks_are_released_to_go_on() -> None:
    """A segment without blocks goes back, and the allocation gets its memory."""
    found = replay(allocations([*begins(0, 30 * MIB), *ends(0), *begins(1, 40 * MIB)]), limited(50 * MIB))
    assert (found.retries, found.failure, found.peak_reserved_bytes) == (1, None, 40 * MIB)


def pinned() -> list[tuple[int, int, int]]:
    """Two segments of 20 MiB, each held by a small part, and a request for what is free in both together."""
    return [*begins(0, 9 * MIB), *begins(1, 9 * MIB), *begins(2, 9 * MIB), *begins(3, 9 * MIB), *ends(0), *ends(2)]


def test_memory_runs_out_while_enough_is_free() -> None:
    """The failure says what was free, and where expandable segments help the same events go through."""
    events = [*pinned(), *begins(4, 18 * MIB)]
    failure = replay(allocations(events), limited(40 * MIB)).failure
    assert failure is not None
    assert (failure.sequence, failure.limit) == (9, "driver")
    assert (failure.reserved_bytes, failure.allocated_bytes, failure.free_bytes) == (40 * MIB, 18 * MIB, 22 * MIB)
    assert failure.largest_free_bytes == 9 * MIB
    assert not failure.fits_after_release
    fraction = dataclasses.replace(CUDA, device_bytes=80 * MIB, memory_fraction=0.5)
    by_fraction = replay(allocations(events), fraction).failure
    assert by_fraction is not None
    assert by_fraction.limit == "fraction"


def test_waiting_blocks_are_waited_for_before_memory_runs_out() -> None:
    """Their recorded completion, which comes later, changes nothing any more."""
    events = [*begins(0, 30 * MIB), (Action.REQUEST_FREE, 0, 0), *begins(1, 40 * MIB), (Action.COMPLETE_FREE, 0, 0)]
    found = replay(allocations([*events, *begins(2, 2 * MIB)]), limited(60 * MIB), with_course=True)
    assert found.failure is None
    assert found.course is not None
    assert found.course["allocated_bytes"].tolist() == [30 * MIB, 0, 40 * MIB, 40 * MIB, 42 * MIB]


def test_a_replay_goes_on_where_the_program_did() -> None:
    """Memory ran out in the recording, and does in the replay: the failure is named, and what came after is replayed."""
    refused = (Action.FAILED_ALLOCATION, 0, 60 * MIB)
    found = replay(
        allocations([*begins(0, 30 * MIB), refused, *begins(1, 16 * MIB)]), limited(50 * MIB), with_course=True
    )
    assert found.failure is not None
    assert (found.failure.sequence, found.failure.requested_bytes) == (2, 60 * MIB)
    assert (found.replayed_events, found.peak_reserved_bytes) == (3, 46 * MIB)
    # An allocation that the program had is another matter.
    found = replay(
        allocations([*begins(0, 30 * MIB), refused, *begins(1, 40 * MIB), *begins(2, MIB)]), limited(50 * MIB)
    )
    assert (found.replayed_events, found.peak_reserved_bytes) == (3, 30 * MIB)


def test_a_pool_that_is_given_up_takes_its_own_segments_along() -> None:
    """And no others; a block that is still in use keeps its segment until the cache is emptied."""
    events = [
        *begins(0, 12 * MIB),
        *begins(1, 12 * MIB),
        *begins(2, 14 * MIB),
        *ends(0),
        *ends(1),
        (Action.EMPTY_CACHE, 0, 0),
        *begins(3, 16 * MIB),
        *ends(3),
        (Action.GIVE_UP_POOL, 0, 0),
        *ends(2),
        (Action.EMPTY_CACHE, 0, 0),
    ]
    given = allocations(events)
    is_private = np.isin(given.blocks, [1, 2]) | (given.actions == Action.GIVE_UP_POOL)
    course = replay(dataclasses.replace(given, pools=is_private.astype(np.uint32)), CUDA, with_course=True).course
    assert course is not None
    reserved = dict(zip(range(len(events)), (course["reserved_bytes"] // MIB).tolist(), strict=True))
    assert [reserved[place] for place in (2, 7, 8, 10, 11, 13, 14)] == [38, 26, 42, 42, 30, 30, 0]


def random_events(chance: random.Random, count: int) -> list[tuple[int, int, int]]:
    """Blocks that come and go."""
    events: list[tuple[int, int, int]] = []
    alive: list[int] = []
    for block in range(count):
        events += begins(block, chance.randrange(1, chance.choice((4_000, 2 * MIB, 30 * MIB))))
        alive.append(block)
        while len(alive) > 1 and chance.random() < 0.5:
            events += ends(alive.pop(chance.randrange(len(alive))))
    return events


@pytest.mark.parametrize(
    "text",
    ["", "expandable_segments:True", "max_split_size_mb:24", "roundup_power2_divisions:4", "large_segment_size_mb:48"],
)
def test_blocks_never_overlap(text: str) -> None:
    """Whatever the settings: each place is one block's, and all lie in what is reserved."""
    events = random_events(random.Random(3), 400)  # noqa: S311 - no secret
    course = course_of(events, read_settings(text, DeviceKind.CUDA))
    live: dict[int, tuple[int, int]] = {}
    for (action, block, size), address, bytes_ in zip(
        events, course["address"].tolist(), course["block_bytes"].tolist(), strict=True
    ):
        if action == Action.ALLOCATE:
            assert bytes_ >= size
            assert all(address + bytes_ <= begin or begin + length <= address for begin, length in live.values())
            live[block] = (address, bytes_)
        elif action == Action.COMPLETE_FREE:
            live.pop(block)
    assert int(course["allocated_bytes"][-1]) == sum(length for _, length in live.values())
    assert (course["reserved_bytes"] >= course["allocated_bytes"]).all()


def test_a_plan_needs_at_least_what_is_in_use() -> None:
    """And less than the blocks one behind the other; blocks that never meet share their place."""
    for seed in range(5):
        events = allocations(random_events(random.Random(seed), 120))  # noqa: S311 - no secret
        live = np.cumsum(
            np.where(events.actions == Action.ALLOCATE, events.recorded_bytes, 0)
            - np.where(
                events.actions == Action.COMPLETE_FREE,
                dict_of_sizes(events)[events.blocks],
                0,
            )
        ).max()
        assert live <= packed_bytes(events) <= events.recorded_bytes.sum()
    apart = allocations([*begins(0, 30), *ends(0), *begins(1, 20), *ends(1)])
    assert packed_bytes(apart) == 30


def dict_of_sizes(events: Allocations) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bytes by number of the block."""
    sizes = np.zeros(int(events.blocks.max()) + 1, np.int64)
    is_begin = events.actions == Action.ALLOCATE
    sizes[events.blocks[is_begin]] = events.recorded_bytes[is_begin]
    return sizes


def test_a_recording_without_segments() -> None:
    """One stream is assumed, and said; frees are complete at once."""
    trace = Trace()
    blocks = [trace.malloc(30 * MIB) for _ in range(3)]
    for block in blocks:
        trace.free(block)
    found = replay_recording(trace.recording(), ReplayOptions())
    (device,) = found.devices
    result: Replay = device.replayed
    assert (result.peak_reserved_bytes, result.peak_allocated_bytes) == (90 * MIB, 90 * MIB)
    assert device.compared_blocks == 0
    assert any("It is assumed: one stream" in line for line in found.coverage.limits)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bogus:1", "no setting of this allocator"),
        ("expandable_segments", "True or False"),
        ("max_split_size_mb:20", "from 21"),
        ("max_split_size_mb:-1", "from 21"),
        ("garbage_collection_threshold:2", "from 0 to 1"),
        ("roundup_power2_divisions:3", "a power of two"),
        ("roundup_power2_divisions:[3:1]", "a power of two"),
        ("expandable_segments:True,max_split_size_mb:64", "cannot be combined"),
        ("page_size:2m", "1g"),
    ],
)
def test_settings_that_are_not_accepted(text: str, words: str) -> None:
    """Name the setting and what is accepted."""
    with pytest.raises(ConfigurationError, match="--set") as refused:
        read_settings(text, DeviceKind.NPU)
    assert words in refused.value.message


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """A snapshot of torch.cuda."""
    return str(write_snapshot(tmp_path))


def test_the_verbs(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict is the first line; JSON has the same."""
    assert main(["replay", snapshot]) == 0
    out = capsys.readouterr().out
    assert "cuda:0: 40.0 MiB reserved at the peak with the default settings" in out.splitlines()[0]
    assert "the model puts 5 of 5 blocks where the allocator put them" in out
    assert main(["replay", snapshot, "--json"]) == 0
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    (device,) = process["result"]["devices"]
    assert device["replayed"]["failure"] is None
    assert main(["replay", snapshot, "--capacity=30MiB"]) == 0
    assert "runs out of memory" in capsys.readouterr().out.splitlines()[0]
    assert main(["advise", snapshot, "--capacity=1GiB"]) == 0
    out = capsys.readouterr().out
    assert "fits in 1.00 GiB as it is" in out.splitlines()[0]
    assert "no allocator can do with less than" in out


def test_a_recording_of_no_such_allocator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Has no answer, and says why."""
    for verb in ("replay", "advise"):
        assert main([verb, str(write_run(tmp_path / verb))]) == 0
        assert "no blocks of a caching allocator" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        ["replay", "--set=bogus=1"],
        ["replay", "--capacity=much"],
        ["replay", "--recorded=x=1"],
        ["advise", "--capacity=-1"],
    ],
)
def test_bad_arguments(line: list[str], snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2; nothing on stdout."""
    assert main([line[0], snapshot, *line[1:]]) == 2
    assert capsys.readouterr().out == ""
