"""Parquet tables have every event and block, with the texts that numbers stand for."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.parquet import BLOCKS, EVENTS, write_parquet
from msmemscope.model.events import EventKind
from tests.fakes.traces import START_NS, Trace
from tests.support.nightly import examples
from tests.support.random_traces import recordings

if TYPE_CHECKING:
    from msmemscope.recording import Recording


def tables_of(recording: Recording) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The events and the blocks, read back."""
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(recording, Path(folder), ExportChoice("a run"))
        assert sorted(path.name for path in Path(folder).iterdir()) == [BLOCKS, EVENTS]
        return pl.read_parquet(Path(folder) / EVENTS), pl.read_parquet(Path(folder) / BLOCKS)


@examples(by_day=15)
@given(recordings)
def test_rows_equal_the_recording(recording: Recording) -> None:
    """In their order, with the same numbers; texts are those of the ids."""
    events, blocks = tables_of(recording)
    same = ["sequence", "timestamp_ns", "thread_id", "flags", "address", "size", "extra"]
    assert events.select(same).rows() == recording.events.select(same).rows()
    assert events["kind"].to_list() == [EventKind(kind).name for kind in recording.events["kind"]]
    for identity, text, texts in (
        ("name_id", "name", recording.strings),
        ("python_stack_id", "python_stack", recording.python_stacks),
        ("native_stack_id", "native_stack", recording.native_stacks),
    ):
        known = dict(texts.rows())
        assert events[text].to_list() == [known.get(one) for one in recording.events[identity]]
    same = ["malloc_sequence", "free_sequence", "allocated_ns", "freed_ns", "address", "size", "name", "thread_id"]
    assert blocks.select(same).rows() == recording.blocks.select(same).rows()
    assert blocks["owner"].to_list() == owned_blocks(recording)[0]["owner"].to_list()


def test_words_and_moments() -> None:
    """Devices and pools by their names, times as moments too, attributes in their columns."""
    trace = Trace()
    block = trace.malloc(4096, "/home/me/train.py(3): load", operator="aten.mm", attributes="page_type:huge")
    trace.free(block)
    events, blocks = tables_of(trace.recording())
    row = blocks.row(0, named=True)
    assert (row["device"], row["pool"], row["owner"], row["name"]) == ("npu:0", "PTA", "PTA@ops@aten", "aten.mm")
    assert row["python_stack"] == "/home/me/train.py(3): load\n"
    assert blocks.schema["allocated"] == pl.Datetime("ns", "UTC")
    assert blocks["allocated"].dt.timestamp("ns").to_list() == [row["allocated_ns"]]
    assert row["allocated_ns"] > START_NS
    assert events["device"].to_list() == ["npu:0", "npu:0"]
    assert events["page_type"].to_list() == ["huge", None]


def test_an_empty_recording_has_tables() -> None:
    """Without rows, with all columns: whoever joins them need not ask first."""
    events, blocks = tables_of(Trace().recording())
    assert (events.height, blocks.height) == (0, 0)
    assert {"sequence", "python_stack"} <= set(events.columns)
    assert {"owner", "python_stack", "free_native_stack"} <= set(blocks.columns)
