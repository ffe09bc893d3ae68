"""Owners on the CPU against programs that know who owns each of their tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.owner_truths.measure import CPU_PROGRAMS, NIGHTLY_PROGRAMS, run, score, table
from tests.support.nightly import NIGHT

if TYPE_CHECKING:
    from tests.owner_truths.measure import Difference, Row

pytestmark = [pytest.mark.torch, pytest.mark.slow]

AT_NIGHT = ("inference.growing_cache", *NIGHTLY_PROGRAMS["cpu"])
"""The first is run by day on the virtual NPU."""
PROGRAMS = tuple(name for name in (*CPU_PROGRAMS, *NIGHTLY_PROGRAMS["cpu"]) if NIGHT or name not in AT_NIGHT)


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Row], list[Difference]]:
    """All programs, run once."""
    return score(run("cpu", PROGRAMS, tmp_path_factory.mktemp("truths")), "cpu")


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_block_has_its_owner(program: str, scores: tuple[list[Row], list[Difference]]) -> None:
    """At every moment that the program speaks of."""
    assert any(row.program == program and row.true_bytes for row in scores[0])
    assert [each for each in scores[1] if each.program == program] == []


def test_precision_and_recall(scores: tuple[list[Row], list[Difference]], capsys: pytest.CaptureFixture[str]) -> None:
    """Every kind of owner occurs; the table goes to the log of the tests."""
    with capsys.disabled():
        sys.stdout.write(f"\n{table(scores[0])}\n")
    assert {row.owner for row in scores[0]} == {
        "weight", "gradient", "optimizer_state", "activation", "kv_cache", "program", "operator",
    }  # fmt: skip
