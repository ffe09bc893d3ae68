"""Some properties hold for every event log, whatever happened to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log import Capture
from tests.fakes.event_log_builder import ATEN_START, EventLogBuilder
from tests.support.nightly import examples

BLOCKS_OFFSET = 266_240
FILES = ("process.header", "events_0.segment", "events_1.segment", "kept_0.segment", "definitions_0.segment")


def read_everything(directory: Path) -> list[int]:
    """Read all that a capture has, and return the sequence numbers."""
    capture = Capture(directory)
    numbers = [number for batch in capture.event_batches(7) for number in batch["sequence"]]
    assert len(numbers) == capture.event_count()
    _ = capture.facts, dict(capture.strings), capture.definitions.modules, capture.devices()
    for code_id in capture.definitions.code_ids():
        capture.function_text(code_id)
    for stack_id in capture.definitions.python_stack_ids():
        capture.python_stack_text(stack_id)
    for stack_id in capture.definitions.native_stack_ids():
        capture.native_stack_text(stack_id)
    return numbers


def read_if_possible(directory: Path) -> tuple[list[int], str | None]:
    """Read all that a capture has; the message if it is refused. Any other error fails the test."""
    try:
        return read_everything(directory), None
    except EventLogError as error:
        return [], str(error)


def filled(root: Path, tail_records: int | None) -> EventLogBuilder:
    """An event log with something of everything in it."""
    builder = EventLogBuilder(root, tail_records=tail_records)
    builder.fact("argument", "x")
    stack = builder.python_stack((builder.code("a.py", "f", 3, b"\x80\x01\xd8", 2), 2))
    native = builder.native_stack(0x1010, 0x2020)
    builder.module("/nowhere/lib.so", 0x1000, 0x2000, load_bias=0x1000)
    for number in range(1, 40):
        block = builder.malloc(number * 64, 64, segment=number % 2, python_stack_id=stack, native_stack_id=native)
        builder.free(block, number * 64, 64, segment=number % 3 % 2)
    builder.kept[0] = builder.events[0][5:9]
    return builder


tails = st.sampled_from([None, 7])
places = st.one_of(st.integers(0, 1 << 14), st.integers(BLOCKS_OFFSET, BLOCKS_OFFSET + 20_000))
slots = st.one_of(st.just("event"), st.just("torn"), st.just("zeros"))


@examples(by_day=50)
@given(
    steps=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 1000)), max_size=150),
    rows=st.integers(1, 50),
    tail_records=st.integers(1, 20),
    is_cut_off_between=st.booleans(),
    big_endian=st.booleans(),
)
def test_packed_segments_are_put_in_order(
    steps: list[tuple[int, int]], rows: int, tail_records: int, *, is_cut_off_between: bool, big_endian: bool
) -> None:
    """Wherever tails became blocks, and when the process was killed right then."""
    with tempfile.TemporaryDirectory() as root:
        builder = EventLogBuilder(
            Path(root), tail_records=tail_records, is_cut_off_between=is_cut_off_between, big_endian=big_endian
        )
        number, expected = 0, []
        for segment, gap in steps:
            number += gap
            expected.append(builder.malloc(gap * 64, gap, sequence=number, segment=segment))
        capture = Capture(builder.write())
        batches = list(capture.event_batches(rows))
    assert [number for batch in batches for number in batch["sequence"]] == expected
    assert [size for batch in batches for size in batch["size"]] == [gap for _, gap in steps]
    assert all(len(batch) == rows for batch in batches[:-1])
    assert capture.problems == ()


@examples(by_day=50)
@given(st.lists(st.tuples(slots, st.integers(0, 5), st.integers(1, 1000)), max_size=150), st.integers(1, 50))
def test_any_interleaving_is_put_in_order(steps: list[tuple[str, int, int]], rows: int) -> None:
    """However events are spread over segments, and whatever lies between them, their order comes back."""
    expected = []
    with tempfile.TemporaryDirectory() as root:
        builder = EventLogBuilder(Path(root))
        number = 0
        for kind, segment, gap in steps:
            if kind == "event":
                number += gap
                expected.append(builder.add(ATEN_START, sequence=number, segment=segment))
            elif kind == "torn":
                builder.torn(segment=segment, timestamp_ns=gap)
            else:
                builder.zero_slots(gap % 9, segment=segment)
        capture = Capture(builder.write())
        batches = [list(batch["sequence"]) for batch in capture.event_batches(rows)]
    assert [number for batch in batches for number in batch] == expected
    assert all(len(batch) == rows for batch in batches[:-1])
    assert capture.event_count() == len(expected)


@examples(by_day=40)
@given(tails, st.sampled_from(FILES), places, st.binary(min_size=1, max_size=200))
def test_overwritten_bytes_never_crash_the_reader(
    tail_records: int | None, name: str, offset: int, content: bytes
) -> None:
    """Damage anywhere is either read over or refused with a message."""
    with tempfile.TemporaryDirectory() as root:
        builder = filled(Path(root), tail_records)
        directory = builder.write()
        with (builder.log / name).open("r+b") as file:
            file.seek(offset)
            file.write(content)
        numbers, message = read_if_possible(directory)
        assert message is None or name in message
        assert numbers == sorted(set(numbers))


@examples(by_day=30)
@given(tails, st.sampled_from(FILES), places)
def test_cut_files_never_crash_the_reader(tail_records: int | None, name: str, size: int) -> None:
    """A torn tail costs what was in it and nothing else."""
    with tempfile.TemporaryDirectory() as root:
        builder = filled(Path(root), tail_records)
        directory = builder.write()
        whole = read_everything(directory)
        path = builder.log / name
        path.write_bytes(path.read_bytes()[:size])
        numbers, message = read_if_possible(directory)
        assert message is None or name == "process.header"
        assert set(numbers) <= set(whole)
        assert numbers == sorted(set(numbers))


@given(st.dictionaries(st.sampled_from(FILES), st.binary(max_size=6000)))
def test_random_files_never_crash_the_reader(files: dict[str, bytes]) -> None:
    """Files that were never event logs are refused or left out."""
    with tempfile.TemporaryDirectory() as root:
        log = Path(root) / "event_log"
        log.mkdir()
        for name, content in files.items():
            (log / name).write_bytes(content)
        numbers, message = read_if_possible(Path(root))
        assert numbers == []
        assert message is None or "event log" in message or "process.header" in message
