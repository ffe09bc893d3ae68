"""The history that torch_npu recorded of its own allocator agrees with the counters that it had at each moment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.support.ascend import TOLD_SINCE, torch_npu_release

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording import Recording
    from tests.ascend.conftest import RunAlone


@pytest.fixture(scope="module", params=["segments", "expandable"])
def histories(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, run_alone: RunAlone) -> Path:
    """The folder with the histories and counters of one run: no operator computes."""
    written = tmp_path_factory.mktemp(request.param)
    settings = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"} if request.param == "expandable" else {}
    variables = {"VNPU_COMPUTE": "none", "VNPU_MEMORY": "1GiB", **settings}
    run = run_alone("memory_history.py", written, folder=written, variables=variables)
    assert run.returncode == 0, run.stderr
    return written


def totals(blocks: pl.DataFrame, end: str, size: str, moments: list[int]) -> list[int]:
    """The sum of some blocks at each moment, by the definition."""
    lives = blocks.select("malloc_sequence", end, size).rows()
    return [
        sum(bytes_ for begin, gone, bytes_ in lives if begin <= now and (gone is None or gone > now)) for now in moments
    ]


def counters_of(recording: Recording) -> list[list[int]]:
    """Allocated, requested, reserved and active bytes at each step: torch's snapshots left an entry there."""
    is_mark = (pl.col("kind") == EventKind.SNAPSHOT) & (pl.col("device") == 0) & (pl.col("name_id") == 0)
    moments = recording.events.filter(is_mark)["sequence"].to_list()
    is_segment = pl.col("pool") == Pool.HAL
    blocks, segments = recording.blocks.filter(~is_segment), recording.blocks.filter(is_segment)
    columns = (
        totals(blocks, "free_sequence", "size", moments),
        totals(blocks, "returned_sequence", "requested_bytes", moments),
        totals(segments, "free_sequence", "size", moments),
        totals(blocks, "returned_sequence", "size", moments),
    )
    timeline = recording.timeline(device="npu:0", pool="PTA")
    at = pl.DataFrame({"sequence": pl.Series(moments, dtype=pl.UInt64)}).join_asof(timeline, on="sequence")
    assert at["in_use_bytes"].fill_null(0).to_list() == columns[0]
    assert at["reserved_bytes"].fill_null(0).to_list() == columns[2]
    assert (at["in_use_bytes"] + at["waiting_bytes"]).fill_null(0).to_list() == columns[3]
    return [list(row) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("name", ["whole", "ring"])
def test_counters_of_torch_npu(histories: Path, name: str) -> None:
    """Every counter at every step, also where the history has lost its begin."""
    recording = load(histories / f"{name}.pickle")
    counters = json.loads((histories / f"{name}.json").read_text())
    found = counters_of(recording)
    assert len(found) == len(counters) if name == "whole" else len(found) > 50
    assert found == counters[len(counters) - len(found) :]
    assert any(allocated != active for allocated, _, _, active in found)
    of_pool = recording.blocks.filter(pl.col("pool") == Pool.PTA)
    assert of_pool["stream_id"].n_unique() == 2
    # Entries of an older history have no pool: a block has that of its segment, where the snapshot has the segment.
    unnamed = set() if torch_npu_release() >= TOLD_SINCE else {None}
    assert {"0/0"} <= {*of_pool["pool_id"]} <= {"0/0", *unnamed}
    assert not any("estimates" in line for line in recording.coverage)


def test_rounding_is_a_part_of_the_reserve(histories: Path) -> None:
    """At the end, blocks are as much larger than their requests as torch's own two counters differ."""
    recording = load(histories / "whole.pickle")
    allocated, requested, _, active = json.loads((histories / "whole.json").read_text())[-1]
    last = int(recording.events["sequence"][-1])
    peak = recording.peak(at=last)
    (device,) = (one for one in peak.devices if one.device == 0)
    assert device.fragmentation is not None
    total = device.fragmentation.totals.row(0, named=True)
    assert (total["rounding_bytes"], total["waiting_bytes"]) == (active - requested, active - allocated)
