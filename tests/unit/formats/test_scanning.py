"""Lazy frames of events: the same as those of `load`, whatever is asked of them, and read in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import msmemscope
from msmemscope.errors import InputError
from msmemscope.formats import scanning
from msmemscope.formats.event_log import Capture
from msmemscope.formats.scanning import SCAN_SCHEMA
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.pools import pool_word
from tests.support.nightly import examples
from tests.support.recorded_runs import with_dumps, write_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The capture of a process with operators, marks and steps."""
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def expected(run: Path) -> pl.DataFrame:
    """All of its events in words, one by one."""
    recording = msmemscope.load(run)
    names = dict(recording.strings.select("id", "text").iter_rows())
    rows = [
        {
            **row,
            "kind": EventKind(row["kind"]).name,
            "device": device_name(row["device"]),
            "pool": pool_word(row["pool"], row["device"]) if row["pool"] else None,
            "name": names.get(row["name_id"]),
        }
        for row in recording.events.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema_overrides=SCAN_SCHEMA).select(SCAN_SCHEMA.names())


def test_events_are_those_of_the_recording(run: Path, expected: pl.DataFrame) -> None:
    """In their order, with both engines."""
    scanned = msmemscope.scan(run)
    assert scanned.collect_schema() == SCAN_SCHEMA
    assert scanned.collect().equals(expected, null_equal=True)
    assert scanned.collect(engine="streaming").equals(expected, null_equal=True)
    assert {"MALLOC", "FREE", "STEP"} <= set(expected["kind"])


@examples(by_day=25)
@given(
    columns=st.lists(st.sampled_from(SCAN_SCHEMA.names()), min_size=1, unique=True),
    kind=st.none() | st.sampled_from(["MALLOC", "FREE", "STEP", "SNAPSHOT"]),
    rows=st.none() | st.integers(0, 200),
    batch_rows=st.integers(1, 50),
)
def test_queries(
    run: Path, expected: pl.DataFrame, columns: list[str], kind: str | None, rows: int | None, batch_rows: int
) -> None:
    """Columns, rows and conditions that are left to the reader give what they would of the whole."""

    def query(frame: pl.LazyFrame) -> pl.DataFrame:
        frame = frame if rows is None else frame.head(rows)
        frame = frame if kind is None else frame.filter(pl.col("kind") == kind)
        return frame.select(columns).collect()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "_BATCH_ROWS", batch_rows)
        assert query(msmemscope.scan(run)).equals(query(expected.lazy()), null_equal=True)


def test_the_head_of_a_log_needs_no_more_than_that(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops where enough was read."""
    monkeypatch.setattr(scanning, "_BATCH_ROWS", 2)
    read = []
    event_batches = Capture.event_batches

    def counted(capture: Capture, rows: int) -> object:
        for batch in event_batches(capture, rows):
            read.append(batch.height)
            yield batch

    monkeypatch.setattr(Capture, "event_batches", counted)
    assert msmemscope.scan(run).head(3).collect().height == 3
    assert sum(read) == 4


def test_what_is_no_event_log(run: Path, tmp_path: Path) -> None:
    """Dumps, and folders of several processes."""
    dump = with_dumps(write_run(tmp_path / "one"))
    with pytest.raises(InputError, match="is no event log"):
        msmemscope.scan(dump)
    for process_id in (1, 2):
        write_run(tmp_path / "several", process_id=process_id)
    with pytest.raises(InputError, match="holds 2 inputs"):
        msmemscope.scan(tmp_path / "several")
    with pytest.raises(InputError, match="cannot be read"):
        msmemscope.scan(run / "nowhere")
