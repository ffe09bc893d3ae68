"""A capture is read as it was written, whole or not."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log import Capture, CaptureState, PythonFrame
from msmemscope.formats.event_log.layout import FORMAT_VERSION
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.recording import EVENT_SCHEMA
from tests.fakes.event_log_builder import (
    ATEN_START,
    DEVICE_USAGE,
    FUNCTION_CALL,
    MALLOC,
    MARK,
    PTA,
    RESERVED,
    STATE_OPEN,
    Event,
    EventLogBuilder,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def all_events(capture: Capture, rows: int = 1000) -> pl.DataFrame:
    """All events of a capture in one table."""
    return pl.concat([EVENT_SCHEMA.to_frame(), *capture.event_batches(rows)])


def sequences(capture: Capture, rows: int = 1000) -> list[int]:
    """The sequence numbers of all events, as they are read."""
    return list(all_events(capture, rows)["sequence"])


@pytest.mark.parametrize("big_endian", [False, True])
def test_every_field_is_read(builder: EventLogBuilder, *, big_endian: bool) -> None:
    """All fields keep their values, in both byte orders."""
    builder.big_endian = big_endian
    event = Event(
        sequence=2**63 - 5, kind=MALLOC, timestamp_ns=2**60, address=2**64 - 1, size=2**50, thread_id=2**24 - 1,
        device=-2, pool=PTA, flags=3, name_id=7, attribute_id=8, python_stack_id=9, native_stack_id=10, extra=2**64 - 2,
    )  # fmt: skip
    builder.events[0] = [event]
    builder.header_fields = {"session": 2**64 - 1, "dropped_recycled": 3, "python_version_hex": 0x030A0DF0}
    capture = Capture(builder.write())
    table = all_events(capture)
    assert table.schema == EVENT_SCHEMA
    assert table.row(0, named=True) == vars(event)
    assert capture.header.session == 2**64 - 1
    assert capture.header.dropped_recycled == 3
    assert capture.header.python_version_hex == 0x030A0DF0
    assert capture.header.state == CaptureState.CLOSED
    assert capture.header_is_complete


def test_segments_are_merged_in_sequence_order(builder: EventLogBuilder) -> None:
    """Events of several threads come in the one order of the process, in batches of the size asked for."""
    for number in range(1, 101):
        builder.add(ATEN_START, sequence=number, segment=number % 7)
    capture = Capture(builder.write())
    assert sequences(capture) == list(range(1, 101))
    assert [len(batch) for batch in capture.event_batches(30)] == [30, 30, 30, 10]
    assert capture.event_count() == 100


def test_slots_without_commit_marker_are_skipped(builder: EventLogBuilder) -> None:
    """Torn records and holes are no events, wherever they are."""
    builder.zero_slots(3)
    builder.add(ATEN_START)
    builder.torn(timestamp_ns=1, size=5)
    builder.zero_slots(5000)
    builder.add(ATEN_START)
    builder.torn(timestamp_ns=1)
    capture = Capture(builder.write())
    assert sequences(capture) == [1, 2]
    assert capture.event_count() == 2


def test_holes_are_not_read(builder: EventLogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Holes that the flight recorder punched cost no time, even if they are a terabyte."""
    builder.add(ATEN_START, sequence=1)
    directory = builder.write()
    path = builder.log / "events_0.segment"
    record = builder.record(Event(9, ATEN_START))
    os.truncate(path, 1 << 40)
    with path.open("r+b") as file:
        file.seek((1 << 40) - 4096)
        file.write(record)
    if path.stat().st_blocks * 512 > 1 << 30:
        pytest.skip("this file system has no holes")
    read: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, start: int) -> bytes:
        read.append(size)
        return pread(descriptor, size, start)

    monkeypatch.setattr(os, "pread", counted)
    assert sequences(Capture(directory)) == [1, 9]
    assert sum(read) < 1 << 20


def holes_from(position: int, looks: int) -> Callable[[int, int, int], int]:
    """Return an `os.lseek` that finds no data from a position on, whenever it is asked for the first so many times."""
    lseek = os.lseek
    left = looks

    def blind(descriptor: int, start: int, whence: int) -> int:
        nonlocal left
        if whence not in (os.SEEK_DATA, os.SEEK_HOLE) or left == 0:
            return lseek(descriptor, start, whence)
        if whence == os.SEEK_HOLE:
            return min(position, lseek(descriptor, start, whence))
        if start < position:
            return lseek(descriptor, start, whence)
        left -= 1
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))

    return blind


def test_a_hole_that_is_found_once_is_none(builder: EventLogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is written back and leaves memory while a kernel looks for it is no hole, however long it is."""
    builder.add(ATEN_START, sequence=1)
    builder.zero_slots(40_000)
    builder.add(ATEN_START, sequence=2)
    directory = builder.write()
    monkeypatch.setattr(os, "lseek", holes_from(8192, looks=1))
    assert sequences(Capture(directory)) == [1, 2]


def test_short_holes_are_read(builder: EventLogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that takes what was just stored for a hole loses no event of a thread's first chunks."""
    for number in range(1, 501):
        builder.add(ATEN_START, sequence=number)
    directory = builder.write()
    monkeypatch.setattr(os, "lseek", holes_from(16384, looks=1000))
    assert sequences(Capture(directory)) == list(range(1, 501))


def test_kept_records_join_in_order_and_once(builder: EventLogBuilder) -> None:
    """Blocks that the flight recorder kept are not in order, and can be in an events segment as well."""
    for number in (50, 51, 60):
        builder.add(ATEN_START, sequence=number)
    kept = [Event(number, MALLOC, size=8, pool=PTA, device=0) for number in (7, 3, 51, 5)]
    builder.kept[0] = [*kept, bytes(64)]
    builder.kept[1] = [Event(3, MALLOC, size=8, pool=PTA, device=0)]
    capture = Capture(builder.write())
    assert sequences(capture) == [3, 5, 7, 50, 51, 60]
    assert capture.event_count() == 6
    assert capture.kind_counts()[EventKind.MALLOC] == 3


def test_segment_out_of_order_is_put_in_order(builder: EventLogBuilder) -> None:
    """A damaged segment whose numbers do not rise loses no event."""
    for number in (5, 3, 9, 3, 1):
        builder.add(ATEN_START, sequence=number, segment=0)
    builder.add(ATEN_START, sequence=4, segment=1)
    assert sequences(Capture(builder.write())) == [1, 3, 4, 5, 9]


def test_truncated_segments_give_what_is_left(builder: EventLogBuilder) -> None:
    """A file that was cut inside a record ends before that record."""
    for number in range(1, 11):
        builder.add(ATEN_START, sequence=number, segment=number % 2)
    directory = builder.write()
    os.truncate(builder.log / "events_0.segment", 4096 + 2 * 64 + 30)
    assert sequences(Capture(directory)) == [1, 2, 3, 4, 5, 7, 9]


@pytest.mark.parametrize("size", [0, 10, 64, 4096])
def test_segment_without_entries_is_empty(builder: EventLogBuilder, size: int) -> None:
    """A process can be killed at any moment while it creates a segment."""
    builder.add(ATEN_START, segment=0)
    builder.add(ATEN_START, segment=1)
    directory = builder.write()
    path = builder.log / "events_1.segment"
    content = path.read_bytes()[:size] if size >= 64 else bytes(size)
    path.write_bytes(content)
    capture = Capture(directory)
    assert sequences(capture) == [1]
    assert capture.problems == ()


@pytest.mark.parametrize("header", ["missing", "empty", "zeros"])
@pytest.mark.parametrize("big_endian", [False, True])
def test_process_killed_right_at_its_start(builder: EventLogBuilder, header: str, *, big_endian: bool) -> None:
    """Without a header, what the directory's name and the segments tell is enough to read the events."""
    builder.big_endian = big_endian
    builder.add(ATEN_START, name_id=builder.string("op"))
    directory = builder.write(header=False)
    if header != "missing":
        (builder.log / "process.header").write_bytes(bytes(0 if header == "empty" else 4096))
    capture = Capture(directory)
    assert sequences(capture) == [1]
    assert capture.header.process_id == 4242
    assert capture.header.state == CaptureState.OPEN
    assert not capture.header_is_complete
    assert dict(capture.strings) == {1: "op"}
    assert not capture.is_running()


def test_empty_event_log_has_no_events(tmp_path: Path) -> None:
    """A process killed before it wrote anything leaves a capture without events."""
    (tmp_path / "msmemscope_7_20240101000000_ascend" / "event_log").mkdir(parents=True)
    capture = Capture(tmp_path / "msmemscope_7_20240101000000_ascend")
    assert capture.event_count() == 0
    assert list(capture.event_batches()) == []
    assert capture.facts == {}
    assert capture.header.process_id == 7


def test_event_log_directory_is_accepted_itself(builder: EventLogBuilder) -> None:
    """The event log inside the directory of a process leads to the same capture."""
    builder.add(ATEN_START)
    directory = builder.write()
    assert Capture(builder.log).directory == directory


def test_other_directories_are_refused(tmp_path: Path) -> None:
    """A directory without an event log, or with something else in it, is named."""
    with pytest.raises(EventLogError, match="holds no event log"):
        Capture(tmp_path / "missing")
    (tmp_path / "event_log").mkdir()
    (tmp_path / "event_log" / "notes.txt").write_text("hello", encoding="utf-8")
    with pytest.raises(EventLogError, match="holds no event log"):
        Capture(tmp_path)


@pytest.mark.parametrize(
    ("offset", "content", "expected"),
    [
        (0, b"#!/bin/sh\nexit 0\n", "is not the header of an event log"),
        (8, bytes(8), "is not the header of an event log"),
        (16, (99).to_bytes(4, "little"), rf"version 99.*up to {FORMAT_VERSION}"),
        (16, bytes(4), "version 0"),
        (24, (80).to_bytes(4, "little"), "80 bytes"),
        (28, (77).to_bytes(4, "little"), "unknown capture state"),
    ],
)
def test_foreign_or_newer_header_is_refused(
    builder: EventLogBuilder, offset: int, content: bytes, expected: str
) -> None:
    """The message names the file and what is wrong; of a newer version both versions."""
    directory = builder.write()
    with (builder.log / "process.header").open("r+b") as file:
        file.seek(offset)
        file.write(content)
    with pytest.raises(EventLogError, match=expected) as caught:
        Capture(directory)
    assert "process.header" in str(caught.value)


def test_header_cut_short_is_refused(builder: EventLogBuilder) -> None:
    """A header with less than its fields cannot be trusted."""
    directory = builder.write()
    os.truncate(builder.log / "process.header", 100)
    with pytest.raises(EventLogError, match="has 100 bytes"):
        Capture(directory)


def test_newer_segment_is_refused(builder: EventLogBuilder) -> None:
    """A segment of a newer version is not skipped in silence."""
    builder.add(ATEN_START)
    builder.format_version = FORMAT_VERSION + 1
    directory = builder.write(header=False)
    with pytest.raises(
        EventLogError, match=rf"events_0\.segment .*format version {FORMAT_VERSION + 1}.*up to {FORMAT_VERSION}"
    ):
        Capture(directory)


def test_older_versions_are_read(builder: EventLogBuilder) -> None:
    """A log of the first version has no other form; its kinds are only fewer."""
    builder.add(ATEN_START)
    builder.format_version = 1
    assert sequences(Capture(builder.write())) == [1]


def test_kinds_without_rows_make_no_device(builder: EventLogBuilder) -> None:
    """A device without other records needs no folder of its own."""
    builder.add(ATEN_START, device=1)
    builder.add(RESERVED, device=2)
    builder.add(DEVICE_USAGE, device=3)
    builder.add(FUNCTION_CALL, device=4)
    assert Capture(builder.write()).devices() == (1,)


def test_files_that_are_no_segments_are_left_out_and_named(builder: EventLogBuilder, tmp_path: Path) -> None:
    """Foreign files, links and pipes in the event log do not hide the rest, and are not followed."""
    builder.add(ATEN_START)
    builder.string("op")
    directory = builder.write()
    (builder.log / "events_1.segment").write_bytes(b"something else" * 1000)
    (tmp_path / "secret").write_bytes((builder.log / "events_0.segment").read_bytes())
    (builder.log / "events_2.segment").symlink_to(tmp_path / "secret")
    os.mkfifo(builder.log / "events_3.segment")
    (builder.log / "definitions_1.segment").write_bytes((builder.log / "events_0.segment").read_bytes())
    (builder.log / "unrelated.txt").write_text("not ours", encoding="utf-8")
    capture = Capture(directory)
    assert sequences(capture) == [1]
    assert capture.strings[1] == "op"
    assert [problem.split()[0].rsplit("/", 1)[1] for problem in capture.problems] == [
        "events_1.segment", "events_2.segment", "events_3.segment", "definitions_1.segment",
    ]  # fmt: skip


def test_devices_come_with_accelerators_first(builder: EventLogBuilder) -> None:
    """Devices that function calls, or damaged records, name do not count."""
    for device in (-2, 3, -1, 0, -100):
        builder.add(ATEN_START, device=device)
    builder.add(FUNCTION_CALL, device=5)
    assert Capture(builder.write()).devices() == (0, 3, DEVICE_CPU)


def test_facts_keep_their_order(builder: EventLogBuilder) -> None:
    """A key can repeat; for settings the last value holds."""
    for key, value in (
        ("argument", "python"),
        ("setting.events", "alloc"),
        ("argument", "a=b"),
        ("setting.events", ""),
    ):
        builder.fact(key, value)
    capture = Capture(builder.write())
    assert capture.facts == {"argument": ("python", "a=b"), "setting.events": ("alloc", "")}
    assert capture.setting("events") == ""
    assert capture.setting("output", "here") == "here"


@pytest.mark.parametrize("big_endian", [False, True])
def test_stacks_and_functions_are_rendered(builder: EventLogBuilder, *, big_endian: bool) -> None:
    """Stacks are one line per frame, innermost first; ids that nobody defined stay readable."""
    builder.big_endian = big_endian
    code = compile("def f():\n    a\n\n    b()\n", "model.py", "exec").co_consts[0]
    table_format = 1 if sys.version_info[:2] == (3, 10) else 2
    inner = builder.code("model.py", "f", 1, code.co_linetable, table_format)
    outer = builder.code("/x/train.py", "<module>", 10)
    offset = next(start for start, _, line in code.co_lines() if line == 4)
    stack = builder.python_stack((inner, offset), (outer, 2), (99, 0))
    native = builder.native_stack(0x1234, 0xFFFF_FFFF_FFFF)
    capture = Capture(builder.write())
    assert capture.python_stack_frames(stack)[:2] == [
        PythonFrame("model.py", 4, "f"), PythonFrame("/x/train.py", 10, "<module>"),
    ]  # fmt: skip
    assert capture.python_stack_text(stack) == "model.py(4): f\n/x/train.py(10): <module>\n<unknown>(0): <unknown>\n"
    assert capture.native_stack_text(native) == "[0x1234]\n[0xffffffffffff]\n"
    assert capture.function_text(outer) == "/x/train.py(10): <module>"
    assert [capture.python_stack_text(0), capture.native_stack_text(0), capture.python_stack_text(77)] == ["", "", ""]
    frame = capture.python_stack_frame(pl.Series([stack, 0, stack, 77], dtype=pl.UInt32))
    assert dict(frame.iter_rows()) == {stack: capture.python_stack_text(stack), 77: ""}


def test_string_frame_names_the_ids_in_use(builder: EventLogBuilder) -> None:
    """Only the ids asked for are there, each once, and 0 is none of them."""
    ids = [builder.string(text) for text in ("a", "b", "ü")]
    capture = Capture(builder.write())
    frame = capture.string_frame(pl.Series([0, ids[2], ids[0], ids[2], 50], dtype=pl.UInt32))
    assert dict(frame.iter_rows()) == {ids[0]: "a", ids[2]: "ü", 50: "<unknown>"}
    assert frame.schema == {"id": pl.UInt32(), "text": pl.String()}


@pytest.mark.parametrize("big_endian", [False, True])
def test_torn_definitions_do_not_hide_later_ones(builder: EventLogBuilder, *, big_endian: bool) -> None:
    """Reading goes on at the next place where an entry can begin."""
    builder.big_endian = big_endian
    builder.string("first")
    torn = builder._pack("IHHII", 0, 1, 0, 77, 24) + b"torn".ljust(24)
    builder.raw_definition(torn)
    builder.string("second")
    builder.raw_definition(builder._pack("IHHII", 0x4645444D, 1, 0, 78, 2**31))  # longer than the file
    builder.string("third")
    builder.raw_definition(builder._pack("IHHII", 0x4645444D, 99, 0, 79, 0))  # no such kind
    builder.raw_definition(bytes(4096))
    builder.string("fourth")
    capture = Capture(builder.write())
    assert list(capture.strings.values()) == ["first", "second", "third", "fourth"]
    assert len(capture.strings) == 4


def test_damaged_payloads_read_as_unknown(builder: EventLogBuilder) -> None:
    """Payloads that are too short, or no text, are no reason to give up."""
    bad_text = builder.define(1, b"\xff\xfeabc", family="string")
    short_code = builder.define(2, b"1234", family="code")
    odd_stack = builder.define(3, bytes(range(13)), family="python_stack")
    builder.define(5, b"short", family=None)
    builder.define(6, b"no equals sign", family=None)
    capture = Capture(builder.write())
    assert capture.strings[bad_text] == "\ufffd\ufffdabc"
    assert capture.function_text(short_code) == "<unknown>(0): <unknown>"
    assert len(capture.python_stack_frames(odd_stack)) == 1
    assert capture.definitions.modules == ()
    assert capture.facts == {"no equals sign": ("",)}


def start_ticks_of_this_process() -> int:
    """When this process began, as the kernel says it."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[19])


def test_running_process_is_told_from_a_later_one_of_the_same_id(builder: EventLogBuilder) -> None:
    """Process id and start time together name one process."""
    ticks = start_ticks_of_this_process()
    builder.process_id = os.getpid()
    builder.state = STATE_OPEN
    builder.header_fields = {"process_start_ticks": ticks}
    assert Capture(builder.write()).is_running()
    builder.header_fields = {"process_start_ticks": ticks + 1}
    assert not Capture(builder.write()).is_running()
    builder.process_id = 2**22 + 1  # larger than any process id
    assert not Capture(builder.write()).is_running()


@pytest.mark.parametrize("first", ["events", "definitions"])
def test_a_running_process_is_read(builder: EventLogBuilder, first: str) -> None:
    """Which events count stands in the definitions, which are read after the events."""
    builder.malloc(0x1000, 64)
    counted = builder.malloc(0x2000, 64)
    builder.fact("events.from", str(counted))
    builder.process_id = os.getpid()
    builder.state = STATE_OPEN
    builder.header_fields = {"process_start_ticks": start_ticks_of_this_process()}
    capture = Capture(builder.write())
    assert capture.is_running()
    if first == "definitions":
        assert capture.facts["events.from"] == (str(counted),)
    assert capture.event_count() == 1
    assert pl.concat(capture.event_batches())["sequence"].to_list() == [counted]


def test_very_many_segments(builder: EventLogBuilder) -> None:
    """Blocks of many segments are smaller, so that all of them together stay within the memory set aside."""
    for number in range(1, 2001):
        builder.add(ATEN_START, sequence=number, segment=number % 50)
    capture = Capture(builder.write())
    assert sequences(capture, rows=64) == list(range(1, 2001))
    assert [segment.in_order for segment in capture._survey.segments] == [True] * 50


def test_what_was_taken_back_does_not_count(builder: EventLogBuilder) -> None:
    """The log says from which event on it counts; nothing before it is an event of the capture."""
    early = builder.malloc(0x1000, 64)
    builder.add(MARK, name_id=builder.string("early"), segment=1)
    first = builder.malloc(0x1000, 64)
    builder.add(MARK, name_id=builder.string("late"), segment=1)
    builder.fact("events.from", str(first))
    builder.fact("events.from", "no number")
    capture = Capture(builder.write())
    assert early < first
    assert pl.concat(capture.event_batches())["sequence"].to_list() == [first, first + 1]
    assert capture.event_count() == 2
    assert capture.problems == ()
