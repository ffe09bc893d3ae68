"""The collection scope: what start() and stop() enclose, and which settings hold in it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
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
    """What a run prints, on one line."""
    return " ".join(run.stderr.split())


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
        assert "by owner" in run.stderr


@pytest.mark.parametrize("events", ["", "launch"])
@pytest.mark.parametrize("analysis", ["leaks", "decompose"])
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
