"""Inefficient memory on the virtual NPU: the same source gives the same findings as on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.inefficiency_measure import found, planted, run_planted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("vnpu_environment")]


def test_what_was_planted_is_found(output: Path) -> None:
    """Each block in its way, and no other block of a planted size."""
    run = run_planted("npu", output)
    assert found(run) == {size: () if kind == "none" else (kind,) for size, kind in planted(run).items()}
