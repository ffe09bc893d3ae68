"""Exceptions of signal handlers reach the program while the tool waits for an NPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.model.events import EventKind
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

OPTIONS = ["--device=npu", "--events=alloc,free,launch,access", "--watch=auto"]


def test_exceptions_of_signal_handlers_reach_the_program(observe: Observe) -> None:
    """They are not taken for errors of the device. One can be lost without the tool too, in a callback that cannot raise."""
    run = observe(OPTIONS, str(SOURCES / "interrupted_operators.py"), "npu").run
    assert int(run.report["arrived"]) >= 27
    kinds = run.capture.kind_counts()
    assert kinds[EventKind.ATEN_START] == kinds[EventKind.ATEN_END]
