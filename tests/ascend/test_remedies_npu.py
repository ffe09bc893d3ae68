"""The first remedy that is named for a program that ran out of memory lets it finish, on the virtual NPU."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.peak.cause_words import Remedy
from tests.oom_zoo.catalogue import programs
from tests.oom_zoo.remedies import FIXED_BY, follow_all, follow_zoo
from tests.reports.catalogue import reports
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from pathlib import Path

BY_DAY = ("device.fragmentation_by_splitting", "training.checkpoint_copied")


@pytest.fixture(autouse=True)
def _has_compiler(vnpu_environment: dict[str, str]) -> None:
    assert vnpu_environment
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on PATH")


def test_all_reported_failures_are_followed() -> None:
    """Each program of a public report that runs out of memory is followed. All of them have a repaired form."""
    failing = {one.name for one in reports() if one.kind in {"out of memory", "fragmentation"} and one.has_repair}
    assert set(FIXED_BY) == failing
    assert {remedy for fixed_by in FIXED_BY.values() for remedy in fixed_by} < set(Remedy)


@nightly
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_remedies_are_followed(tmp_path: Path) -> None:
    """A setting, and a change of the program."""
    rows = list(follow_zoo(tmp_path, [one for one in programs() if one.identity in BY_DAY]))
    assert {row.program: (row.is_setting, row.is_finished) for row in rows} == {
        "device.fragmentation_by_splitting": (True, True),
        "training.checkpoint_copied": (False, True),
    }


@pytest.mark.skipif(not NIGHT, reason="at night: all programs that run out of memory")
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_remedy_lets_the_program_finish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings by themselves, and changes of the program where the remedy names them."""
    rows = list(follow_all(tmp_path, lambda _: True))
    with capsys.disabled():
        sys.stdout.write("\n" + "".join(f"{row}\n" for row in rows))
    assert [str(row) for row in rows if row.is_setting and not row.is_finished] == []
    assert [str(row) for row in rows if not row.is_finished] == []
