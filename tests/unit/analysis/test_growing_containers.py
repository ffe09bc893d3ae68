"""Containers that grow, from the events that looks have recorded."""

from __future__ import annotations

import pytest

from msmemscope.analysis.host.copied_pages import find_copied_pages
from msmemscope.analysis.host.growing_containers import (
    container_of_blocks,
    filling_bytes,
    growing_containers,
    largest_container,
)
from msmemscope.analysis.host.host_samples import HostSamples
from msmemscope.model.containers import UP_TO
from msmemscope.model.events import EventKind
from tests.fakes.traces import Trace

MOST = 2**64 - 1
MEBIBYTE = 1 << 20


def noted(
    trace: Trace,
    held_by: str,
    entries: int,
    *,
    first: int = 10,
    size: int = 1000,
    address: int = 1,
    kind: str = "list",
    entry: str = "str",
) -> None:
    """Appends a container as a look records it."""
    texts = f"container_type:{kind},entry_type:{entry},first_entries:{first},first_sequence:1"
    trace.add(
        EventKind.CONTAINER,
        address=address,
        size=entries,
        extra=size,
        name_id=trace.text(held_by),
        attribute_id=trace.text(texts),
    )


def test_the_last_look_counts_and_alike_are_one() -> None:
    """Lists of one dictionary are one row; what was seen early alone has stopped."""
    trace = Trace()
    noted(trace, "main.early", 500, address=9)
    for _ in range(20):
        trace.step()
    for entries in (20, 110):
        noted(trace, "Monitor.metrics['a'], from main.monitor", entries, address=1)
        noted(trace, "Monitor.metrics['b'], from main.monitor", entries, address=2)
    found = growing_containers(trace.recording())
    assert found["held_by"].to_list() == ["Monitor.metrics[...], from main.monitor"]
    assert found.select("entries", "grown_entries", "steps").row(0) == (220, 200, 20)
    assert found["grown_bytes"][0] == pytest.approx(2 * 1000 * 100 / 110, abs=2)


@pytest.mark.parametrize("entries, filling", [(110, 909), (300, 0)])
def test_one_with_a_bound_fills_up(entries: int, filling: int) -> None:
    """Until it is full it explains growth. It is no container that grows."""
    trace = Trace()
    for _ in range(20):
        trace.step()
    noted(trace, "Buffer.kept, from main.buffer", entries, kind=f"deque{UP_TO}200")
    recording = trace.recording()
    assert growing_containers(recording).is_empty()
    assert filling_bytes(recording) == filling
    largest = largest_container(recording)
    assert largest is not None
    assert (largest.type, largest.bound) == ("deque", 200)


@pytest.mark.parametrize(
    ("others", "is_named"),
    [
        ({}, True),
        ({"main.losses": "float"}, True),  # their bytes are known
        ({"main.order": "Image"}, True),  # of the same objects
        ({"main.futures": "Future"}, False),
    ],
)
def test_one_with_an_entry_for_each_block_holds_them(others: dict[str, str], is_named: bool) -> None:  # noqa: FBT001
    """Images have their bytes outside of Python. Which container has them is not known if others keep the same pace."""
    trace = Trace()
    trace.step()
    for _ in range(400):
        trace.sample(MEBIBYTE, "app.py(9): thumbnail", block=MEBIBYTE)
        trace.sample(
            MEBIBYTE, "app.py(9): thumbnail", block=64
        )  # a small by-product, of which each sample is of thousands
    noted(trace, "app.thumbnails", 410, kind="dict", entry="str to Image", size=5000)
    noted(trace, "app.sessions", 150, entry="Session", address=2)
    for number, (name, entry) in enumerate(others.items()):
        noted(trace, name, 410, entry=entry, address=3 + number)
    recording = trace.recording()
    found = container_of_blocks(recording, HostSamples.of(recording))
    assert (found is not None) == is_named
    if found is not None:
        assert found.words == "app.thumbnails (dict of str to Image, +400 per step, 410 now, one for each block)"


@pytest.mark.parametrize(
    ("entries", "first", "size"), [(0, 0, 1000), (20, MOST, 1000), (20, 10, MOST), (2**62, 1, 2**62)]
)
def test_figures_that_nobody_can_believe_raise_nothing(entries: int, first: int, size: int) -> None:
    """As a damaged log can have them, or one that somebody made."""
    trace = Trace()
    noted(trace, "main.list", entries, first=first, size=size)
    trace.add(EventKind.HOST_MEMORY, size=1, attribute_id=trace.text(f"private_bytes:{MOST}"))
    recording = trace.recording()
    growing_containers(recording)
    largest_container(recording)
    assert find_copied_pages(recording) is None
