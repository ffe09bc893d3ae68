"""Reading a log that is still being written: nothing twice, nothing left out, nothing changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.followed_log import KEPT_SEGMENT, FollowedLog
from msmemscope.live.followed_capture import FollowedCapture
from msmemscope.live.snapshot import Life
from tests.fakes.event_log_builder import HOST, MALLOC, STATE_OPEN, Event, EventLogBuilder

RECORD_BYTES = 64
BLOCKS_OFFSET = 4096 + (256 << 10)
CHUNK_BYTES = 256 << 10
CHUNK_RECORDS = CHUNK_BYTES // RECORD_BYTES


def sequences_of(log: FollowedLog) -> list[int]:
    """Everything that is there now."""
    found: list[int] = []
    while True:
        records = log.read().records
        if not len(records):
            return found
        found.extend(records["sequence"].tolist())


def punch(path: Path, start: int, size: int) -> None:
    """Give a part of a file back to the disk, as the flight recorder does."""
    content = path.read_bytes()
    with path.open("wb") as file:
        file.write(content[:start])
        file.truncate(start + size)
        file.seek(start + size)
        file.write(content[start + size :])


@pytest.mark.parametrize("tail_records", [None, 64])
def test_threads_are_merged_in_order(tail_records: int | None, tmp_path: Path) -> None:
    """Each event once, however many segments there are, and also where a new one comes later."""
    log = EventLogBuilder(tmp_path, tail_records=tail_records)
    for number in range(2000):
        log.malloc(0x1000, 64, segment=number * 7 % 5)
    log.write()
    followed = FollowedLog(log.directory)
    assert sequences_of(followed) == list(range(1, 2001))
    log.malloc(0x1000, 64, segment=9)
    log.write()
    assert sequences_of(followed) == [2001]
    assert sequences_of(followed) == []


def test_what_is_not_committed_is_read_once_it_is(tmp_path: Path) -> None:
    """Also behind a slot that was torn, once the file has grown beyond it."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 64)
    log.torn()
    log.write()
    followed = FollowedLog(log.directory)
    assert sequences_of(followed) == [1]
    log.events[0][-1] = Event(2, MALLOC, address=0x2000, size=64, pool=HOST)
    log.write()
    assert sequences_of(followed) == [2]
    log.zero_slots(3)
    log.add(MALLOC, size=64, sequence=7)
    log.segment_bytes *= 2
    log.write()
    assert sequences_of(followed) == [7]
    assert followed.missed == 0


def test_a_tail_becomes_a_block_while_it_is_read(tmp_path: Path) -> None:
    """However much of it had been read, and when the process is killed in between."""
    log = EventLogBuilder(tmp_path, tail_records=100)
    expected = [log.malloc(0x1000, 64)]
    log.write()
    followed = FollowedLog(log.directory)
    found = sequences_of(followed)
    for turn in range(60):
        expected.extend(log.malloc(0x1000, 64) for _ in range(turn * 37 % 130 if turn % 4 else -len(expected) % 100))
        log.is_cut_off_between = turn % 8 == 0
        log.write()
        assert followed.unread_events() == len(expected) - len(found)
        found.extend(sequences_of(followed))
        assert found == expected
    assert (followed.missed, followed.damaged, followed.unread_events()) == (0, 0, 0)


def test_blocks_that_were_given_back_are_counted(tmp_path: Path) -> None:
    """Blocks that were read while they were the tail do not count as missed."""
    log = EventLogBuilder(tmp_path, tail_records=100, header_fields={"maximum_log_bytes": 1 << 20})
    expected = [log.malloc(0x1000, 64) for _ in range(150)]
    log.write()
    followed = FollowedLog(log.directory)
    assert sequences_of(followed) == expected
    new = [log.malloc(0x1000, 64) for _ in range(500)]
    log.write()
    punch(log.log / "events_0.segment", BLOCKS_OFFSET, 4 * 4096)
    assert followed.first_sequences().tolist() == [401]
    assert sequences_of(followed) == [number for number in new if number > 400]
    assert followed.missed == 250
    again = FollowedLog(log.directory)
    assert sequences_of(again) == [number for number in new if number > 400]
    assert again.missed == 400


def test_a_damaged_block_is_left_out(tmp_path: Path) -> None:
    """And the blocks behind it are read."""
    log = EventLogBuilder(tmp_path, tail_records=100)
    numbers = [log.malloc(0x1000, 64) for _ in range(350)]
    log.write()
    with (log.log / "events_0.segment").open("r+b") as file:
        file.seek(BLOCKS_OFFSET + 4096 + 32)
        file.write(b"\xff" * 400)
    followed = FollowedLog(log.directory)
    found = sequences_of(followed)
    assert followed.damaged >= 100
    assert found == [number for number in numbers if not 100 < number <= 200]


def test_a_large_log_is_read_in_parts(tmp_path: Path) -> None:
    """Memory stays bounded: an answer has at most what all segments may hold together."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 64)
    log.write()
    record = np.frombuffer(log.record(Event(1, MALLOC, size=64, pool=HOST)), np.uint8)
    count = 600_000
    records = np.tile(record, (count, 1))
    records[:, :8] = np.arange(1, count + 1, dtype="<u8").view(np.uint8).reshape(count, 8)
    path = log.log / "events_0.segment"
    path.write_bytes(path.read_bytes()[:4096] + records.tobytes())
    followed = FollowedLog(log.directory)
    lengths = []
    while True:
        found = followed.read()
        if not len(found.records):
            break
        lengths.append(len(found.records))
        assert found.has_more or sum(lengths) == count
    assert sum(lengths) == count
    assert max(lengths) < 300_000
    assert followed.unread_events() == 0


@pytest.mark.parametrize("looked_before", [False, True])
def test_what_the_flight_recorder_gave_back(*, looked_before: bool, tmp_path: Path) -> None:
    """It is counted; blocks that are in use are known from their copies, and those whose end was missed are gone."""
    log = EventLogBuilder(tmp_path, header_fields={"maximum_log_bytes": 1 << 20})
    first = log.malloc(0x1000, 1000)
    ended_unseen = log.malloc(0x2000, 500)
    for _ in range(10):
        log.add(30)
    log.write()
    capture = FollowedCapture(log.directory)
    if looked_before:
        capture.refresh()
        assert capture.now().pools[0].in_use_bytes == 1500
    log.free(ended_unseen, 0x2000, 500)
    missed = log.malloc(0x3000, 70)
    while len(log.events[0]) < 8 * CHUNK_RECORDS:
        log.add(30)
    last = log.malloc(0x4000, 8)
    log.free(missed, 0x3000, 70, segment=1)
    later = log.malloc(0x5000, 3)
    events = {slot.sequence: slot for slot in log.events[0] if isinstance(slot, Event)}
    log.kept = {0: [events[first], events[missed]]}
    log.segment_bytes = 4096 + 10 * CHUNK_BYTES
    log.write()
    punch(log.log / "events_0.segment", 4096, 8 * CHUNK_BYTES)
    capture.refresh()
    now = capture.now()
    assert sorted(capture.state.blocks["sequence"].tolist()) == [first, last, later]
    assert now.pools[0].in_use_bytes == 1000 + 8 + 3
    before = 12 if looked_before else 0
    assert now.missed_events == (8 * CHUNK_RECORDS - before if looked_before else 0)
    assert now.missed_before_events == (0 if looked_before else 8 * CHUNK_RECORDS)
    assert (KEPT_SEGMENT in capture.state.blocks["segment"]) is not looked_before
    capture.refresh()
    assert capture.now().pools[0].in_use_bytes == 1011


def test_a_block_that_was_kept_and_has_ended_unseen(tmp_path: Path) -> None:
    """Its copy is withdrawn when its FREE goes."""
    log = EventLogBuilder(tmp_path, header_fields={"maximum_log_bytes": 1 << 20})
    kept = log.malloc(0x1000, 1000)
    record = log.events[0][0]
    log.events[0] = [bytes(RECORD_BYTES)]
    log.add(30)
    log.kept = {0: [record]}
    log.write()
    capture = FollowedCapture(log.directory)
    capture.refresh()
    assert capture.state.blocks["sequence"].tolist() == [kept]
    log.zero_slots(5)
    log.add(30)
    log.kept = {0: [bytes(RECORD_BYTES)]}
    log.segment_bytes *= 2
    log.write()
    capture.refresh()
    now = capture.now()
    assert (len(capture.state.blocks), now.pools[0].in_use_bytes, now.missed_events) == (0, 0, 5)


def test_files_are_opened_for_reading_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is created, written, locked or mapped. Times of files stay as they are, except that of reading."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 64, python_stack_id=log.python_stack((log.code("a.py", "f", 1), 0)))
    log.kept = {0: [Event(1, MALLOC, size=64, pool=HOST)]}
    log.write()
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns, stat.S_IMODE(path.stat().st_mode))
        for path in log.log.iterdir()
    }
    flags: list[int] = []
    real_open = os.open

    def watched(path: Any, how: int, *arguments: Any, **options: Any) -> int:
        flags.append(how)
        return real_open(path, how, *arguments, **options)

    monkeypatch.setattr(os, "open", watched)
    capture = FollowedCapture(log.directory)
    for _ in range(3):
        capture.refresh()
        capture.now()
    assert flags
    assert not any(how & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND) for how in flags)
    after = {
        path: (path.read_bytes(), path.stat().st_mtime_ns, stat.S_IMODE(path.stat().st_mode))
        for path in log.log.iterdir()
    }
    assert after == before


def test_definitions_that_come_later_are_known(tmp_path: Path) -> None:
    """Names and stacks are read on, also where a new chunk begins."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 64, name_id=log.string("one"))
    log.write()
    followed = FollowedLog(log.directory)
    followed.read_definitions()
    assert dict(followed.strings) == {1: "one"}
    log.raw_definition(bytes(4096))
    log.string("two")
    log.fact("argument", "train.py")
    log.segment_bytes *= 2
    log.write()
    followed.read_definitions()
    assert dict(followed.strings) == {1: "one", 2: "two"}
    assert followed.definitions.facts["argument"] == ("train.py",)
    followed.read_definitions()
    assert followed.definitions.facts["argument"] == ("train.py",)


def test_damaged_records_are_left_out_and_counted(tmp_path: Path) -> None:
    """Numbers that fall, and sizes that cannot be."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 64, sequence=5)
    log.events[0].append(Event(3, MALLOC, size=64, pool=HOST))
    log.malloc(0x1000, 1 << 60, sequence=6)
    log.malloc(0x1000, 64, sequence=7)
    log.write()
    (log.log / "events_1.segment").write_text("something else")
    capture = FollowedCapture(log.directory)
    capture.refresh()
    now = capture.now()
    assert now.event_count == 2
    assert any("not a segment" in problem for problem in now.problems)
    assert "2 records are damaged and left out" in now.problems


def test_a_capture_that_goes_away(tmp_path: Path) -> None:
    """An error of ours."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 64)
    log.write()
    capture = FollowedCapture(log.directory)
    capture.refresh()
    for path in log.log.iterdir():
        path.unlink()
    with pytest.raises(EventLogError):
        capture.refresh()
    with pytest.raises(EventLogError):
        FollowedCapture(tmp_path)


def test_whether_the_program_still_runs(tmp_path: Path) -> None:
    """A process is known by its number and its start: no other process has both."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    for fields, life in (
        ({"process_start_ticks": ticks}, Life.RUNNING),
        ({"process_start_ticks": ticks + 1}, Life.KILLED),
        ({}, Life.KILLED),
    ):
        log = EventLogBuilder(tmp_path / life.name, process_id=os.getpid(), state=STATE_OPEN, header_fields=fields)
        log.malloc(0x1000, 64)
        log.write()
        capture = FollowedCapture(log.directory)
        capture.refresh()
        assert capture.now().life is life
        log.add(30)
        log.write()
        capture.refresh()
        assert capture.now().life is (Life.ELSEWHERE if life is Life.KILLED else life)
    log.state = 2
    log.write()
    capture.refresh()
    assert capture.now().life is Life.ENDED


@pytest.mark.parametrize("position", [0, 4096, BLOCKS_OFFSET + 1, 1 << 40, 1 << 62, (1 << 64) - 4096])
def test_a_header_that_says_nonsense_of_the_tail_ends(position: int, tmp_path: Path) -> None:
    """The size of the file bounds the search, and blocks are read as far as they go."""
    log = EventLogBuilder(tmp_path, tail_records=100)
    numbers = [log.malloc(0x1000, 64) for _ in range(250)]
    log.write()
    with (log.log / "events_0.segment").open("r+b") as file:
        file.seek(24)
        file.write(position.to_bytes(8, "little"))
    followed = FollowedLog(log.directory)
    assert sequences_of(followed)[:200] == numbers[:200]
    assert followed.unread_events() <= 50
    assert followed.first_sequences().tolist() == [1]
    assert Capture(log.directory).event_count() >= 200
