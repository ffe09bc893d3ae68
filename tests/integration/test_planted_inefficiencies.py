"""Inefficient memory that was planted in a PyTorch program on the CPU: all of it is found, and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.inefficiency_measure import found, planted, run_planted, score

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_what_was_planted_is_found(output: Path) -> None:
    """Eight blocks too early, four too late, one idle; what is used just in time is not among them."""
    run = run_planted("cpu", output)
    truth = planted(run)
    assert Counter(truth.values()) == {
        "early_allocation": 8, "late_deallocation": 4, "temporary_idleness": 1, "none": 3,
    }  # fmt: skip
    assert found(run) == {size: () if kind == "none" else (kind,) for size, kind in truth.items()}
    assert {(row.precision, row.recall) for row in score("cpu", truth, found(run))} == {(1.0, 1.0)}
