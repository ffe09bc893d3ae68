"""Early and late memory of real programs on the CPU: the dump and the analysis follow the rule of API numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.inefficient.inefficient import InefficientOptions, find_inefficient
from msmemscope.formats.reading import load
from tests.support.api_numbers import early_and_late, written_types

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunUnderTool

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize("program", ["waits_and_stays", "waits_among_others", "trains"])
def test_the_dump_says_what_the_rule_says(
    program: str, python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool
) -> None:
    """The same blocks in the column, from the rows of the dump, and by a brute force of the rule."""
    run = run_under_tool(python_target("early_and_late", "cpu", program), "--analysis=inefficient")
    assert run.returncode == 0, run.stderr
    (dump,) = run.output.glob("*/device_cpu/dump/memscope_dump_*.csv")
    early, late = early_and_late(dump)
    assert early
    assert late
    assert written_types(dump) == (early, late)
    found = find_inefficient(load(dump), InefficientOptions()).findings
    assert {*found.filter(kind="early_allocation")["allocation_id"]} == early
    assert {*found.filter(kind="late_deallocation")["allocation_id"]} == late
