"""The real torch for CUDA on the emulated runtime: its own history and counters against what is recorded."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.cli.main import main
from msmemscope.formats.reading import load
from msmemscope.model.devices import DeviceKind, device_number
from msmemscope.model.events import ACCESS_KINDS, EventKind
from msmemscope.model.pools import Pool
from tests.cuda.test_stand_in import MARKS, marks_of
from tests.support.recordings import assert_sound, events_of
from tests.support.watching import changes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cuda.conftest import ObserveCuda

BACKENDS = {
    "default": "",
    "expandable": "expandable_segments:True",
    "divided": "roundup_power2_divisions:4",
    "split": "max_split_size_mb:21",
    "collected": "garbage_collection_threshold:0.6",
}


@pytest.mark.parametrize("setting", BACKENDS)
@pytest.mark.parametrize("program", ["one_stream", "two_streams", "emptied", "captured"])
def test_every_block_of_the_history(observe_torch: ObserveCuda, tmp_path: Path, program: str, setting: str) -> None:
    """All blocks of torch's own history are recorded, in its order and with its addresses; peaks are equal."""
    file = tmp_path / "history.json"
    variables = {"PYTORCH_CUDA_ALLOC_CONF": BACKENDS[setting]} if BACKENDS[setting] else {}
    run = observe_torch("allocator_history.py", file, 3, program, variables=variables)
    truth = json.loads(file.read_text(encoding="utf-8"))
    events = events_of(run.capture)
    assert_sound(events)
    blocks = events.filter(
        (pl.col("pool") == int(Pool.CUDA)) & pl.col("kind").is_in([int(EventKind.MALLOC), int(EventKind.FREE)])
    ).head(len(truth["blocks"]))
    assert len(truth["blocks"]) > 2500
    is_malloc = blocks["kind"] == int(EventKind.MALLOC)
    assert is_malloc.to_list() == [is_alloc for is_alloc, _, _ in truth["blocks"]]
    assert blocks["address"].to_list() == [address for _, address, _ in truth["blocks"]]
    # The history has what was asked for, and the allocator rounds it up.
    asked = pl.Series([size for _, _, size in truth["blocks"]])
    assert ((blocks["size"] >= asked) & (blocks["size"] % 512 == 0)).all()
    changes = blocks.select(pl.when(is_malloc).then(pl.col("size")).otherwise(-pl.col("size")).cum_sum())
    assert changes.to_series().max() == truth["peak"]
    reserved = events.filter(pl.col("kind") == int(EventKind.RESERVED))
    assert reserved["size"].max() == truth["reserved_peak"]


@pytest.mark.parametrize("setting", ["default", "expandable"])
def test_totals_at_the_end_of_each_step(observe_torch: ObserveCuda, setting: str) -> None:
    """Bytes in use and reserved are those of torch's counters, to the byte."""
    variables = {"PYTORCH_CUDA_ALLOC_CONF": BACKENDS[setting]} if BACKENDS[setting] else {}
    run = observe_torch("training.py", variables=variables)
    events = events_of(run.capture)
    ends = events.filter(pl.col("kind") == int(EventKind.IMPLIED_STEP))["sequence"].to_list()
    assert len(ends) >= len(run.reports) - 1
    changes = events.filter(pl.col("pool") == int(Pool.CUDA)).with_columns(
        change=pl.when(pl.col("kind") == int(EventKind.MALLOC))
        .then(pl.col("size"))
        .when(pl.col("kind") == int(EventKind.FREE))
        .then(-pl.col("size"))
        .otherwise(0)
    )
    totals = changes["change"].cum_sum().to_list()
    for report in run.reports:
        assert int(report["allocated"]) in totals
    reserved = events.filter(pl.col("kind") == int(EventKind.RESERVED))["size"].to_list()
    assert int(run.reports[-1]["reserved"]) == reserved[-1]


def test_a_leak_of_a_training_is_named(observe_torch: ObserveCuda) -> None:
    """Line and holder, without a change of the program."""
    run = observe_torch("training.py", "leak", options=("--device=cuda,cpu",))
    first = " ".join(run.stderr.split("next:")[0].split())
    assert "on cuda:0" in first
    assert "held by __main__.KEPT" in first


def test_operators_and_the_tensors_that_they_use(observe_torch: ObserveCuda) -> None:
    """Operators and accesses are events of the device; each access has the block that it is in."""
    run = observe_torch("training.py", options=("--analysis=decompose",))
    events = events_of(run.capture)
    accesses = events.filter(pl.col("kind").is_in([*map(int, ACCESS_KINDS)]))
    operators = events.filter(pl.col("kind") == int(EventKind.ATEN_START))
    assert set(accesses["device"]) | set(operators["device"]) == {device_number(DeviceKind.CUDA, 0)}
    assert set(accesses["pool"]) == {int(Pool.CUDA)}
    assert accesses.height > 500
    blocks = events.filter((pl.col("kind") == int(EventKind.MALLOC)) & (pl.col("pool") == int(Pool.CUDA)))
    of_blocks = accesses.join(
        blocks.select(extra=pl.col("sequence"), begin="address", bytes="size"), on="extra", how="left"
    )
    assert of_blocks["begin"].null_count() == 0
    # Not the ends: a tensor that was expanded has more elements than memory.
    assert (of_blocks["address"] >= of_blocks["begin"]).all()
    assert (of_blocks["address"] < of_blocks["begin"] + of_blocks["bytes"]).all()


def test_a_tensor_that_another_operator_writes(observe_torch: ObserveCuda) -> None:
    """Who wrote it is named, with the bytes. Watching does not disturb the capture of a graph."""
    run = observe_torch("watched.py", options=("--device=cuda,cpu",))
    assert run.report == {"captured": "1000"}
    wrong, right = changes(run.capture)
    assert wrong.culprit == ("torch._ops.faulty.scale.default", 3)
    assert wrong.is_unexpected
    assert (wrong.attributes["first"], wrong.attributes["last"]) == ("100", "123")
    assert right.culprit[0] == "torch._ops.aten.copy_.default"
    assert not right.is_unexpected


def test_marks_of_nvtx(observe_torch: ObserveCuda) -> None:
    """Those that PyTorch makes are recorded, and ranges "step start" are steps."""
    run = observe_torch("torch_marks.py")
    assert marks_of(run.capture) == MARKS * 2
    assert load(run.capture.directory).steps.height == 2


def test_the_setting_that_is_named_helps(observe_torch: ObserveCuda) -> None:
    """A program that was cut up finishes with it."""
    card = {"EMULATED_CUDA_BYTES": str(1 << 30), "EMULATED_CUDA_CONTEXT": str(224 << 20)}
    first = observe_torch("cut_up.py", variables=card)
    assert first.report == {"outcome": "exhausted"}
    said = " ".join(first.stderr.split())
    assert "out of memory on cuda:0: fragmentation by splitting, 306 MiB in gaps" in said
    (named,) = re.findall(r"next: export PYTORCH_CUDA_ALLOC_CONF=(\S+)", said)
    second = observe_torch("cut_up.py", variables={**card, "PYTORCH_CUDA_ALLOC_CONF": named})
    assert second.report == {"outcome": "finished"}


def screen_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the text that a verb prints, on one line."""
    assert main([str(word) for word in words]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_snapshot_with_the_pool_of_a_graph(
    observe_torch: ObserveCuda, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model of the allocator puts each block where the allocator had put it: segments tell the pool."""
    file = tmp_path / "graph.pickle"
    observe_torch("snapshots.py", file, "graph")
    assert "the model puts 32 of 32 blocks where the allocator put them" in screen_of(capsys, "replay", file)


@pytest.mark.parametrize("program", ["annotated", "described"])
def test_steps_that_the_program_of_a_snapshot_names(
    observe_torch: ObserveCuda, tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    """By annotations, or by metadata of the allocator."""
    file = tmp_path / "steps.pickle"
    run = observe_torch("snapshots.py", file, program)
    if any("lacks" in report for report in run.reports):
        pytest.skip("this torch has no annotations")
    # The end of the last step is not known from metadata.
    last = {"annotated": 19, "described": 18}[program]
    said = screen_of(capsys, "summary", file)
    assert f"in steps 2 to {last}" in said
    assert "step 1 here is its step 40" in said


def test_a_snapshot_of_what_a_limit_refused(
    observe_torch: ObserveCuda, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The device had more than was asked for. Frames of C++ are not shown as the program's line."""
    file = tmp_path / "limit.pickle"
    run = observe_torch("snapshots.py", file, "limit")
    assert run.report == {"refused": "1"}
    said = screen_of(capsys, "summary", file)
    assert "out of memory on cuda:0: configured limit at" in said
    assert "snapshots.py(23): step" in said
    assert "unknown" not in said
