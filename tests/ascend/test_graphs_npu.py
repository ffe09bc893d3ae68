"""Captured graphs and asynchronous streams of the virtual NPU, as the tool sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.analysis.card.card import account_for_card
from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe


@pytest.mark.slow
def test_replays_leave_the_recording_as_it_is(observe: Observe) -> None:
    """The private pool of the graph has its name, replays add nothing, and the card adds up."""
    seen = observe(["--events=allocator", "--device=npu"], "graph_replays.py", log_alone=True)
    recording = load(seen.run.capture.directory)
    card = account_for_card(recording)
    (device,) = card.devices
    assert 0 <= card.unknown_bytes(device) < card.total_bytes(device) / 100, card.parts
    pools = set(recording.attributes["pool_id"].drop_nulls().unique())
    assert any(pool != "0/0" for pool in pools), pools
    allocated = recording.events.filter(pl.col("kind") == int(EventKind.ALLOCATOR_ALLOC)).height
    assert 0 < allocated < 40  # fifty replays are no allocations


@pytest.mark.slow
@pytest.mark.parametrize("streams", ["asynchronous", pytest.param("synchronous", marks=nightly)])
def test_free_is_complete_when_the_stream_is(observe: Observe, streams: str) -> None:
    """Memory that a side stream still reads is free later than it was asked to be, if that stream is really behind."""
    seen = observe(
        ["--events=allocator", "--device=npu"],
        "graph_replays.py",
        "side",
        variables={"VNPU_STREAMS": streams},
        log_alone=True,
    )
    events = load(seen.run.capture.directory).events.filter(pl.col("device") == 0)

    def times(kind: EventKind, address: int) -> list[int]:
        return events.filter((pl.col("kind") == int(kind)) & (pl.col("address") == address))["timestamp_ns"].to_list()

    first = events.filter((pl.col("kind") == int(EventKind.ALLOCATOR_ALLOC)) & (pl.col("size") > 1 << 20))["address"][0]
    requested = times(EventKind.ALLOCATOR_FREE, first)[0]
    completed = times(EventKind.ALLOCATOR_FREE_COMPLETED, first)[0]
    assert (completed - requested > 200_000_000) == (streams == "asynchronous")
