"""PyTorch programs: tensors of known sizes, other threads, compiled code, and collection that starts late."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.model.events import EventKind
from tests.support import tool
from tests.support.nightly import nightly
from tests.support.recordings import assert_sound, count, events_of, shadows
from tests.support.targets import SOURCES
from tests.support.warm import run_observed, run_python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RunUnderTool

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def backward_run(tmp_path_factory: pytest.TempPathFactory) -> tool.ToolRun:
    """A program with a backward pass of its own, with all of its events, stacks and calls."""
    output = tmp_path_factory.mktemp("backward") / "output"
    options = ("--events=alloc,free,launch,access,traceback", "--call-stack=python")
    words = (*tool.TOOL, "--device=cpu", f"--output={output}", *options, "--")
    run = tool.run([*words, sys.executable, SOURCES / "backward_thread.py"], output=output)
    assert run.returncode == 0, run.stderr
    return run


def test_backward_is_observed_in_every_thread(backward_run: tool.ToolRun) -> None:
    """Tensors made by a custom backward have their events, with Python stacks that name the line."""
    run = backward_run
    report = run.report
    events = events_of(run.capture)
    assert_sound(events)
    rounds = int(report["rounds"])
    for direction in ("forward", "backward"):
        size = report[f"{direction}_size"]
        assert count(events, EventKind.MALLOC, size=size) == rounds
        assert count(events, EventKind.FREE, size=size) == rounds
        assert count(events, EventKind.ACCESS_WRITE, size=size) >= rounds, "zero_ writes the scratch tensor"
    backward = events.filter(
        (pl.col("kind") == int(EventKind.MALLOC)) & (pl.col("size") == int(report["backward_size"]))
    )
    for stack_id in backward["python_stack_id"]:
        assert "backward_thread.py(" in run.capture.python_stack_text(stack_id)


@pytest.mark.parametrize("backend", [pytest.param("eager", marks=nightly), "aot_eager"])
def test_compiled_regions_give_the_same_numbers(output: Path, tmp_path: Path, backend: str) -> None:
    """torch.compile works under the operator collector, with bit-identical results."""
    words = [SOURCES / "compiled_region.py", backend]
    alone = run_python(words, output=tmp_path, variables={})
    run = run_observed(words, "--events=alloc,free,launch,access", "--call-stack=python", output=output)
    assert alone.returncode == run.returncode == 0, run.stderr
    assert run.report == alone.report
    assert run.report["close"] == "1"
    events = events_of(run.capture)
    assert_sound(events)
    assert count(events, EventKind.ATEN_START) > 0


@pytest.mark.parametrize("moment", ["early", "late"])
def test_collection_can_start_late_without_the_launcher(tmp_path: Path, moment: str) -> None:
    """Between start() and stop() everything is recorded; a block that was alive appears as existing at start()."""
    words = [SOURCES / "late_start.py", moment]
    run = run_python(words, output=tmp_path / "memscopeDumpResults", variables={}, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    report = run.report
    events = events_of(run.capture)
    assert_sound(events)
    assert count(events, EventKind.MALLOC, size=report["before_size"]) == 0
    assert count(events, EventKind.MALLOC, size=report["after_size"]) == 0
    assert count(events, EventKind.MALLOC, size=report["during_size"]) == int(report["during"])
    during = events.filter((pl.col("kind") == int(EventKind.FREE)) & (pl.col("size") == int(report["during_size"])))
    after_stop = shadows(during, EventKind.FREE).height
    assert during.height - after_stop == int(report["during"]) - 1, "one is kept over stop()"
    assert count(events, EventKind.STEP) == 1
    assert count(events, EventKind.START_TRACE) == count(events, EventKind.STOP_TRACE) == 1
    alive = shadows(events, EventKind.MALLOC)
    if moment == "early":
        assert int(report["alive_size"]) in set(alive["size"]), "imported early: the block was followed all along"


def test_deferred_mode_waits_for_start(output: Path) -> None:
    """Only what happens between start() and stop() is there, and what was alive then, marked as such."""
    run = run_observed([SOURCES / "deferred_mode.py"], "--collect-mode=deferred", output=output)
    assert run.returncode == 0, run.stderr
    report = run.report
    events = events_of(run.capture)
    assert_sound(events)
    assert count(events, EventKind.MALLOC, size=report["before_size"]) == 0
    assert count(events, EventKind.MALLOC, size=report["after_size"]) == 0
    assert count(events, EventKind.MALLOC, size=report["during_size"]) == int(report["during"])
    existing = shadows(events, EventKind.MALLOC).filter(pl.col("size") == int(report["alive_size"]))
    assert existing.height == 1
    freed = events.filter((pl.col("kind") == int(EventKind.FREE)) & (pl.col("size") == int(report["alive_size"])))
    assert freed["extra"].to_list() == existing["sequence"].to_list()


def test_python_trace_has_the_calls(backward_run: tool.ToolRun) -> None:
    """--events=traceback records the functions of the program with their times, and the names of modules."""
    traces = list(backward_run.capture.directory.glob("device_cpu/dump/python_trace_*.csv"))
    assert traces
    text = "".join(path.read_text(encoding="utf-8") for path in traces)
    assert "backward_thread.py(" in text
    assert "): train" in text
    assert text.count("nn.Module: Linear") == int(backward_run.report["rounds"]), "torch was imported under the trace"


def test_a_plain_python_program_runs_as_ever(run_under_tool: RunUnderTool) -> None:
    """Without torch nothing is loaded into the program, and nothing is left behind."""
    code = "import sys; print(sorted(m for m in ('numpy', 'polars', 'torch', 'rich') if m in sys.modules))"
    run = run_under_tool([sys.executable, "-c", code])
    assert run.returncode == 0, run.stderr
    assert run.stdout == "[]\n"
    assert run.captures == []


def test_start_is_recorded_where_collection_is_on_already(run_under_tool: RunUnderTool) -> None:
    """As its end is: the command line has begun, and start() says from where the program wants it; once."""
    program = "import msmemscope as m; m.start(); m.start(); m.stop(); m.start(); m.stop()"
    run = run_under_tool([sys.executable, "-c", program])
    assert run.returncode == 0, run.stderr
    of_host = (EventKind.HOST_SAMPLE, EventKind.HOST_SAMPLE_FREE, EventKind.HOST_MEMORY)
    kinds = [kind for kind in events_of(run.capture)["kind"] if kind not in of_host]
    assert kinds == [int(EventKind.START_TRACE), int(EventKind.STOP_TRACE)] * 2
