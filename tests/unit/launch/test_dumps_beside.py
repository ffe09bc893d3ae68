"""Dump files are written while the summary is made: each as if the other were not there."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from msmemscope.configuration import Config
from msmemscope.errors import EventLogError
from msmemscope.formats.event_log import Capture
from msmemscope.launch import captures
from msmemscope.launch.finish import finish
from tests.support.recorded_runs import write_run

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 60
"""Seconds after which a test of threads has failed."""


def test_an_interrupt_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a dump nor an unfinished one, whatever of it was written when the interrupt came."""
    capture = Capture(write_run(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    has_begun = threading.Event()
    may_go_on = threading.Event()
    reading = Capture.event_batches

    def batches(self: Capture, rows: int = 1) -> object:
        if threading.current_thread() is not threading.main_thread():
            has_begun.set()
            assert may_go_on.wait(PATIENCE)
        return reading(self, rows)

    def interrupted(*_: object) -> None:
        assert has_begun.wait(PATIENCE)
        may_go_on.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(Capture, "event_batches", batches)
    monkeypatch.setattr(captures, "_summary", interrupted)
    with pytest.raises(KeyboardInterrupt):
        finish([capture], {capture.directory: Config(output=str(tmp_path))})
    assert [path for path in sorted(tmp_path.rglob("*")) if path.is_file()] == [one for one in before if one.is_file()]


def test_dumps_are_written_whatever_becomes_of_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the summary names them."""

    def unreadable(*_: object, **__: object) -> None:
        message = "this part of the log cannot be read"
        raise EventLogError(message)

    monkeypatch.setattr(captures, "memory_overview", unreadable)
    capture = Capture(write_run(tmp_path))
    finished = finish([capture], {capture.directory: Config(output=str(tmp_path))})
    assert finished.unwritten == 0
    assert [file.path.suffix for file in finished.processes[0].files] == [".csv", ".json", ".txt"]
    assert "this part of the log cannot be read" in capsys.readouterr().err


def test_without_another_thread_the_summary_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a limit on processes allows none: one line says what is missing."""

    def refused(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    capture = Capture(write_run(tmp_path))
    monkeypatch.setattr(threading.Thread, "start", refused)
    finished = finish([capture], {capture.directory: Config(output=str(tmp_path))})
    assert finished.unwritten == 1
    assert finished.processes[0].overview is not None
    assert "no dump files were written" in capsys.readouterr().err
