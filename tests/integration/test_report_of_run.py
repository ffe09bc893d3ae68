"""`--report` in front of a program: the page of the run, in the folder of its first process."""

from __future__ import annotations

import dataclasses
import io
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main
from msmemscope.launch import html_report
from msmemscope.launch.captures import open_captures
from msmemscope.launch.finish import finish
from msmemscope.launch.html_report import with_page
from msmemscope.reports.run_summary import ProcessSummary, RunSummary
from msmemscope.reports.terminal import render_run
from tests.support.recorded_runs import write_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder


def test_the_page_lies_beside_the_dumps_and_is_named(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """It has the verdict of the summary; without the option there is none."""
    command = python_target("leaky_steps", str(target_builder.library()), "6")
    run = run_under_tool(command, "--report")
    assert run.returncode == 0, run.stderr
    page = (run.capture.directory / "report.html").read_text(encoding="utf-8")
    verdict = run.stderr[run.stderr.index("msmemscope: leak: ") :].removeprefix("msmemscope: ").split(" at")[0]
    assert verdict.startswith("leak: 4.00 MiB in 4 blocks")
    assert verdict in page
    assert "\n  report.html\n" in run.stderr
    bare = run_under_tool(command, output=run.output.with_name("bare"))
    assert not (bare.capture.directory / "report.html").exists()


@pytest.fixture
def ranks(tmp_path: Path) -> tuple[ProcessSummary, ...]:
    """The processes of a run of two ranks."""
    captures = open_captures([write_run(tmp_path, process_id=100 + rank, rank=rank) for rank in range(2)])
    return finish(captures, {}).processes


def test_the_page_is_about_all_processes_and_the_summary_says_where_it_is(ranks: tuple[ProcessSummary, ...]) -> None:
    """One file in the folder of the first; an older one is replaced."""
    (ranks[0].directory / "report.html").write_text("old", encoding="utf-8")
    named = with_page(ranks)
    (path,) = (file.path for one in named for file in one.files if file.path.name == "report.html")
    assert path.parent == ranks[0].directory
    assert "(ranks 0-1)" in path.read_text(encoding="utf-8")
    out = io.StringIO()
    render_run(RunSummary(named), out, width=200)
    assert f"Page: {path}\n" in out.getvalue()


def test_recover_writes_the_page_if_it_is_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """About all captures, and the summary says where it is; without the option there is none."""
    captures = [write_run(tmp_path, process_id=100 + rank, rank=rank) for rank in range(2)]
    assert main(["recover", str(tmp_path)]) == 0
    assert not list(tmp_path.glob("*/report.html"))
    assert main(["recover", str(tmp_path), "--report"]) == 0
    (page,) = tmp_path.glob("*/report.html")
    assert page.parent in captures
    assert "(ranks 0-1)" in page.read_text(encoding="utf-8")
    assert "report.html" in capsys.readouterr().err


def test_too_many_events_are_left_out_with_the_command(
    ranks: tuple[ProcessSummary, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would not fit into memory while the program's user waits."""
    monkeypatch.setattr(html_report, "MOST_EVENTS", 10)
    assert with_page(ranks) == ranks
    assert f"hint: msmemscope report {ranks[0].directory}" in capsys.readouterr().err
    assert not (ranks[0].directory / "report.html").exists()


def test_a_page_that_cannot_be_written_costs_nothing_else(
    ranks: tuple[ProcessSummary, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says why, and the summary stays as it was."""
    (ranks[0].directory / "report.html").mkdir()
    assert with_page(ranks) == ranks
    assert "report.html cannot be written" in capsys.readouterr().err


def test_a_process_that_still_runs_is_no_part_of_the_page(ranks: tuple[ProcessSummary, ...]) -> None:
    """Its log is not complete."""
    running = dataclasses.replace(ranks[0], is_running=True)
    named = with_page([running, ranks[1]])
    assert [any(file.path.name == "report.html" for file in one.files) for one in named] == [False, True]
