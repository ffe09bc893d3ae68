"""The collection scope: what start() and stop() enclose, and which settings hold in it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.nightly import nightly
from tests.support.targets import SOURCES
from tests.unit.formats.dump.conftest import csv_rows

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HELD_TOO_LONG = """
held = torch.ones(1 << 20)
held.zero_()
other = torch.ones(1 << 20)
another = torch.neg(other)
del held
"""
"""`held` is freed after operators that allocate and do not use it: without it the peak would be a third lower."""


def run_program(text: str, folder: Path, *options: str) -> tool.ToolRun:
    """Run a program that uses torch; under the tool if there are options, else as it is.

    The program runs in `folder`, so that its results are in `folder/memscopeDumpResults` unless it says otherwise.
    """
    program = folder / "program.py"
    program.write_text(f"import torch\nimport msmemscope\n{text}\n", encoding="utf-8")
    command = [sys.executable, str(program)]
    whole = [*tool.TOOL, "--device=cpu", *options, "--", *command] if options else command
    run = tool.run(whole, output=folder / "memscopeDumpResults", folder=folder)
    assert run.returncode == 0, run.stderr
    return run


def words_of(run: tool.ToolRun) -> str:
    """The words that a run prints, on one line."""
    return " ".join(run.stderr.split())


def report_of(run: tool.ToolRun) -> str:
    """The whole report of the one process on one line; the screen shows a part of it."""
    return " ".join((run.capture.directory / "report.txt").read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    ("first", "options"),
    [
        pytest.param("", ("--collect-mode=deferred", "--analysis=inefficient,decompose"), id="deferred"),
        pytest.param("msmemscope.config(analysis='inefficient', device='cpu')", (), id="without the launcher"),
    ],
)
def test_inefficient_memory_of_a_scope_is_judged(first: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """Between start() and stop(), where collection waits for start(); what lies outside is named."""
    text = f"{first}\nmsmemscope.start()\n{HELD_TOO_LONG}\nmsmemscope.stop()"
    run = run_program(text, tmp_path, *options)
    assert "not judged, collection waited" not in words_of(run)
    assert "msmemscope: inefficient: 4.00 MiB " in words_of(run)
    assert "collection was on for a part of the run only" in words_of(run)
    if "decompose" in "".join(options):
        assert "by owner" in report_of(run)


@pytest.mark.parametrize(
    ("analysis", "events"),
    [
        ("decompose", ""),
        ("leaks", "launch"),
        pytest.param("decompose", "launch", marks=nightly),
        pytest.param("leaks", "", marks=nightly),
    ],
)
def test_analyses_switch_alloc_and_free_on(analysis: str, events: str, tmp_path: Path) -> None:
    """Whatever --events says: the rows of blocks are written, with their owners if those were asked for."""
    run = run_program("kept = torch.ones(1000)", tmp_path, f"--events={events}", f"--analysis={analysis}")
    (dump,) = run.output.glob("*/device_cpu/dump/memscope_dump_*.csv")
    rows = csv_rows(dump)
    (block,) = [row for row in rows if row["Event"] == "MALLOC"]
    assert "size:4000" in block["Attr"]
    assert ("owner:" in block["Attr"]) == (analysis == "decompose")
    assert [row["Event"] for row in rows].count("FREE") == 1
    assert any(row["Event"] == "OP_LAUNCH" for row in rows) == (events == "launch")
    assert not any(row["Event"] == "ACCESS" for row in rows)


CHOOSES_OUTPUT = """
msmemscope.config(output="chosen", data_format="db")
msmemscope.start()
kept = torch.ones(1000)
msmemscope.stop()
"""


@pytest.mark.parametrize("mode", ["immediate", pytest.param("deferred", marks=nightly)])
def test_a_program_chooses_where_its_results_go(mode: str, tmp_path: Path) -> None:
    """Under the launcher too: what is not on the command line is only its default."""
    run = run_program(CHOOSES_OUTPUT, tmp_path, f"--collect-mode={mode}")
    assert len([*(tmp_path / "chosen").glob("*/device_cpu/dump/memscope_dump_*.db")]) == 1
    assert not [*tmp_path.rglob("memscope_dump_*.csv")]
    assert not (tmp_path / "memscopeDumpResults").exists()
    assert "stays" not in run.stderr
    assert "Files in chosen/" in words_of(run)


@pytest.mark.parametrize(
    ("option", "keyword", "expected"),
    [
        ("--output=typed", "output", "typed/*/device_cpu/dump/memscope_dump_*.db"),
        pytest.param("--output-path=typed", "output", "typed/*/device_cpu/dump/memscope_dump_*.db", marks=nightly),
        ("--data-format=csv", "data_format", "chosen/*/device_cpu/dump/memscope_dump_*.csv"),
    ],
)
def test_what_stands_on_the_command_line_holds(option: str, keyword: str, expected: str, tmp_path: Path) -> None:
    """And only that: the other setting is the program's."""
    run = run_program(CHOOSES_OUTPUT, tmp_path, option)
    assert len([*tmp_path.glob(expected)]) == 1, run.stderr
    lines = [line for line in run.stderr.splitlines() if line.startswith("msmemscope: config: ")]
    assert len(lines) == 1
    assert f" {keyword} stays " in lines[0]
    assert lines[0].endswith(": the command line has chosen it")


def test_an_output_that_comes_too_late_says_so(tmp_path: Path) -> None:
    """The log lies where it was begun; its results are still written as the program wants them."""
    run = run_program(f"early = torch.ones(10)\n{CHOOSES_OUTPUT}", tmp_path, "--collect-mode=immediate")
    assert len([*(tmp_path / "memscopeDumpResults").glob("*/device_cpu/dump/memscope_dump_*.db")]) == 1
    reason = "it can be set only once in a process, before anything is recorded"
    assert f"config: output stays '{tmp_path}/memscopeDumpResults': {reason}" in run.stderr


def test_what_is_older_than_the_import_exists_where_the_libraries_are_preloaded(tmp_path: Path) -> None:
    """The documented environment: weights that were there before the program imports msmemscope."""
    program = SOURCES / "imported_late.py"
    script = f'set -e\neval "$({sys.executable} -m msmemscope env)"\n{sys.executable} {program} cpu'
    run = tool.run(["bash", "-c", script], output=tmp_path / "memscopeDumpResults", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    (dump,) = run.output.glob("*/device_cpu/dump/memscope_dump_*.csv")
    weights = [row["Attr"] for row in csv_rows(dump) if row["Event"] == "MALLOC" and "@model@weight" in row["Attr"]]
    assert len(weights) == 1
    assert "size:360000" in weights[0]
    assert "shadow:true" in weights[0]
    assert "weights 352 KiB 1" in report_of(run)


TWO_SCOPES = """
model = torch.nn.Linear(300, 300, bias=False)
msmemscope.config(analysis="decompose", device="cpu", call_stack="python")
msmemscope.start()
torch.optim.SGD(model.parameters())
first = torch.ones(111)
msmemscope.stop()
msmemscope.config(events="alloc", analysis="", device="cpu")
msmemscope.start()
second = torch.ones(222)
msmemscope.stop()
msmemscope.config(events="alloc", device="cpu", call_stack="python")
msmemscope.start()
third = torch.ones(333)
msmemscope.stop()
"""


@pytest.mark.parametrize("options", [(), ("--collect-mode=deferred",)], ids=["alone", "launched"])
def test_each_scope_has_its_own_settings(options: tuple[str, ...], tmp_path: Path) -> None:
    """The settings of one scope hold for its own rows, and not for those of another."""
    run = run_program(TWO_SCOPES, tmp_path, *options)
    (dump,) = run.output.glob("*/device_cpu/dump/memscope_dump_*.csv")
    rows = csv_rows(dump)
    first, second, third = (
        next(row for row in rows if row["Event"] == "MALLOC" and f"size:{4 * count}," in row["Attr"])
        for count in (111, 222, 333)
    )
    assert "owner:" in first["Attr"]
    assert any("@model@weight" in row["Attr"] for row in rows)
    assert "by owner" in report_of(run)
    assert [bool(row["Call Stack(Python)"]) for row in (first, second, third)] == [True, False, True]


FIRST_STEP = """
before = torch.ones(1111)
torch.ones(2222)
msmemscope.start()
inside = torch.ones(3333)
msmemscope.step()
torch.ones(4444)
msmemscope.step()
"""


@pytest.mark.parametrize("mode", [pytest.param("immediate", marks=nightly), "deferred"])
def test_the_first_step_begins_at_start(mode: str, tmp_path: Path) -> None:
    """With --steps=1: what came and went before start() is none of it, and what is older exists."""
    run = run_program(FIRST_STEP, tmp_path, "--steps=1", f"--collect-mode={mode}")
    (dump,) = run.output.glob("*/device_cpu/dump/memscope_dump_*.csv")
    rows = csv_rows(dump)
    blocks = [
        (size, "shadow" in row["Attr"])
        for row in rows
        for size in (4444, 8888, 13332, 17776)
        if row["Event"] == "MALLOC" and f"size:{size}," in row["Attr"]
    ]
    assert blocks == [(4444, True), (13332, False)]
    assert [row["Event Type"] for row in rows].count("START_TRACE") == 1
    assert [row["Event Type"] for row in rows].count("ATEN_START") == 1
