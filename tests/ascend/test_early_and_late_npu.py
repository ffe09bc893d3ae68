"""Early and late memory of real programs on an NPU: the dump follows the rule of API numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.api_numbers import early_and_late, written_types
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize("program", ["waits_and_stays", "waits_among_others", "trains"])
def test_the_dump_says_what_the_rule_says(program: str, observe: Observe) -> None:
    """The same blocks in the column and by a brute force of the rule."""
    seen = observe(["--device=npu", "--analysis=inefficient"], str(SOURCES / "early_and_late.py"), "npu", program)
    (dump,) = seen.run.output.glob("*/device_0/dump/memscope_dump_*.csv")
    early, late = early_and_late(dump)
    assert early
    assert late
    assert written_types(dump) == (early, late)
