"""The analyses at the end of a run: under the launcher, and with the Python interface alone."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.targets import SOURCES
from tests.unit.formats.dump.conftest import csv_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder

LEAK = re.compile(r"^Direct Host memory leak of 1\.000000 Mb\(s\) at 0x[0-9a-f]+ at step (\d+)\.$", re.MULTILINE)
SUMMARY = "\n====== SUMMARY: 4 Mb(s) leaked in 4 allocation(s) ======\n"


def _line_of(text: str) -> int:
    """The number of the line of the program that has a text."""
    lines = (SOURCES / "leaky_steps.py").read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number


@pytest.fixture(scope="module")
def run(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, tmp_path_factory: pytest.TempPathFactory
) -> tool.ToolRun:
    """Six steps that leak, under the tool."""
    output = tmp_path_factory.mktemp("steps") / "output"
    command = python_target("leaky_steps", str(target_builder.library()), "6")
    options = ["--device=cpu", "--analysis=leaks", f"--output={output}"]
    return tool.run([*tool.TOOL, *options, "--", *command], output=output)


def test_a_leak_is_found_at_the_end_of_a_run(run: tool.ToolRun) -> None:
    """In the form that scripts know, as they were asked for by name; the program's own output and status stay as they are."""
    assert (run.returncode, run.stdout) == (0, "")
    assert "\n====== ERROR: Detected memory leaks on device cpu ======\n" in run.stderr
    assert LEAK.findall(run.stderr) == ["2", "3", "4", "5"]
    assert SUMMARY in run.stderr
    assert f"leaky_steps.py({_line_of('fake_tensor_allocate(1 << 20)')})" in run.stderr
    assert "not run" not in run.stderr


def test_without_steps_one_line_says_what_is_missing(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """And the rest of the summary is as it is without the analysis."""
    command = python_target("leaky_steps", str(target_builder.library()), "0")
    run = run_under_tool(command)
    about_leaks = [line for line in run.stderr.splitlines() if "leak" in line and "leaky_steps" not in line]
    assert len(about_leaks) == 1
    assert about_leaks[0].startswith("msmemscope: leaks not judged: no steps were seen")
    assert "Gap Analysis" not in run.stderr
    off = run_under_tool(command, "--analysis=", output=run.output.with_name("off"))
    assert "msmemscope: leaks not judged: --analysis leaves them out" in off.stderr


def test_the_python_interface_finds_them_too(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, tmp_path: Path
) -> None:
    """A program that starts collecting by itself gets the same when it ends, without a launcher."""
    command = python_target("leaky_steps", str(target_builder.library()), "6", "start")
    run = tool.run(["env", "-C", tmp_path, *command], output=tmp_path / "memscopeDumpResults")
    assert run.returncode == 0, run.stderr
    assert "msmemscope: leak: 4.00 MiB in 4 blocks on cpu" in run.stderr
    report = (run.capture.directory / "report.txt").read_text(encoding="utf-8")
    assert LEAK.findall(report) == ["2", "3", "4", "5"]
    assert SUMMARY in report


@pytest.mark.torch
@pytest.mark.slow
def test_inefficient_memory_is_shown_and_stands_in_the_dump(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool
) -> None:
    """The summary counts the same findings as the rows, and the analysis finds them again in the dump."""
    run = run_under_tool(python_target("inefficient_steps", "cpu"), "--analysis=inefficient")
    assert run.returncode == 0, run.stderr
    assert "inefficient_steps.py" in run.stderr[run.stderr.index("msmemscope: inefficient: ") :]
    size = run.report["size"]
    (dump,) = run.output.glob("*/device_cpu/dump/memscope_dump_*.csv")
    rows = [row for row in csv_rows(dump) if "inefficient_type:" in row["Attr"]]
    assert {row["Event"] for row in rows} == {"MALLOC"}
    late = [row for row in rows if f"size:{size}," in row["Attr"]]
    assert len(late) == 4
    assert all("late_deallocation" in row["Attr"] for row in late)
    again = tool.run([*tool.TOOL, "analyze", "inefficient", dump, "--json"], output=run.output)
    findings = json.loads(again.stdout)["processes"][0]["result"]["findings"]
    assert {finding["allocation_id"] for finding in findings} == {int(row["ID"]) for row in rows}


def test_the_command_reads_what_a_run_left(run: tool.ToolRun) -> None:
    """The folder of the run, and its dump, give the same leaks as the run itself printed."""
    printed = [line for line in run.stderr.splitlines() if line.startswith("Direct ")]
    (dump,) = run.output.glob("*/device_cpu/dump/memscope_dump_*.csv")
    for path in (run.output, dump):
        found = tool.run([*tool.TOOL, "analyze", "leaks", path, "--fail-on-findings"], output=run.output)
        assert found.returncode == 1, found.stderr
        assert [line for line in found.stdout.splitlines() if line.startswith("Direct ")] == printed
        assert found.stderr == "" or (
            path == dump and found.stderr.startswith("msmemscope: a dump has less than its capture")
        )


def test_a_reader_that_goes_away_is_no_error(run: tool.ToolRun) -> None:
    """`msmemscope analyze leaks DIR | head` is quiet."""
    line = f"{sys.executable} -m msmemscope analyze leaks {run.output} --json | true"
    piped = tool.run(["bash", "-c", line], output=run.output)
    assert (piped.returncode, piped.stderr) == (0, "")
