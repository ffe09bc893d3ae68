"""Programs after public reports: their headers, how a first screen is judged, and one of them as people run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reports.catalogue import KINDS, TOPICS, Report, reports
from tests.reports.measure import Outcome, judge, run_report
from tests.support.ascend import NotInstalledError

if TYPE_CHECKING:
    from pathlib import Path

BY_DAY = ("data_loading/cycled_loader",)
SCREEN = "msmemscope: warning: running as root: /tmp\n\nmsmemscope: {verdict}\nnext: msmemscope analyze leaks out\n"


def named(name: str) -> Report:
    """One report by its name."""
    return next(one for one in reports() if one.name == name)


def test_every_header_is_whole() -> None:
    """A link, a known kind and topic, and a line to blame unless nothing is wrong."""
    found = reports()
    assert found
    assert [one.name for one in found if not one.link.startswith("https://")] == []
    assert [one.name for one in found if one.kind not in KINDS or one.topic not in TOPICS] == []
    assert [one.name for one in found if not one.lines and one.kind != "healthy"] == []
    assert [one.name for one in found if not one.devices or not {*one.devices} <= {"cpu", "npu"}] == []
    assert len({one.link for one in found}) == len(found)


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("leak: 50.0 MiB in 20 blocks on cpu at x.py(1), held by main.batches[3]", Outcome.RIGHT),
        ("leak: 5.00 MiB in 20 blocks on cpu at x.py(1), held by main.batches[3]", Outcome.HALF),
        ("leak: 50.0 MiB in 20 blocks on cpu at x.py(1)", Outcome.HALF),
        ("nothing found: no leak over 20 steps (3 events of 1 process)", Outcome.SILENT),
        ("nothing found: leaks not judged (3 events of 1 process)", Outcome.HALF),
        ("out of memory on cpu: leak, 50.0 MiB at x.py(1), held by main.batches[3] (1 byte refused)", Outcome.WRONG),
    ],
)
def test_a_first_screen_is_judged(verdict: str, outcome: Outcome) -> None:
    """By its kind, the line or the holder, and the amount."""
    report = named("data_loading/cycled_loader")
    assert judge(report, SCREEN.format(verdict=verdict), is_repaired=False) == (outcome, verdict)


@pytest.mark.parametrize(
    ("screen", "outcome"),
    [
        ("mask: tokens not seen before\n\n{title}\n\nPeak on cpu: 3 bytes\n", Outcome.SILENT),
        ("\n{title}\n\nPeak on cpu: 3 bytes\n", Outcome.SILENT),
        ("{title}\n\n  3 changes that were not observed by the program itself\n", Outcome.SILENT),
        ("{title}\n\nCoverage\n  slow leaks: not judged, 7\n  steps have ended\n", Outcome.HALF),
        ("{title}\n\nCoverage\n  slow leaks: not\n    judged, 7 steps have ended\n", Outcome.HALF),
    ],
)
def test_only_the_summary_says_what_was_not_looked_at(screen: str, outcome: Outcome) -> None:
    """Its first line and its coverage do; what a program prints does not."""
    title = "msmemscope: nothing found: no leak over 7 steps"
    report = named("data_loading/cycled_loader")
    assert judge(report, screen.format(title=title), is_repaired=False)[0] is outcome


def test_a_repaired_program_must_be_without_findings() -> None:
    """Whatever else is said of it is wrong."""
    report = named("data_loading/cycled_loader")
    quiet, loud = (SCREEN.format(verdict=text) for text in ("nothing found: no leak", "leak: 1.00 MiB on cpu"))
    assert judge(report, quiet, is_repaired=True)[0] is Outcome.RIGHT
    assert judge(report, loud, is_repaired=True)[0] is Outcome.WRONG


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("is_repaired", [False, True])
@pytest.mark.parametrize("report", [one for one in reports() if one.name in BY_DAY], ids=lambda one: str(one.name))
def test_the_first_screen_is_right(report: Report, is_repaired: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """As a tired engineer runs it."""
    try:
        judged = run_report(report, report.devices[0], tmp_path, is_repaired=is_repaired)
    except NotInstalledError as missing:
        pytest.skip(str(missing))
    assert judged.outcome is Outcome.RIGHT, judged.verdict
