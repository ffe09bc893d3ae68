"""Signal handlers that raise in the middle of operators, as Ctrl-C and time limits do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunUnderTool

pytestmark = pytest.mark.torch

OPTIONS = ("--device=cpu", "--events=alloc,free,launch,access", "--watch=auto")


def test_an_operator_that_is_interrupted_ends(
    run_under_tool: RunUnderTool, python_target: Callable[..., list[str | Path]]
) -> None:
    """The exception arrives, and what begins afterwards is not taken for a part of the operator that it left."""
    run = run_under_tool(python_target("interrupted_operators", "cpu"), *OPTIONS)
    assert run.returncode == 0, run.stderr
    assert int(run.report["arrived"]) >= 27
    kinds = run.capture.kind_counts()
    # How many there are in the time that they have depends on the machine.
    assert kinds[EventKind.ATEN_START] == kinds[EventKind.ATEN_END] > int(run.report["arrived"])
