"""A moment of a process has the figures of `live`, and those of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from msmemscope.live.followed_capture import FollowedCapture
from msmemscope.live.history_moments import HistoryKeeper, moment_rows
from msmemscope.recording.run_history import HISTORY_SCHEMA
from tests.support.recorded_runs import KEEPING_LINE, KEPT_BYTES, write_run

if TYPE_CHECKING:
    from pathlib import Path

TIME_NS = 1_764_000_000 * 1_000_000_000


def test_figures_are_those_of_live(tmp_path: Path) -> None:
    """Of each pool, owner and line; with the number of the last step."""
    capture = FollowedCapture(write_run(tmp_path))
    capture.refresh()
    rows, now = moment_rows(capture, TIME_NS), capture.now()
    assert rows.schema == HISTORY_SCHEMA
    assert rows["timestamp_ns"].unique().to_list() == [TIME_NS]
    assert rows["step"].unique().to_list() == [6]
    assert rows["events"].unique().to_list() == [now.event_count]
    (pool,) = now.pools
    by_kind = {kind: part for (kind,), part in rows.partition_by("kind", as_dict=True).items()}
    assert by_kind["pool"].select("device", "pool", "bytes", "blocks", "peak_bytes").rows() == [
        (pool.device, pool.pool, pool.in_use_bytes, pool.block_count, pool.peak_bytes)
    ]
    assert by_kind["owner"].select("name", "bytes").rows() == [(one.owner, one.size_bytes) for one in pool.owners]
    assert by_kind["site"]["bytes"].sum() == pool.in_use_bytes
    line = by_kind["site"].filter(pl.col("name") == KEEPING_LINE)
    assert line.select("bytes", "blocks").rows() == [(6 * KEPT_BYTES, 6)]
    assert by_kind["step end"]["bytes"].to_list() == [pool.in_use_bytes]


def test_a_process_without_memory_has_a_moment(tmp_path: Path) -> None:
    """It says when, and nothing else: it was looked at."""
    run = write_run(tmp_path, leaks=False, steps=0)
    capture = FollowedCapture(run)
    rows = moment_rows(capture, TIME_NS)  # not read on: as if nothing had happened
    assert rows.select("timestamp_ns", "kind", "bytes").rows() == [(TIME_NS, None, None)]


def test_programs_that_have_ended_in_order_have_no_moment(tmp_path: Path) -> None:
    """Nor captures that nobody can read; others are kept all the same, and failures are told."""
    run = write_run(tmp_path)
    keeper = HistoryKeeper(lambda: [run, tmp_path / "nothing"])
    (failure,) = keeper.take()
    assert "holds no event log" in failure.message
    assert not (run / "history").exists()
    assert not keeper.has_running()
