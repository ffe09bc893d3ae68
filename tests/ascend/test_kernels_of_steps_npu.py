"""Kernels that the task queue launches late belong to the step that asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.nightly import nightly

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize(
    ("way", "chosen"), [("mstx", 2), pytest.param("mstx", 5, marks=nightly), pytest.param("step", 2, marks=nightly)]
)
def test_all_kernels_of_a_step_are_recorded(observe: Observe, way: str, chosen: int) -> None:
    """With the default task queue and no synchronisation in the program, in the middle and in the last step."""
    seen = observe([f"--steps={chosen}", "--level=kernel"], "kernels_of_steps.py", way, anew=True)
    launches = seen.of(0, event="KERNEL_LAUNCH", event_type="KERNEL_LAUNCH")
    assert len(launches) == 60, seen.run.stderr
