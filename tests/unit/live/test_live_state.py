"""Events that are folded piece by piece say what the recording of all of them says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.owners.ownership import find_owners
from msmemscope.formats.event_log.followed_log import FollowedLog
from msmemscope.formats.event_log.layout import RECORD
from msmemscope.formats.reading import load_all
from msmemscope.live.followed_capture import FollowedCapture
from msmemscope.live.live_blocks import device_and_pool
from msmemscope.live.live_state import LiveState
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.events import EventKind
from msmemscope.recording import Recording
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.timeline import memory_curve, peak_moments
from tests.fakes.event_log_builder import CPU, HOST, MALLOC, PTA, STEP, Event, EventLogBuilder
from tests.support.nightly import examples

PLACES = [(HOST, CPU), (PTA, 0), (PTA, 1), (1, 0), (7, 1024)]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "malloc", "malloc", "free", "again", "step", "implied", "range", "owner", "other"]),
        st.integers(0, 30),
        st.sampled_from(PLACES),
        st.integers(0, 2),
    ),
    max_size=60,
)
LABELS = ["3model@weight", "3model@activation", "5mine", "2profile", "6your\n5their"]


def write_log(root: Path, actions: list[tuple[str, int, tuple[int, int], int]]) -> EventLogBuilder:
    """A log of a random run on three threads, with each its segment; frees can name what is freed already."""
    log = EventLogBuilder(root, format_version=7)
    stacks = [log.python_stack((log.code(f"/home/me/{name}.py", "step", 7), 0)) for name in "ab"]
    pinned = log.attributes((int(AttributeKey.IS_PINNED), 1))
    module = log.attributes((int(AttributeKey.MODULE), "RUNTIME"))
    sources = [log.attributes((int(AttributeKey.STEP_SOURCE), word)) for word in ("optimizer", "module")]
    step_name, other_name = log.string("step start"), log.string("aten.mm")
    alive: list[tuple[int, int]] = []
    gone: list[tuple[int, int]] = []
    ranges: list[int] = []
    for action, number, (pool, device), segment in actions:
        fields: dict[str, Any] = {"segment": segment, "device": device, "pool": pool}
        if action == "malloc":
            attribute = (pinned if number == 7 else 0) if pool == HOST else module * (pool == 1)
            size = 512 * (number + 1)
            sequence = log.malloc(
                0x1000 * number,
                size,
                name_id=other_name * (number % 2),
                python_stack_id=[0, *stacks][number % 3],
                attribute_id=attribute,
                extra=log.labels(LABELS[number % len(LABELS)]) if number > 20 else 0,
                **fields,
            )
            alive.append((sequence, size))
        elif action == "free" and alive:
            block = alive.pop(number % len(alive))
            gone.append(block)
            log.free(block[0], 0, block[1], **fields)
        elif action == "again" and gone:
            log.free(gone[number % len(gone)][0], 0, 1, **fields)
        elif action == "step":
            log.add(STEP, size=number, segment=segment, device=device)
        elif action == "implied":
            log.add(int(EventKind.IMPLIED_STEP), attribute_id=sources[number % 2], segment=segment, device=device)
        elif action == "range":
            if ranges and number % 2:
                log.add(int(EventKind.RANGE_END), extra=ranges.pop(), segment=segment)
            else:
                ranges.append(log.add(int(EventKind.RANGE_START), extra=1000 + number, name_id=step_name, device=0))
                log.events[0][-1] = Event(ranges[-1], int(EventKind.RANGE_START), extra=ranges[-1], name_id=step_name)
        elif action == "owner" and alive:
            log.owner(alive[number % len(alive)][0], LABELS[number % len(LABELS)], segment=segment)
        elif action == "other":
            kind = [EventKind.OOM, EventKind.RESERVED, EventKind.MARK][number % 3]
            log.add(int(kind), size=number, **fields)
    log.write()
    return log


def records_of(log: EventLogBuilder) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All records in sequence order, and the segment of each."""
    slots = [(slot, segment) for segment, events in log.events.items() for slot in events if isinstance(slot, Event)]
    slots.sort(key=lambda one: one[0].sequence)
    content = b"".join(log.record(event) for event, _ in slots)
    return np.frombuffer(content, RECORD), np.array([segment for _, segment in slots], np.uint32)


def check_against_recording(state: LiveState, recording: Recording) -> None:
    """Both agree in all that they both know."""
    blocks = recording.blocks
    in_use = blocks.filter(pl.col("free_sequence").is_null())
    for place, pool in state.pools.items():
        device, number = device_and_pool(place)
        here = (pl.col("device") == device) & (pl.col("pool") == number)
        assert pool.in_use_bytes == in_use.filter(here)["size"].sum()
        peaks = peak_moments(blocks.filter(here))
        assert pool.peak_bytes == (0 if peaks.is_empty() else peaks["peak_bytes"][0])
        assert max(pool.history.most_bytes, default=0) == pool.peak_bytes
        reserved = recording.events.filter(here & (pl.col("kind") == EventKind.RESERVED))["size"]
        assert pool.reserved_bytes == (reserved[-1] if len(reserved) else None)
    assert {device_and_pool(place) for place in state.pools} >= set(
        blocks.select("device", "pool").unique().iter_rows()
    )
    keys = [*STACK_COLUMNS, "size"]
    assert state.blocks.frame().select(keys).equals(in_use.select(keys))
    assert state.event_count == recording.events.height
    assert state.failed_attempts == recording.events.filter(pl.col("kind") == EventKind.OOM).height
    assert state.steps.count == recording.steps["end_sequence"].drop_nulls().len()
    if state.steps.count:
        assert state.steps.source == recording.step_source


@examples(by_day=25)
@given(ACTIONS, st.lists(st.integers(0, 80), max_size=6))
def test_random_cuts_fold_to_what_the_recording_says(
    actions: list[tuple[str, int, tuple[int, int], int]], cuts: list[int]
) -> None:
    """In use, peaks, call sites, steps and failures do not depend on where a look fell."""
    with tempfile.TemporaryDirectory() as folder:
        log = write_log(Path(folder), actions)
        meanings = FollowedLog(log.directory)
        meanings.read_definitions()
        state = LiveState(meanings)
        records, segments = records_of(log)
        for part in zip(np.split(records, sorted(cuts)), np.split(segments, sorted(cuts)), strict=True):
            state.fold(*part)
        (recording,) = load_all(log.directory)
        check_against_recording(state, recording)
        assert state.late_events == 0


@examples(by_day=15)
@given(ACTIONS, st.integers(1, 5))
def test_a_log_that_grows_is_read_like_one_that_is_whole(
    actions: list[tuple[str, int, tuple[int, int], int]], looks: int
) -> None:
    """Segment after segment, event after event; the texts that are shown are those of the recording, too."""
    with tempfile.TemporaryDirectory() as folder:
        log = write_log(Path(folder), actions)
        whole = {number: list(events) for number, events in log.events.items()}
        last = max(
            (event.sequence for events in whole.values() for event in events if isinstance(event, Event)), default=0
        )
        capture = None
        for look in range(looks + 1):
            until = last * look // looks
            log.events = {
                number: [event for event in events if isinstance(event, Event) and event.sequence <= until]
                for number, events in whole.items()
            }
            log.write()
            capture = capture or FollowedCapture(log.directory)
            capture.refresh()
        assert capture is not None
        (recording,) = load_all(log.directory)
        check_against_recording(capture.state, recording)
        check_texts(capture, recording, log)


def check_texts(capture: FollowedCapture, recording: Recording, log: EventLogBuilder) -> None:
    """Call sites by their lines, and owners, are those of the recording."""
    now = capture.now()
    in_use = recording.blocks.filter(pl.col("free_sequence").is_null())
    sites = in_use.join(call_sites(recording, in_use), on=STACK_COLUMNS, maintain_order="left")
    expected = dict(sites.group_by("site").agg(pl.col("size").sum()).iter_rows())
    found: dict[str, int] = {}
    for pool in now.pools:
        assert pool.other_sites_bytes == 0
        for site in pool.sites:
            found[site.site] = found.get(site.site, 0) + site.size_bytes
    assert found == expected
    meanings = FollowedLog(log.directory)
    meanings.read_definitions()
    owners = find_owners([recording.events], meanings.strings, meanings.attribute_frame).owners.cast(
        {"owner": pl.String}
    )
    owned = in_use.drop("owner").join(owners, left_on="malloc_sequence", right_on="sequence")
    expected_owners = dict(owned.group_by("owner").agg(pl.col("size").sum()).iter_rows())
    found_owners: dict[str, int] = {}
    for pool in now.pools:
        for owner in pool.owners:
            found_owners[owner.owner] = found_owners.get(owner.owner, 0) + owner.size_bytes
    assert found_owners == expected_owners


def test_the_history_is_that_of_the_recording(tmp_path: Path) -> None:
    """A peak of one event is seen however long the program runs, and stays."""
    log = EventLogBuilder(tmp_path)
    for number in range(3000):
        block = log.malloc(0x1000, 4096 if number != 700 else 1 << 30, timestamp_ns=10**18 + number * 10**9)
        log.free(block, 0x1000, 0, timestamp_ns=10**18 + number * 10**9 + 5)
    log.write()
    capture = FollowedCapture(log.directory)
    capture.refresh()
    (pool,) = capture.now().pools
    assert len(pool.history_bytes) <= 256
    assert max(pool.history_bytes) == pool.peak_bytes == 1 << 30
    (recording,) = load_all(log.directory)
    curve = memory_curve(recording.blocks, 100)
    assert curve is not None
    place = pool.history_bytes.index(1 << 30) / (3000e9 / pool.history_stretch_ns)
    assert abs(place - curve.most_bytes.index(1 << 30) / 100) < 0.02


def test_a_free_that_is_read_in_front_of_its_block(tmp_path: Path) -> None:
    """As where a thread was held up: the block is not in use for ever."""
    log = EventLogBuilder(tmp_path)
    first = log.malloc(0x1000, 512)
    second = log.malloc(0x2000, 1024)
    log.free(first, 0x1000, 512)
    log.write()
    records, segments = records_of(log)
    state = LiveState(FollowedLog(log.directory))
    state.fold(records[1:], segments[1:])
    state.fold(records[:1], segments[:1])
    (pool,) = state.pools.values()
    assert pool.in_use_bytes == 1024
    assert state.blocks["sequence"].tolist() == [second]
    assert state.late_events == 1


def test_growth_is_that_of_the_latest_steps(tmp_path: Path) -> None:
    """Memory that the first step sets up does not count."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 1 << 30)
    for number in range(5):
        log.malloc(0x1000, 1 << 20)
        log.add(STEP, size=number + 1)
    log.write()
    capture = FollowedCapture(log.directory)
    capture.refresh()
    assert [pool.growth_per_step_bytes for pool in capture.now().pools] == [1 << 20]
    assert capture.now().step_count == 5


def test_what_was_not_asked_for_does_not_count(tmp_path: Path) -> None:
    """The fact `events.from` can come after what it takes back has been read."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 512)
    log.add(STEP, size=1)
    log.write()
    capture = FollowedCapture(log.directory)
    capture.refresh()
    assert capture.now().event_count == 2
    log.fact("events.from", "3")
    log.events[0].append(Event(3, MALLOC, address=0x9000, size=64, pool=HOST))
    log.write()
    capture.refresh()
    now = capture.now()
    assert (now.event_count, now.step_count, now.pools[0].in_use_bytes, now.pools[0].peak_bytes) == (1, 0, 64, 64)
