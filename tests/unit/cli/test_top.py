"""The verb `top`: tables of call sites, and what it does not accept."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.weights.ranked_sites import RankedBy, rank_sites
from msmemscope.cli.main import main
from msmemscope.reports.ranked_sites_report import render_ranked_sites
from tests.fakes.traces import Trace
from tests.support.golden_text import check_golden
from tests.support.recorded_runs import HELD_BYTES, KEPT_BYTES, OTHER_BYTES, with_dumps, write_run
from tests.unit.reports.test_peak_report import growing

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("in_folder_of_test")


def rendered(trace: Trace, ranked_by: RankedBy = RankedBy.PEAK, *, limit: int = 10) -> str:
    """The tables at 80 columns."""
    out = io.StringIO()
    render_ranked_sites(rank_sites(trace.recording(), ranked_by), out, limit=limit, width=80)
    return out.getvalue()


@pytest.mark.parametrize("ranked_by", [RankedBy.PEAK, RankedBy.CHURN, RankedBy.BYTE_SECONDS])
def test_as_it_looks(ranked_by: RankedBy) -> None:
    """At 80 columns, two pools."""
    check_golden(f"top_{ranked_by.value}_80.txt", rendered(growing(), ranked_by, limit=2))


def test_sites_with_the_same_line_are_told_apart() -> None:
    """By the frame that called them; others are one line each."""
    trace = Trace()
    for caller in (5, 6):
        trace.malloc(100 * caller, f"/home/me/helper.py(1): new\n/home/me/train.py({caller}): main")
    trace.malloc(1, "/home/me/other.py(1): new\n/home/me/train.py(7): main")
    text = rendered(trace)
    assert "from /home/me/train.py(5): main" in text
    assert "from /home/me/train.py(6): main" in text
    assert "train.py(7)" not in text


def test_what_is_not_listed_is_counted() -> None:
    """With its bytes, so that the table and this line are the whole."""
    trace = Trace()
    for number in range(5):
        trace.malloc(1024 * (5 - number), f"/home/me/train.py({number}): main")
    text = rendered(trace, limit=2)
    assert "In use at the peak on npu:0 (PTA): 15.0 KiB in 5 blocks, 5 call sites\n" in text
    assert "  and 3 more: 6.00 KiB (40.0%) in 3 blocks\n" in text


def test_names_cannot_steer_the_terminal() -> None:
    """They come from the program."""
    trace = Trace()
    trace.malloc(512, "/home/\x1b[31mred\u202e.py(1): \x07[bold]f[/bold]", operator="\x1b]0;title\x07")
    text = rendered(trace)
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "[bold]f[/bold]" in text


def test_any_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A capture has lines; its dump has operators, and says why not more."""
    capture = write_run(tmp_path / "runs")
    assert main(["top", "runs", "--by=leaked"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Leaked on cpu (HOST): 2.00 MiB in 4 blocks, 1 call site\n")
    assert "/home/me/train.py(11): keep" in captured.out
    assert captured.err == ""
    dump = with_dumps(capture).rename(tmp_path / "dump.csv")
    capsys.readouterr()
    assert main(["top", str(dump), "--by=churn"]) == 0
    assert "Not seen: this dump has no call stacks" in capsys.readouterr().out


def test_several_processes_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has its tables; for scripts all call sites are there, whatever the limit."""
    for process_id in (11, 12):
        write_run(tmp_path / "runs", process_id=process_id)
    assert main(["top", "runs"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("Process")] == [
        "Process 11",
        "Process 12",
    ]
    assert main(["top", "runs", "--by=allocated", "--limit=1", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["verb"], len(content["processes"])) == ("top", 2)
    sites = content["processes"][0]["result"]["sites"]
    assert [site["weight"] for site in sites] == [6 * (HELD_BYTES + OTHER_BYTES), 6 * KEPT_BYTES]
    assert (sites[0]["device"], sites[0]["pool"]) == ("cpu", "HOST")


BAD = [
    (["--by=pek"], "--by: is nothing that call sites are ranked by: 'pek' (accepted: peak, leaked, allocated, churn, "),
    (["--by=pek"], "hint: did you mean --by=peak?"),
    (["--by=\x1b[31m"], "'\\x1b[31m'"),
    (["--limit=0"], "--limit: must be a number of rows: '0' (accepted: 1 to 1000000)"),
    (["--limit=ten"], "--limit: must be a number of rows: 'ten'"),
    (["--limit=9999999999999"], "--limit: must be a number of rows"),
    ([""], "PATH: names nothing"),
    (["/no/such/path"], "'/no/such/path' cannot be read: No such file or directory"),
    ([], "a path is missing"),
]


@pytest.mark.parametrize("line, message", BAD)
def test_bad_arguments(line: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, the value, what is accepted; nothing on stdout."""
    assert main(["top", *line]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert "\x1b" not in captured.err
