"""A real training run: the tool changes nothing in it, and what it records is what PyTorch itself reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.model.events import ACCESS_KINDS, EventKind
from tests.support.nightly import NIGHT, nightly
from tests.support.recordings import assert_sound, events_of
from tests.support.targets import SOURCES
from tests.support.warm import run_observed, run_python

if TYPE_CHECKING:
    from tests.conftest import RunUnderTool
    from tests.support.tool import ToolRun

pytestmark = [pytest.mark.torch, pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_gpt.py"

STEPS = 5 if NIGHT else 3

EVERYTHING = ("--events=alloc,free,launch,access,traceback", "--call-stack=python")

MODES = [
    pytest.param((), id="defaults"),
    pytest.param(("--call-stack=",), id="no stacks", marks=nightly),
    pytest.param(("--call-stack=python,c",), id="both stacks", marks=nightly),
    pytest.param(("--events=alloc,free,launch,access",), id="accesses", marks=nightly),
    pytest.param(("--collect-mode=deferred",), id="deferred, and never started", marks=nightly),
    pytest.param(("--max-size=1M",), id="flight recorder", marks=nightly),
    pytest.param(("--steps=2",), id="one step", marks=nightly),
    pytest.param(("--data-format=db",), id="database", marks=nightly),
]

_alone: dict[tuple[str, ...], str] = {}


def losses_alone(arguments: tuple[str, ...], folder: Path) -> str:
    """The losses that the program prints without the tool; it runs once per worker."""
    if arguments not in _alone:
        run = run_python([EXAMPLE, *arguments], output=folder, variables={})
        assert run.returncode == 0, run.stderr
        _alone[arguments] = run.stdout
    return _alone[arguments]


@pytest.fixture(scope="module")
def with_everything(tmp_path_factory: pytest.TempPathFactory) -> ToolRun:
    """A run in which everything is collected."""
    output = tmp_path_factory.mktemp("everything") / "output"
    run = run_observed([EXAMPLE, f"--steps={STEPS}"], *EVERYTHING, output=output)
    assert run.returncode == 0, run.stderr
    return run


@pytest.mark.parametrize("options", MODES)
def test_losses_are_bit_identical_in_every_mode(
    run_under_tool: RunUnderTool, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The program prints its losses with every digit; nothing differs."""
    arguments = (f"--steps={STEPS}",)
    run = run_under_tool([sys.executable, EXAMPLE, *arguments], *options)
    assert run.returncode == 0, run.stderr
    assert run.stdout == losses_alone(arguments, tmp_path)


def test_losses_are_bit_identical_with_everything_collected(with_everything: ToolRun, tmp_path: Path) -> None:
    """Nothing differs."""
    assert with_everything.stdout == losses_alone((f"--steps={STEPS}",), tmp_path)


@nightly
@pytest.mark.parametrize("arguments", [("--steps=4", "--optimizer=sgd"), ("--steps=4", "--workers=2")])
def test_losses_are_bit_identical_for_other_trainings(
    run_under_tool: RunUnderTool, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Another optimizer, and data loaded by other processes."""
    run = run_under_tool([sys.executable, EXAMPLE, *arguments], "--events=alloc,free,launch,access")
    assert run.returncode == 0, run.stderr
    assert run.stdout == losses_alone(arguments, tmp_path)


def test_accesses_lie_in_live_blocks(with_everything: ToolRun) -> None:
    """Each ACCESS that names a block lies within it, between its MALLOC and its FREE; most name one."""
    events = events_of(with_everything.capture)
    assert_sound(events)
    accesses = events.filter(pl.col("kind").is_in([int(kind) for kind in ACCESS_KINDS]))
    named = accesses.filter(pl.col("extra") != 0)
    assert named.height > 0.95 * accesses.height
    blocks = events.filter(pl.col("kind") == int(EventKind.MALLOC)).select(
        block="sequence", begin="address", block_size="size"
    )
    freed = events.filter(pl.col("kind") == int(EventKind.FREE)).select(block="extra", end="sequence")
    joined = named.join(blocks, left_on="extra", right_on="block", how="left").join(
        freed, left_on="extra", right_on="block", how="left"
    )
    assert joined["begin"].null_count() == 0
    inside = (pl.col("address") >= pl.col("begin")) & (
        pl.col("address") + pl.col("size").cast(pl.UInt64) <= pl.col("begin") + pl.col("block_size").cast(pl.UInt64)
    )
    alive = pl.col("end").is_null() | (pl.col("sequence") < pl.col("end"))
    assert joined.filter(~inside).height == 0
    assert joined.filter(~alive).height == 0


def test_live_bytes_equal_those_of_the_torch_profiler(output: Path) -> None:
    """At ten points of a training, to the byte; the program marks them by blocks of sizes that nothing else has."""
    run = run_observed([SOURCES / "profiled_training.py"], "--events=alloc,free", output=output)
    assert run.returncode == 0, run.stderr
    line = next(line for line in run.stdout.splitlines() if line.startswith("{"))
    expected = {int(size): change for size, change in json.loads(line).items()}
    assert len(expected) == 10
    events = events_of(run.capture)
    assert_sound(events)
    blocks = events.filter(pl.col("kind").is_in([int(EventKind.MALLOC), int(EventKind.FREE)])).with_columns(
        alive=pl.when(pl.col("kind") == int(EventKind.MALLOC)).then(pl.col("size")).otherwise(-pl.col("size")).cum_sum()
    )
    marks = blocks.filter((pl.col("kind") == int(EventKind.MALLOC)) & pl.col("size").is_in(list(expected)))
    assert marks.height == 10
    recorded = {size: alive - size for size, alive in marks.select("size", "alive").iter_rows()}
    first = min(recorded)
    for size, change in expected.items():
        assert recorded[size] - recorded[first] == change - expected[first], f"at the mark of {size} bytes"
