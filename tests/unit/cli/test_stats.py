"""The verb `stats`: numbers and bars, for people and for scripts."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.weights.numbers import count_process
from msmemscope.cli.main import main
from msmemscope.reports.numbers_report import render_numbers
from tests.fakes.traces import Trace
from tests.support.golden_text import check_golden
from tests.support.recorded_runs import with_dumps, write_run
from tests.unit.reports.test_peak_report import growing

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("in_folder_of_test")


def test_as_it_looks() -> None:
    """At 80 columns, two pools."""
    out = io.StringIO()
    render_numbers(count_process(growing().recording(), "python train.py"), out, width=80)
    check_golden("stats_80.txt", out.getvalue())


def test_a_terminal_without_blocks() -> None:
    """Gets bars of another letter."""
    trace = Trace()
    trace.malloc(512)
    buffer = io.BytesIO()
    out = io.TextIOWrapper(buffer, encoding="ascii")
    render_numbers(count_process(trace.recording(), "?"), out, width=80)
    out.flush()
    assert b"  512 bytes  ########################\n" in buffer.getvalue()


def test_names_cannot_steer_the_terminal() -> None:
    """Nor can damaged times and kinds be the end of it."""
    trace = Trace()
    trace.malloc(512)
    trace.rows[0]["timestamp_ns"] = (1 << 64) - 1
    trace.rows.append({"sequence": 2, "timestamp_ns": (1 << 64) - 1, "kind": 222})
    out = io.StringIO()
    render_numbers(count_process(trace.recording(), "\x1b[31mpython \u202e[bold]x"), out, width=80)
    assert not {"\x1b", "\u202e"} & set(out.getvalue())
    assert "[bold]x" in out.getvalue()
    assert "1 kind 222" in out.getvalue()


def test_any_input_and_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of a dump are those of its capture."""
    captures = [write_run(tmp_path / "runs", process_id=process_id) for process_id in (11, 12)]
    assert main(["stats", "runs"]) == 0
    text = capsys.readouterr().out
    assert text.count("  18 allocations (168,224 per second) of 9.02 MiB, 12 frees\n") == 2
    assert "  Not seen: launches of kernels were not recorded" in text
    dump = with_dumps(captures[0])
    capsys.readouterr()
    results = []
    for path in (captures[0], dump):
        assert main(["stats", str(path), "--json"]) == 0
        (process,) = json.loads(capsys.readouterr().out)["processes"]
        results.append(process["result"])
    assert results[0]["program"] == "python3 train.py"
    for name in ("events_by_kind", "duration_ns", "step_count", "block_sizes", "lifetimes", "frequent_sizes"):
        assert results[0][name] == results[1][name]


@pytest.mark.parametrize(
    "line, message",
    [
        ([""], "PATH: names nothing"),
        (["/no/such/path"], "'/no/such/path' cannot be read: No such file or directory"),
        ([], "a path is missing"),
        (["--top"], "unrecognized arguments: --top"),
    ],
)
def test_bad_arguments(line: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2; nothing on stdout."""
    assert main(["stats", *line]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


@pytest.mark.parametrize("verb", ["summary", "top", "tree", "stats"])
def test_help_fits_a_screen(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With an example."""
    assert main([verb, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 80
    assert f"example: msmemscope {verb} " in "\n".join(lines)
