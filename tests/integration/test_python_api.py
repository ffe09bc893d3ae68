"""`config()`, `collect()`, `describer`, `start()` and `stop()` inside a program that was not launched by us."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.model.events import EventKind
from tests.support.recordings import assert_sound, events_of
from tests.support.targets import SOURCES
from tests.support.warm import run_python

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.tool import ToolRun

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def run_scenario(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ToolRun]:
    """Run one scenario of the program."""

    def run(name: str) -> ToolRun:
        output = tmp_path_factory.mktemp(name)
        result = run_python([SOURCES / "python_api.py", name, output], output=output, variables={})
        assert result.returncode == 0, result.stderr
        return result

    return run


@pytest.fixture(scope="module")
def labelled(run_scenario: Callable[[str], ToolRun]) -> ToolRun:
    """The scenario of labels."""
    return run_scenario("labels")


LABELS = {
    10_000: "5before",
    10_001: "5function", 10_002: "5function|6inner", 10_003: "5function", 10_004: "5explicit", 10_005: "", 10_006: "",
    10_007: "5a|6b", 10_008: "5a|6b|7c", 10_009: "5a|6b|7c", 10_010: "", 10_011: "", 10_012: "", 10_013: "", 10_014: "",
    10_015: "5generator", 10_016: "5generator", 10_017: "5generator", 10_018: "", 10_019: r"5line\nfeed",
    10_020: "5coroutine", 10_021: "5items", 10_022: "5items", 10_023: "", 10_024: "", 10_028: "",
    10_030: "5task10030", 10_031: "5task10030|6child", 10_032: "",
    10_040: "5task10040", 10_041: "5task10040|6child", 10_042: "",
}  # fmt: skip
"""Bytes of a block to the labels in force where it was allocated."""


def test_labels_of_code(labelled: ToolRun) -> None:
    """Decorator, block of code, explicit calls; nesting, exceptions, threads, tasks, generators, before start()."""
    events = events_of(labelled.capture)
    assert_sound(events)
    strings = labelled.capture.strings
    allocations = events.filter((pl.col("kind") == int(EventKind.MALLOC)) & pl.col("size").is_in(list(LABELS)))
    found = {
        size: strings[extra].replace("\n", "|") if extra else ""
        for size, extra in allocations.select("size", "extra").iter_rows()
    }
    assert found == LABELS


def test_labels_of_memory_that_exists(labelled: ToolRun) -> None:
    """Tensors, modules, containers and addresses inside of a block."""
    events = events_of(labelled.capture)
    strings = labelled.capture.strings
    owners = events.filter(pl.col("kind") == int(EventKind.OWNER))
    given = {size: strings[text] for size, text in owners.select("size", "attribute_id").iter_rows()}
    assert given == {
        10_011: "5tensor", 100 * 101 * 4: "5module", 10_012: "5nested", 10_013: "5nested", 10_014: "5address",
    }  # fmt: skip
    blocks = dict(events.filter(pl.col("kind") == int(EventKind.MALLOC)).select("sequence", "size").iter_rows())
    assert all(blocks[block] == size for block, size in owners.select("extra", "size").iter_rows())


def test_mistakes_with_labels_are_told_once(labelled: ToolRun) -> None:
    """A fourth label, an end without a beginning, memory that nobody follows: one line each, and nothing else."""
    ours = [line for line in labelled.stderr.splitlines() if line.startswith("msmemscope: describer:")]
    assert len(ours) == 3, labelled.stderr
    assert "label 'd' is left out, because 3 labels can be nested and these are in force: a, b, c" in ours[0]
    assert "'never begun' is ended where it was not in force" in ours[1]
    assert "'nowhere' was given to memory that is not followed" in ours[2]


def test_settings_per_scope(run_scenario: Callable[[str], ToolRun]) -> None:
    """Each config() begins from the defaults; what a log is made with stays, and says so; bad settings change nothing."""
    run = run_scenario("scopes")
    events = events_of(run.capture)
    assert_sound(events)
    allocations = events.filter(pl.col("kind") == int(EventKind.MALLOC))
    recorded = dict(allocations.select("size", "flags").iter_rows())
    assert [recorded.get(20_000 + number) for number in range(7)] == [1, 0, 0, 0, 1, 0, None]
    operators = collections.Counter(
        run.capture.strings[name]
        for name in events.filter(pl.col("kind") == int(EventKind.ATEN_START))["name_id"]
        if not run.capture.strings[name].startswith("torch._ops.aten.ones")
    )
    assert "torch._ops.aten.add.Tensor" not in operators, "events were alloc only"
    assert operators["torch._ops.aten.mul.Tensor"] == operators["torch._ops.aten.div.Tensor"] == 1
    accesses = events.filter(pl.col("kind") == int(EventKind.ACCESS_READ))["name_id"]
    assert {run.capture.strings[name] for name in accesses} == {"torch._ops.aten.mul.Tensor"}
    assert [report["refused"] for report in run.reports] == ["level", "colour", "steps", "watch"]
    assert {report["kind"] for report in run.reports} == {"ConfigurationError"}
    assert list(run.capture.directory.glob("device_cpu/dump/*.db")), "the first format holds"
    assert not (run.output / "other").exists()
    for text in ("config: output stays", "config: data_format stays 'db'", "collect: collection is on already"):
        assert run.stderr.count(f"msmemscope: {text}") == 1, run.stderr


def test_start_and_stop_from_threads(run_scenario: Callable[[str], ToolRun]) -> None:
    """Operators are recorded once, whoever has begun or ended the collection."""
    run = run_scenario("threads")
    events = events_of(run.capture)
    names = collections.Counter(
        run.capture.strings[name] for name in events.filter(pl.col("kind") == int(EventKind.ATEN_START))["name_id"]
    )
    found = {
        name: names[f"torch._ops.aten.{name}"] for name in ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor")
    }
    assert found == {"add.Tensor": 1, "sub.Tensor": 0, "mul.Tensor": 1, "div.Tensor": 0}
    assert names["torch._ops.aten.exp.default"] == 1
    assert names["torch._ops.aten.log.default"] == 1
    starts = events.filter(pl.col("kind") == int(EventKind.START_TRACE)).height
    assert starts == events.filter(pl.col("kind") == int(EventKind.STOP_TRACE)).height
