"""torch_npu's caching allocator tells of itself the same as the history that torch records of the same run."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pytest

from msmemscope.analysis.replay.allocator_entries import allocator_entries, recorded_settings
from msmemscope.analysis.replay.recorded_allocations import Action, recorded_allocations
from msmemscope.analysis.replay.replayed_recording import ReplayOptions, equal_blocks, prepared
from msmemscope.formats.reading import load
from msmemscope.model.events import ALLOCATOR_KINDS, EventKind
from msmemscope.model.pools import Pool
from tests.support.ascend import TOLD_SINCE, NotInstalledError, torch_npu_release
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording import Recording
    from tests.ascend.conftest import Observe

WORDS: Final = {
    EventKind.ALLOCATOR_ALLOC: "alloc",
    EventKind.ALLOCATOR_FREE: "free_requested",
    EventKind.ALLOCATOR_FREE_COMPLETED: "free_completed",
    EventKind.SEGMENT_ALLOC: "segment_alloc",
    EventKind.SEGMENT_FREE: "segment_free",
    EventKind.SEGMENT_MAP: "segment_map",
    EventKind.SEGMENT_UNMAP: "segment_unmap",
    EventKind.ALLOCATOR_OOM: "oom",
}
EXPANDABLE: Final = "expandable_segments:True"
DEVICE_BYTES: Final = 1 << 30
TWO_CALLS: Final = "import torch\nkept = torch.empty(1000, device='npu')\ntorch.npu.empty_cache()\n"
UNKNOWN: Final = "its trace tracker is known of torch_npu 2.13.0 and 2.14.0 alone"


def _is_told() -> bool:
    """Whether this torch_npu has a trace tracker; without torch_npu the tests are skipped anyway."""
    try:
        return torch_npu_release() >= TOLD_SINCE
    except NotInstalledError:
        return True


def observed(
    observe: Observe, folder: Path, program: str, settings: str, *fraction: str
) -> tuple[Recording, list[dict[str, Any]]]:
    """A run's capture, and torch's own history of it."""
    snapshot = folder / "snapshot.pickle"
    variables = {"VNPU_MEMORY": str(DEVICE_BYTES)} | ({"PYTORCH_NPU_ALLOC_CONF": settings} if settings else {})
    seen = observe(
        ["--events=allocator", "--device=npu"], "allocator_trace.py", snapshot, program, *fraction, variables=variables
    )
    (capture,) = seen.run.output.glob("msmemscope_*_ascend")
    history = pickle.loads(snapshot.read_bytes())["device_traces"][0]  # noqa: S301 - written a moment ago
    return load(capture), [entry for entry in history if entry["action"] != "snapshot"]


def told(recording: Recording) -> list[tuple[str, int, int, int, tuple[int, ...]]]:
    """The entries of the capture: action, address, size, stream, pool."""
    kinds = {int(kind): word for kind, word in WORDS.items()}
    rows = recording.events.filter(pl.col("kind").is_in(list(kinds)) & (pl.col("device") == 0)).join(
        recording.attributes.select("attribute_id", "pool_id"), on="attribute_id", how="left", maintain_order="left"
    )
    assert rows["pool"].unique().to_list() == [Pool.PTA]
    columns = ("kind", "address", "size", "extra", "pool_id")
    return [
        (kinds[kind], address, size, stream, tuple(map(int, (pool or "0/0").split("/"))))
        for kind, address, size, stream, pool in rows.select(columns).rows()
    ]


@pytest.mark.slow
@pytest.mark.skipif(not _is_told(), reason="this torch_npu has no trace tracker")
@pytest.mark.parametrize(
    ("program", "settings", "fraction"),
    [
        ("streams", EXPANDABLE, ()),
        pytest.param("streams", "", (), marks=nightly),
        pytest.param("full", "", ("0.9",), marks=nightly),
        pytest.param("full", EXPANDABLE, (), marks=nightly),
        pytest.param("planned", "roundup_power2_divisions:4", (), marks=nightly),
    ],
)
def test_entries_and_replay_are_those_of_torch(
    observe: Observe, tmp_path: Path, program: str, settings: str, fraction: tuple[str, ...]
) -> None:
    """Each entry in its order; and the model puts each block where the allocator did, from the capture alone."""
    recording, history = observed(observe, tmp_path, program, settings, *fraction)
    assert "observed.allocator" in recording.facts
    assert "unobserved.allocator" not in recording.facts
    assert not {"allocator.state", "allocator.left_out"} & recording.facts.keys()  # nothing was missed
    expected = [
        (entry["action"], entry["addr"] if "addr" in entry else entry["device_free"], entry["size"], entry["stream"],
         tuple(entry["pool_id"]))
        for entry in history
    ]  # fmt: skip
    assert len(expected) > 1500
    entries = told(recording)
    # Memory that is freed when the interpreter ends comes after the snapshot.
    assert entries[: len(expected)] == expected
    assert {entry[0] for entry in entries[len(expected) :]} <= {
        "free_requested",
        "free_completed",
        "segment_free",
        "segment_unmap",
    }
    if program == "full":
        assert any(entry[0] == "oom" for entry in entries)
    chosen = [f"per_process_memory_fraction:{share}" for share in fraction]
    assert recorded_settings(recording, 0) == (",".join(filter(None, (settings, *chosen))), 0)
    emptied = recording.events.filter(pl.col("kind") == int(EventKind.CACHE_EMPTIED)).height
    assert (emptied > 0) == (program == "streams")

    options = ReplayOptions("", None, None, DEVICE_BYTES)
    allocations, _, followed, _ = prepared(recording, 0, options)
    blocks = sum(entry[0] == "alloc" for entry in entries)
    assert equal_blocks(allocations, followed) == (blocks, blocks)
    is_allocation = allocations.actions == Action.ALLOCATE
    assert np.isin(allocations.sequences[is_allocation], recording.blocks["malloc_sequence"].to_numpy()).all()
    assert (allocations.actions == Action.EMPTY_CACHE).sum() >= emptied
    assert followed.failure is None


def assert_not_told(observe: Observe, options: list[str], program: str, *arguments: object, reason: str | None) -> None:
    """There are no entries, and replay goes by what mstx says."""
    seen = observe([*options, "--device=npu"], program, *arguments)
    (capture,) = seen.run.output.glob("msmemscope_*_ascend")
    recording = load(capture)
    kinds = {*recording.events["kind"].unique().to_list()}
    assert EventKind.MALLOC in kinds
    assert not kinds & ({*map(int, ALLOCATOR_KINDS)} - {int(EventKind.CACHE_EMPTIED)})
    assert recording.facts.get("unobserved.allocator", (None,)) == (reason,)
    assert allocator_entries(recording, 0, int(Pool.PTA)) is None
    assert not recorded_allocations(recording, 0).has_segments


@pytest.mark.slow
def test_nothing_of_it_by_default(observe: Observe, tmp_path: Path) -> None:
    """The tracker costs something: it is there for those who ask."""
    assert_not_told(observe, [], "allocator_trace.py", tmp_path / "snapshot.pickle", "planned", reason=None)


@pytest.mark.slow
def test_an_unknown_version_is_left_alone(observe: Observe, tmp_path: Path) -> None:
    """And the recording names the reason."""
    program = tmp_path / "other_version.py"
    program.write_text("import torch_npu\ntorch_npu.__version__ = '2.99.0'\n" + TWO_CALLS)
    assert_not_told(observe, ["--events=allocator"], str(program), reason=UNKNOWN)


@pytest.mark.slow
@pytest.mark.skipif(_is_told(), reason="this torch_npu has a trace tracker")
def test_a_torch_npu_without_a_tracker_is_left_alone(observe: Observe, tmp_path: Path) -> None:
    """The real one of that version, as it is."""
    program = tmp_path / "two_calls.py"
    program.write_text(TWO_CALLS)
    assert_not_told(observe, ["--events=allocator"], str(program), reason=UNKNOWN)
