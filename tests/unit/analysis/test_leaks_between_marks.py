"""Leaks between marks: against the definition, and the messages when there is nothing to judge."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.leaks.between_marks import find_leaks_between_marks
from msmemscope.errors import ConfigurationError
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace
from tests.support.nightly import examples

SITE = "/home/me/train.py(10): step"


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Programs that allocate and free what they like, with marks of two texts between."""
    trace = Trace()
    alive: list[int] = []
    actions = st.sampled_from(["malloc", "malloc", "free", "mark", "other"])
    for action in draw(st.lists(actions, max_size=60)):
        if action == "malloc":
            pool, device = draw(st.sampled_from([(Pool.PTA, 0), (Pool.HAL, 1), (Pool.HOST, DEVICE_CPU)]))
            alive.append(trace.malloc(draw(st.integers(1, 1000)), SITE, pool=pool, device=device))
        elif action == "free" and alive:
            trace.free(alive.pop(draw(st.integers(0, len(alive) - 1))))
        elif action == "mark":
            trace.mark("test")
        elif action == "other":
            trace.mark("other")
    return trace


@examples(by_day=30)
@given(traces(), st.integers(0, 3))
def test_the_definition_block_by_block(trace: Trace, start_index: int) -> None:
    """Allocated between A and B, not freed before C: in every pool of every device."""
    number = trace.text("test")
    marks = [row["sequence"] for row in trace.rows if row["kind"] == EventKind.MARK and row["name_id"] == number]
    if len(marks) < start_index + 3:
        with pytest.raises(ConfigurationError):
            find_leaks_between_marks(trace.recording(), "test", start_index)
        return
    a, b, c = marks[start_index : start_index + 3]
    allocated = [row for row in trace.rows if row["kind"] == EventKind.MALLOC and a < row["sequence"] < b]
    freed = {row["extra"] for row in trace.rows if row["kind"] == EventKind.FREE and row["sequence"] < c}
    leaked = [row for row in allocated if row["sequence"] not in freed]
    found = find_leaks_between_marks(trace.recording(), "test", start_index)
    assert found.blocks["malloc_sequence"].to_list() == [row["sequence"] for row in leaked]
    assert found.to_polars().equals(found.blocks)
    for device in found.devices:
        mine = [row for row in leaked if row["device"] == device.device]
        assert (device.leaked_blocks, device.leaked_bytes) == (len(mine), sum(row["size"] for row in mine))
        assert device.allocated_blocks == sum(row["device"] == device.device for row in allocated)
        assert device.marks == (a, b, c)
    assert {row["device"] for row in trace.rows if row["kind"] == EventKind.MALLOC} == {
        device.device for device in found.devices
    }


def marked(*texts: str) -> Trace:
    """A program that makes marks and allocates between them."""
    trace = Trace()
    for text in texts:
        trace.mark(text)
        trace.malloc(10, SITE)
    return trace


def test_an_unknown_text_lists_those_that_exist() -> None:
    """With how often each was made, so that a slip is seen at once."""
    with pytest.raises(ConfigurationError, match=r"'forward' \(3 times\), 'backward' \(1 times\)") as raised:
        find_leaks_between_marks(marked("forward", "forward", "backward", "forward").recording(), "Forward")
    assert raised.value.value == "Forward"


def test_no_marks_at_all() -> None:
    """Says what to do."""
    trace = Trace()
    trace.malloc(1, SITE)
    with pytest.raises(ConfigurationError, match="trace has no marks") as raised:
        find_leaks_between_marks(trace.recording(), "test")
    assert "mstx.mark" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("texts", "start_index", "message"),
    [
        (["a"], 0, "there is 1 mark with this text, 3 are needed"),
        (["a", "a"], 0, "there are 2 marks with this text, 3 are needed"),
        (["a"] * 5, 3, r"there are 5 marks 'a'.*accepted: 0 to 2"),
    ],
)
def test_too_few_marks(texts: list[str], start_index: int, message: str) -> None:
    """Says how many there are, and from which position a range can begin."""
    with pytest.raises(ConfigurationError, match=message):
        find_leaks_between_marks(marked(*texts).recording(), "a", start_index)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", ConfigurationError, "mstx_info: is blank"),
        ("  ", ConfigurationError, "mstx_info: is blank"),
        (3, TypeError, "mstx_info: not a text: 3"),
        (None, TypeError, "mstx_info: not a text: None"),
    ],
)
def test_a_text_that_is_none(text: object, error: type[Exception], message: str) -> None:
    """Is refused with what is accepted."""
    with pytest.raises(error, match=message):
        find_leaks_between_marks(marked("a").recording(), text)  # type: ignore[arg-type]


@pytest.mark.parametrize("start_index", [-1, True, "0", 1.0])
def test_a_position_that_is_none(start_index: object) -> None:
    """Is refused with what is accepted."""
    with pytest.raises(ConfigurationError, match="start_index: not accepted"):
        find_leaks_between_marks(marked("a").recording(), "a", start_index)  # type: ignore[arg-type]


def test_quotes_of_older_dumps_do_not_matter() -> None:
    """They keep those of the name."""
    found = find_leaks_between_marks(marked('"a"', '"a"', '"a"').recording(), "a")
    assert found.blocks.height == 1


def test_devices_with_marks_of_their_own() -> None:
    """Where threads mark devices each at its own moments, a device is judged by its own marks."""
    trace = Trace()
    blocks = {}
    for number in range(3):
        trace.mark("test", device=0, thread_id=100)
        blocks[0, number] = trace.malloc(10, SITE, device=0)
        blocks[1, number] = trace.malloc(20, SITE, device=1)
        trace.mark("test", device=1, thread_id=101)
    trace.malloc(5, SITE, device=2)
    found = find_leaks_between_marks(trace.recording(), "test")
    assert found.blocks["malloc_sequence"].to_list() == sorted([blocks[0, 0], blocks[1, 1]])
    assert found.remarks == ("npu:2: not judged, it has 0 marks 'test'",)


@st.composite
def pools_on_the_driver(draw: st.DrawFn) -> tuple[Trace, set[int]]:
    """A pool that takes segments from the driver and hands out parts, between three marks; and the bytes that leak."""
    trace = Trace()
    leaked: set[int] = set()
    segments: list[int] = []
    free_parts: list[int] = []

    def act(*, is_judged: bool) -> None:
        for action in draw(st.lists(st.sampled_from(["segment", "block", "own"]), max_size=8)):
            if action == "block" and free_parts:
                address = free_parts.pop(draw(st.integers(0, len(free_parts) - 1)))
                size = draw(st.integers(1, 10))
                trace.malloc(size, SITE, address=address)
                if is_judged:
                    leaked.update(range(address, address + size))
            elif action == "segment":
                address = 1_000_000 + 1000 * len(segments)
                segments.append(trace.malloc(100, SITE, pool=Pool.HAL, address=address))
                free_parts.extend(address + 10 * part for part in range(10))
                if is_judged:
                    leaked.update(range(address, address + 100))
            elif action == "own":
                address = 9_000_000 + 1000 * len(trace.rows)
                trace.malloc(7, SITE, pool=Pool.HAL, address=address)
                if is_judged:
                    leaked.update(range(address, address + 7))

    act(is_judged=False)
    trace.mark("test")
    act(is_judged=True)
    trace.mark("test")
    act(is_judged=False)
    trace.mark("test")
    trace.malloc(1, SITE)
    return trace, leaked


@examples(by_day=30)
@given(pools_on_the_driver())
def test_each_byte_counts_once(made: tuple[Trace, set[int]]) -> None:
    """The sum is the number of different addresses in the leaked blocks."""
    trace, leaked = made
    found = find_leaks_between_marks(trace.recording(), "test")
    (device,) = found.devices
    assert device.leaked_bytes == found.blocks["counted_bytes"].sum() == len(leaked)
    assert found.blocks.filter((pl.col("pool") != Pool.HAL) & (pl.col("size") != pl.col("counted_bytes"))).is_empty()
    own = found.blocks.filter((pl.col("pool") == Pool.HAL) & (pl.col("size") == 7))
    assert own["counted_bytes"].to_list() == [7] * own.height
    assert device.reserve_bytes == found.blocks.filter("is_reserve")["counted_bytes"].sum()


def test_a_block_as_large_as_its_segment() -> None:
    """It is the pool's leak; nothing is left of the driver's."""
    trace = Trace()
    trace.mark("test")
    trace.malloc(100, SITE, pool=Pool.HAL, address=4096)
    trace.malloc(100, SITE, address=4096)
    trace.mark("test")
    trace.mark("test")
    found = find_leaks_between_marks(trace.recording(), "test")
    assert found.blocks.select("pool", "size", "counted_bytes", "is_reserve").rows() == [
        (Pool.HAL, 100, 0, True),
        (Pool.PTA, 100, 100, False),
    ]


def test_memory_that_is_mapped_elsewhere() -> None:
    """Physical memory has a handle and no address; a growth of the reserve behind it tells whose it is."""
    trace = Trace()
    trace.mark("test")
    trace.malloc(100, SITE, pool=Pool.HAL, address=77)
    trace.add(EventKind.RESERVED, pool=int(Pool.PTA), size=100)
    trace.malloc(60, SITE)
    trace.malloc(100, SITE, pool=Pool.HAL, address=78)
    trace.mark("test")
    trace.mark("test")
    found = find_leaks_between_marks(trace.recording(), "test")
    assert found.blocks.select("size", "counted_bytes", "is_reserve").rows() == [
        (100, 40, True),
        (60, 60, False),
        (100, 100, False),
    ]
