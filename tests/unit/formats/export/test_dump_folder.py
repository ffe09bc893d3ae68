"""Dump files that are made of any recording answer as the recording does."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.formats.export.dump_folder import write_csv_folder, write_db_folder
from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.writing import Place, write_export
from msmemscope.formats.reading import load, load_all
from msmemscope.model.events import EventKind
from tests.fakes.traces import Trace
from tests.support.nightly import examples
from tests.support.random_traces import recordings

if TYPE_CHECKING:
    import polars as pl

    from msmemscope.recording import Recording

WRITERS = {"csv": write_csv_folder, "db": write_db_folder}
CHOICE = ExportChoice("a run")


def blocks_of(recording: Recording) -> list[tuple[object, ...]]:
    """Blocks with their owners and stacks as texts."""
    stacks = {0: "", **dict(recording.python_stacks.rows())}
    blocks: pl.DataFrame = owned_blocks(recording)[0]
    columns = ["address", "size", "device", "pool", "allocated_ns", "freed_ns", "owner", "thread_id"]
    texts = [stacks[key] for key in blocks["python_stack_id"]]
    return [(*row, text) for row, text in zip(blocks.select(columns).rows(), texts, strict=True)]


@examples(by_day=15)
@given(recordings, st.sampled_from(sorted(WRITERS)))
def test_blocks_equal_the_recording(recording: Recording, name: str) -> None:
    """In their order, with times, owners and stacks."""
    if recording.blocks.is_empty():
        return
    with tempfile.TemporaryDirectory() as folder:
        assert WRITERS[name](dataclasses.replace(recording, form="torch snapshot"), Path(folder), CHOICE) == ()
        (dump,) = load_all(Path(folder))
    assert dump.problems == ()
    assert blocks_of(dump) == blocks_of(recording)


@pytest.mark.parametrize("name", WRITERS)
def test_dumps_of_a_snapshot_answer_as_it_does(name: str, tmp_path: Path) -> None:
    """A memory snapshot of torch, which MindStudio Insight does not open, as files that it does."""
    trace = Trace()
    for step in range(6):
        trace.malloc(4096, f"/home/me/train.py({step % 2 + 3}): keep")
        trace.free(trace.malloc(1 << 20, "/home/me/train.py(9): forward"))
    write_export(trace.recording(), "torch-snapshot", Place(tmp_path / "run.pickle"), CHOICE)
    snapshot = load(tmp_path / "run.pickle")
    write_export(snapshot, name, Place(tmp_path / "dumps"), CHOICE)
    (dump,) = load_all(tmp_path / "dumps")
    assert dump.form == name
    assert blocks_of(dump) == blocks_of(snapshot)
    assert [(one.device, one.peak_bytes) for one in dump.owners().pools] == [
        (one.device, one.peak_bytes) for one in snapshot.owners().pools
    ]
    (ours,), (theirs,) = dump.peak().devices, snapshot.peak().devices
    assert ours.sites.equals(theirs.sites)
    assert (ours.peak_bytes, ours.in_use_bytes) == (theirs.peak_bytes, theirs.in_use_bytes)


def test_a_python_trace_that_is_left_out_is_told(tmp_path: Path) -> None:
    """Only the event log has the names of functions."""
    trace = Trace()
    trace.malloc(4096, "/home/me/train.py(3): load")
    recording = trace.recording()
    calls = recording.events.with_columns(kind=recording.events["kind"] * 0 + int(EventKind.FUNCTION_CALL))
    events = recording.events.extend(calls.with_columns(sequence=calls["sequence"] + 1))
    recording = dataclasses.replace(recording, events=events, form="csv")
    (note,) = write_csv_folder(recording, tmp_path, CHOICE)
    assert note.startswith("the Python trace of 1 calls is left out")
