"""The verb `tree`: lines of calls, and what it does not accept."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.weights.call_tree import call_tree
from msmemscope.analysis.weights.measures import Measure
from msmemscope.cli.main import main
from msmemscope.reports.call_tree_report import render_call_tree
from tests.fakes.traces import Trace
from tests.support.golden_text import check_golden
from tests.support.recorded_runs import KEPT_BYTES, write_run
from tests.unit.reports.test_peak_report import growing

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("in_folder_of_test")


def rendered(trace: Trace, *, least_share: float = 0.01, width: int = 80) -> str:
    """The tree."""
    out = io.StringIO()
    render_call_tree(call_tree(trace.recording(), Measure.ALLOCATED, least_share=least_share), out, width=width)
    return out.getvalue()


def test_as_it_looks() -> None:
    """At 80 columns: chains stay in their column, small branches are one line."""
    trace = growing()
    for number in range(9):
        trace.malloc(
            4096, f"/home/me/language-model/caches.py({number}): put\n/home/me/language-model/train.py(40): main"
        )
    check_golden("tree_allocated_80.txt", rendered(trace))


def test_a_deep_tree_keeps_to_the_width() -> None:
    """Its guides are cut, not its numbers."""
    trace = Trace()
    frames = [f"/home/me/train.py({line}): function_{line}" for line in range(60)]
    for depth in range(1, 60):
        trace.malloc(512, "\n".join(reversed(frames[:depth])))
    check_golden("tree_deep_80.txt", rendered(trace, least_share=0.0))


def test_a_terminal_without_these_letters() -> None:
    """Gets others."""
    trace = Trace()
    for line in (1, 2):
        trace.malloc(512, f"/home/me/train.py({line}): f\n/home/me/train.py(9): main")
    buffer = io.BytesIO()
    out = io.TextIOWrapper(buffer, encoding="ascii")
    render_call_tree(call_tree(trace.recording()), out, width=80)
    out.flush()
    assert b"  |-/home/me/train.py(1): f\n" in buffer.getvalue()


def test_names_cannot_steer_the_terminal() -> None:
    """They come from the program."""
    trace = Trace()
    trace.malloc(512, "/home/\x1b[31mred\u202e.py(1): \x07[bold]f[/bold]", operator="\x1b]0;title\x07")
    text = rendered(trace)
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "[bold]f[/bold]" in text


def test_options_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For scripts the same lines as for people."""
    write_run(tmp_path / "runs")
    assert main(["tree", "runs", "--of=leaked", "--depth=1"]) == 0
    text = capsys.readouterr().out
    assert "2.00 MiB  100.0%       4  /home/me/train.py(11): keep\n" in text
    assert "2.00 MiB  100.0%       4  1 more\n" in text
    assert main(["tree", "runs", "--of=leaked", "--depth=1", "--least=0.5%", "--json"]) == 0
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    (pool,) = process["result"]["pools"]
    assert (pool["device"], pool["pool"], pool["weight"]) == ("cpu", "HOST", 4 * KEPT_BYTES)
    assert [(call["frame"], call["folded"]) for call in pool["calls"]] == [
        ("/home/me/train.py(11): keep", 0),
        (None, 1),
    ]


BAD = [
    (["--of=peek"], "--of: is nothing that calls are weighted by: 'peek' (accepted: peak, leaked, allocated, byte-sec"),
    (["--of=peek"], "hint: did you mean --of=peak?"),
    (["--of=churn"], "'churn' (accepted: peak, "),
    (["--depth=0"], "--depth: must be a number of frames: '0' (accepted: 1 to 1000000)"),
    (["--depth=x"], "--depth: must be a number of frames: 'x'"),
    (["--least=101"], "--least: must be a share in percent: '101' (accepted: 0 to 100, such as 0.5)"),
    (["--least=nan"], "--least: must be a share in percent: 'nan'"),
    (["--least=-1"], "--least: must be a share in percent: '-1'"),
    ([""], "PATH: names nothing"),
    (["/no/such/path"], "'/no/such/path' cannot be read: No such file or directory"),
    ([], "a path is missing"),
]


@pytest.mark.parametrize("line, message", BAD)
def test_bad_arguments(line: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, the value, what is accepted; nothing on stdout."""
    assert main(["tree", *line]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
