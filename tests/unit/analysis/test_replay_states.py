"""Replays that begin with what the allocator held: any moment of a replay as a state, and how a log is read that has some."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.replay.advice import advise
from msmemscope.analysis.replay.allocator_settings import read_settings
from msmemscope.analysis.replay.recorded_allocations import Action, Allocations, States, recorded_allocations
from msmemscope.analysis.replay.replay import replay
from msmemscope.analysis.replay.replayed_recording import (
    ReplayOptions,
    equal_blocks,
    limits_of,
    prepared,
    replay_recording,
)
from msmemscope.formats.reading import load
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.devices import DeviceKind
from msmemscope.model.events import EventKind
from tests.fakes.event_log_builder import PTA, SHADOW, EventLogBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MIB: Final = 1 << 20
NOBODY: Final = (1 << 32) - 1
FREE, USED, WAITING = range(3)
SIZES: Final = st.one_of(st.integers(1, 3000), st.integers(1, 3 * MIB), st.integers(1, 30 * MIB))
STEPS: Final = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1 << 20), SIZES, st.integers(0, 1)), max_size=60)


def events_of(steps: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Action, block, requested bytes and stream of events that can have happened: half of the steps allocate."""
    events: list[tuple[int, int, int, int]] = []
    alive: list[int] = []
    waiting: list[int] = []
    count = 0
    for choice, which, size, stream in steps:
        if choice < 5 or not (alive or waiting):
            events.append((Action.ALLOCATE, count, size, stream))
            alive.append(count)
            count += 1
        elif waiting and (choice < 7 or not alive):
            events.append((Action.COMPLETE_FREE, waiting.pop(which % len(waiting)), 0, 0))
        else:
            block = alive.pop(which % len(alive))
            events.append((Action.REQUEST_FREE, block, 0, 0))
            waiting.append(block)
    return events


def columns_of(events: Sequence[tuple[int, int, int, int]], **further: Any) -> Allocations:
    """Events as columns."""
    actions, blocks, sizes, streams = (np.array(column, dtype=np.uint64) for column in zip(*events, strict=True))
    nothing = np.zeros(len(events), np.uint64)
    return Allocations(
        0,
        DeviceKind.NPU,
        actions.astype(np.uint8),
        blocks.astype(np.uint32),
        sizes,
        streams.astype(np.uint32),
        nothing.astype(np.uint32),
        np.arange(1, len(events) + 1, dtype=np.uint64),
        nothing,
        nothing.astype(np.int64),
        nothing.astype(np.int64),
        **further,
    )


class Held:
    """The segments and blocks of a replay without a limit at one moment, from its course. Segments only grow there."""

    def __init__(self, events: Sequence[tuple[int, int, int, int]], course: dict[str, Any]) -> None:
        self.segments: dict[int, list[int]] = {}
        """Number -> address, end, stream, whether it is for small blocks."""
        self.blocks: dict[int, tuple[int, int, int, int]] = {}
        """Number -> address, bytes, segment, use."""
        reserved = 0
        for index, (action, block, _, stream) in enumerate(events):
            if action == Action.ALLOCATE:
                address, segment, size = (int(course[name][index]) for name in ("address", "segment", "block_bytes"))
                found = self.segments.setdefault(segment, [address, address, stream, int(size <= MIB)])
                found[1] += int(course["reserved_bytes"][index]) - reserved
                self.blocks[block] = (address, size, segment, USED)
            elif action == Action.REQUEST_FREE:
                self.blocks[block] = (*self.blocks[block][:3], WAITING)
            else:
                del self.blocks[block]
            reserved = int(course["reserved_bytes"][index])

    def states(self, *, is_expandable: bool) -> States:
        """As a recording has it."""
        rows: list[tuple[int, ...]] = []
        for number, (address, end, stream, is_small) in sorted(self.segments.items()):
            here = address
            inside = sorted(
                (place, size, block, use) for block, (place, size, own, use) in self.blocks.items() if own == number
            )
            for place, size, block, use in [*inside, (end, 0, NOBODY, FREE)]:
                before, own = (here, place - here, NOBODY, FREE), (place, size, block, use)
                rows += [
                    (0, address, *part[:2], stream, 0, *part[2:], is_small, is_expandable)
                    for part in (before, own)
                    if part[1]
                ]
                here = place + size
        names = (
            "state",
            "segment_address",
            "address",
            "bytes",
            "stream",
            "pool",
            "holder",
            "use",
            "is_small",
            "is_expandable",
        )
        kinds = ("u4", "u8", "u8", "u8", "u4", "u4", "u4", "u1", "u1", "u1")
        table = np.array(rows, dtype=np.uint64).reshape(-1, len(names)).T
        parts = {
            name: np.ascontiguousarray(column, kind) for name, column, kind in zip(names, table, kinds, strict=True)
        }
        return States(1, parts, (int(parts["bytes"].sum()),))

    def leading(self, events: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
        """Events that bring the blocks about, where nobody knows how they came."""
        asked = {block: (size, stream) for action, block, size, stream in events if action == Action.ALLOCATE}
        found: list[tuple[int, int, int, int]] = []
        for block, (_, _, _, use) in sorted(self.blocks.items(), key=lambda pair: pair[1][0]):
            found.append((Action.ALLOCATE, block, *asked[block]))
            if use == WAITING:
                found.append((Action.REQUEST_FREE, block, 0, 0))
        return found


@given(STEPS, st.integers(0, 60), st.sampled_from(["", "expandable_segments:True", "max_split_size_mb:24"]))
def test_any_moment_can_be_the_begin(steps: list[tuple[int, int, int, int]], cut: int, text: str) -> None:
    """From what the allocator held on, every block gets the place that it got, and as much is reserved and in use."""
    events = events_of(steps)
    cut = min(cut, len(events))
    if not events:
        return
    settings = read_settings(text, DeviceKind.NPU)
    whole = replay(columns_of(events), settings, with_course=True).course
    assert whole is not None
    held = Held(events[:cut], whole)
    leading = held.leading(events)
    late = columns_of(
        [(Action.RESTORE, 0, 0, 0), *leading, *events[cut:]],
        states=held.states(is_expandable=settings.is_expandable),
        leads_to_state=np.array([0, *[1] * len(leading), *[0] * (len(events) - cut)], np.uint8),
        block_count=len(events),
        stream_count=2,
        pool_count=1,
    )
    course = replay(late, settings, from_states=True, with_course=True).course
    assert course is not None
    behind = 1 + len(leading)
    for name in ("address", "block_bytes", "allocated_bytes", "reserved_bytes", "segment_count"):
        assert course[name][behind:].tolist() == whole[name][cut:].tolist(), name
    if cut:
        for name in ("allocated_bytes", "reserved_bytes", "segment_count"):
            assert course[name][0] == whole[name][cut - 1], name
    # Where it cannot begin so, the same blocks are there.
    rebuilt = replay(late, settings, with_course=True).course
    assert rebuilt is not None
    is_block = late.actions == Action.ALLOCATE
    assert (rebuilt["address"][is_block] > 0).all()


@given(
    rows=st.lists(
        st.tuples(
            *(st.integers(0, 1 << 44) for _ in range(2)),
            st.integers(0, 1 << 50),
            st.integers(0, 3),
            *(st.booleans(),) * 2,
        ),
        max_size=12,
    ),
    is_expandable=st.booleans(),
)
def test_any_state_is_taken(rows: list[tuple[int, int, int, int, bool, bool]], *, is_expandable: bool) -> None:
    """Also such as no allocator can have had: blocks that overlap, or lie outside of their segment."""
    table = [np.array([row[column] for row in rows], np.uint64) for column in range(6)]
    count = len(rows)
    parts = {
        "state": np.zeros(count, np.uint32),
        "segment_address": table[0],
        "address": table[0] + table[1] % np.uint64(4 * MIB),
        "bytes": table[2],
        "stream": (table[3] % 2).astype(np.uint32),
        "pool": np.zeros(count, np.uint32),
        "holder": np.where(table[5] == 1, np.arange(count), NOBODY).astype(np.uint32),
        "use": np.where(table[5] == 1, 1 + table[3] % 2, 0).astype(np.uint8),
        "is_small": table[4].astype(np.uint8),
        "is_expandable": np.full(count, is_expandable, np.uint8),
    }
    events = [(Action.RESTORE, 0, 0, 0), (Action.ALLOCATE, count, 3 * MIB, 1)]
    events += [
        (action, block, 0, 0) for block in range(count + 1) for action in (Action.REQUEST_FREE, Action.COMPLETE_FREE)
    ]
    late = columns_of(
        [*events, (Action.EMPTY_CACHE, 0, 0, 0)],
        states=States(1, parts, (0,)),
        leads_to_state=np.zeros(len(events) + 1, np.uint8),
        block_count=count + 1,
        stream_count=2,
        pool_count=1,
    )
    course = replay(late, read_settings("", DeviceKind.NPU), from_states=True, with_course=True).course
    assert course is not None
    assert (course["reserved_bytes"] >= course["allocated_bytes"]).all()


def test_a_state_that_belongs_to_other_events_is_refused() -> None:
    """Rather than read outside of its columns."""
    states = Held([], {}).states(is_expandable=False)
    late = columns_of([(Action.RESTORE, 3, 0, 0)], states=states, leads_to_state=np.zeros(1, np.uint8))
    with pytest.raises(ValueError, match="states do not belong to the events"):
        replay(late, read_settings("", DeviceKind.NPU), from_states=True)


BASE: Final = 0x1200_0000_0000
STREAM: Final = 0x5500


class Log:
    """A log in which collection begins while the allocator holds a small segment, and a large one that is free."""

    def __init__(self, folder: Path, rows: int = 5) -> None:
        self.builder = EventLogBuilder(folder)
        self.builder.fact("observed.allocator", "by its trace tracker")
        self.builder.fact("allocator.settings", "")
        self.block(EventKind.MALLOC, BASE + 512, 1024, flags=SHADOW)  # 1
        self.moment = 2
        self.segment(BASE, 2 * MIB, "small", flags=SHADOW)
        asked = (int(AttributeKey.REQUESTED_BYTES), 900)
        self.block(
            EventKind.ALLOCATOR_ALLOC, BASE + 512, 1024, flags=SHADOW, attribute_id=self.builder.attributes(asked)
        )
        self.block(EventKind.ALLOCATOR_FREE, BASE + 4096, 512, flags=SHADOW)
        self.segment(BASE + 2 * MIB, 20 * MIB, "large", flags=SHADOW)
        self.block(EventKind.ALLOCATOR_ALLOC, BASE + 3 * MIB, MIB + 512, flags=SHADOW)
        self.builder.fact("allocator.state", f"0/{self.moment}/{rows}")

    def block(self, kind: EventKind, address: int, size: int, **fields: int) -> int:
        """An event about a block."""
        return self.builder.add(int(kind), address=address, size=size, pool=PTA, device=0, extra=STREAM, **fields)

    def segment(self, address: int, size: int, name: str, **fields: int) -> int:
        """An event about a segment of a state."""
        return self.block(EventKind.SEGMENT_ALLOC, address, size, name_id=self.builder.string(name), **fields)

    def go_on(self) -> None:
        """Go on after the state: the waiting block comes back, the first one is freed, and another takes its place."""
        self.block(EventKind.ALLOCATOR_FREE_COMPLETED, BASE + 4096, 400)
        self.block(EventKind.ALLOCATOR_FREE, BASE + 512, 900)
        self.block(EventKind.ALLOCATOR_FREE_COMPLETED, BASE + 512, 900)
        self.builder.free(1, BASE + 512, 1024, pool=PTA, device=0)
        self.block(EventKind.ALLOCATOR_ALLOC, BASE, 5000)
        self.block(EventKind.MALLOC, BASE, 5120)

    def allocations(self) -> Allocations:
        """As it is read."""
        return recorded_allocations(load(self.builder.write()), 0)


def test_a_log_with_a_state(tmp_path: Path) -> None:
    """Its rows become the parts of segments, and the entries behind it belong to its blocks."""
    log = Log(tmp_path)
    log.go_on()
    found = log.allocations()
    actions = [Action(action).name for action in found.actions]
    assert actions == [
        "RESTORE", "ALLOCATE", "ALLOCATE", "REQUEST_FREE", "ALLOCATE",
        "COMPLETE_FREE", "REQUEST_FREE", "COMPLETE_FREE", "ALLOCATE",
    ]  # fmt: skip
    assert found.leads_to_state is not None
    assert found.leads_to_state.tolist() == [0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert found.blocks.tolist() == [0, 0, 1, 1, 2, 1, 0, 0, 3]
    assert found.sequences.tolist()[:2] == [2, 1]  # the block that collection found has its number
    assert found.requested_bytes[1] == 900
    assert found.recorded_reserved.tolist() == [22 * MIB] * 9
    assert (found.older_blocks, found.unknown_requests) == (3, 2)
    states = found.states
    assert states is not None
    assert states.reserved_bytes == (22 * MIB,)
    parts = list(zip(*(states.parts[name].tolist() for name in ("address", "bytes", "use", "holder")), strict=True))
    assert [(address - BASE, *rest) for address, *rest in parts] == [
        (0, 512, FREE, NOBODY),
        (512, 1024, USED, 0),
        (1536, 2560, FREE, NOBODY),
        (4096, 512, WAITING, 1),
        (4608, 2 * MIB - 4608, FREE, NOBODY),
        (2 * MIB, MIB, FREE, NOBODY),
        (3 * MIB, MIB + 512, USED, 2),
        (4 * MIB + 512, 18 * MIB - 512, FREE, NOBODY),
    ]
    assert states.parts["is_small"].tolist() == [1] * 5 + [0] * 3


def test_the_answers_from_a_state(tmp_path: Path) -> None:
    """Exact under the settings of the run; under others it is said what is taken in its place, and what is not known."""
    log = Log(tmp_path)
    log.go_on()
    recording = load(log.builder.write())
    allocations, _, followed, recorded = prepared(recording, 0, ReplayOptions())
    assert equal_blocks(allocations, followed) == (1, 1)
    assert recorded.peak_reserved_bytes == 22 * MIB
    (same,) = replay_recording(recording, ReplayOptions()).devices
    assert (same.is_exact, same.recorded) == (True, same.replayed)
    (line,) = [text for text in replay_recording(recording, ReplayOptions()).coverage.limits if "held memory" in text]
    assert "no peak of that counts" in line
    other = replay_recording(recording, ReplayOptions("large_segment_size_mb:40"))
    (device,) = other.devices
    assert (device.recorded.peak_reserved_bytes, device.replayed.peak_reserved_bytes) == (22 * MIB, 42 * MIB)
    assert any("3 blocks came while nothing was recorded" in text for text in other.coverage.limits)
    assert any("the requested size of 2 of them is not known" in text for text in other.coverage.limits)
    assert advise(recording, ReplayOptions()).devices[0].recorded.replayed.peak_reserved_bytes == 22 * MIB
    assert limits_of(dataclasses.replace(allocations, unknown_requests=0), from_states=False) != []


@pytest.mark.parametrize("rows", [4, 6])
def test_a_state_that_is_not_whole_is_none(tmp_path: Path, rows: int) -> None:
    """Its end may be lost, or its begin: then the entries tell too little."""
    log = Log(tmp_path, rows)
    log.go_on()
    found = log.allocations()
    assert (found.has_segments, found.states) == (False, None)


def test_entries_that_were_left_out(tmp_path: Path) -> None:
    """Before a state they are what it stands for; behind the last one nobody knows what they did."""
    for name, place, is_known in (("before", 2, True), ("behind", 8, False)):
        log = Log(tmp_path / name)
        log.go_on()
        log.builder.fact("allocator.left_out", f"0/{place - 1}")
        log.builder.fact("allocator.left_out", "1/99")  # another device
        assert log.allocations().has_segments is is_known, name


def test_two_states(tmp_path: Path) -> None:
    """Recording ended and began again: one block stayed, one is gone, one came."""
    log = Log(tmp_path)
    log.go_on()
    builder = log.builder
    builder.free(6, BASE + 3 * MIB, MIB + 512, pool=PTA, device=0, flags=SHADOW)
    moment = log.block(EventKind.MALLOC, BASE + 8192, 512, flags=SHADOW) + 1
    log.segment(BASE, 2 * MIB, "small", flags=SHADOW)
    stays = (int(AttributeKey.REQUESTED_BYTES), 5000)
    log.block(EventKind.ALLOCATOR_ALLOC, BASE, 5120, flags=SHADOW, attribute_id=builder.attributes(stays))
    log.block(EventKind.ALLOCATOR_ALLOC, BASE + 8192, 512, flags=SHADOW)
    builder.fact("allocator.state", f"0/{moment}/3")
    log.block(EventKind.ALLOCATOR_FREE, BASE, 5000)
    log.block(EventKind.ALLOCATOR_FREE_COMPLETED, BASE, 5000)
    found = log.allocations()
    actions = [Action(action).name for action in found.actions[9:]]
    assert actions == ["RESTORE", "REQUEST_FREE", "COMPLETE_FREE", "ALLOCATE", "REQUEST_FREE", "COMPLETE_FREE"]
    assert found.blocks[9:].tolist() == [1, 2, 2, 4, 3, 3]
    assert found.recorded_reserved[9:].tolist() == [2 * MIB] * 6
    course = replay(found, read_settings("", DeviceKind.NPU), as_recorded=True, with_course=True).course
    assert course is not None
    assert course["reserved_bytes"][9:].tolist() == [2 * MIB] * 6
    assert course["allocated_bytes"].tolist()[8:] == [MIB + 512 + 5120, *[5632] * 4, 512, 512]
