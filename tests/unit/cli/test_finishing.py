"""Whatever goes wrong in our own work after the program ended, its exit status is returned."""

from __future__ import annotations

import os
import signal

import pytest

from msmemscope.configuration import Config
from msmemscope.errors import DumpError
from msmemscope.launch.launch import _survivable

RECOVER = "hint: the event logs are kept: msmemscope recover /data/out"


@pytest.mark.parametrize(
    "failure, lines",
    [
        (DumpError("disk full", hint="make room"), ["msmemscope: error: disk full", "hint: make room"]),
        (
            RuntimeError("surprise"),
            ["msmemscope: error: the results could not be written: RuntimeError: surprise", RECOVER],
        ),
        (KeyboardInterrupt(), ["msmemscope: error: interrupted while the results were written", RECOVER]),
        (BrokenPipeError(), []),
    ],
)
def test_failures_become_lines(failure: BaseException, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One line and a hint; nothing is raised."""
    with _survivable(Config(output="/data/out")):
        raise failure
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signals_interrupt_our_work_only(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    """Unfinished files are cleaned up on the way out, and handlers are as before."""
    before = signal.getsignal(number)
    cleaned_up = False
    with _survivable(Config(output="/data/out")):
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            cleaned_up = True
    assert cleaned_up
    assert signal.getsignal(number) is before
    assert "interrupted while the results were written" in capsys.readouterr().err
