"""Inefficient memory on the virtual NPU: the same source gives the same findings as on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.inefficiency_measure import PROGRAM, found, planted

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_what_was_planted_is_found(observe: Observe) -> None:
    """Each block in its way, and no other block of a planted size."""
    run = observe(["--device=npu", "--analysis=inefficient"], str(PROGRAM), "npu", log_alone=True).run
    assert found(run) == {size: () if kind == "none" else (kind,) for size, kind in planted(run).items()}
