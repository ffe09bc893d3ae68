"""Results of several captures by processes of our own: the same as by one, whatever happens to a worker."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from msmemscope.configuration import Config
from msmemscope.launch import finish as finishing
from msmemscope.launch.captures import open_captures
from msmemscope.launch.finish import finish
from msmemscope.launch.worker_processes import can_have_workers
from tests.support.recorded_runs import write_run

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.launch.finish import Finished

CAPTURES = 4
PATIENCE_S = 60


def _finished(folder: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> Finished:
    monkeypatch.setattr(finishing, "_worker_count", lambda _sizes: workers)
    captures = open_captures([write_run(folder / str(number)) for number in range(CAPTURES)])
    return finish(captures, {capture.directory: Config(output=str(folder)) for capture in captures})


def _contents(folder: Path) -> dict[str, str]:
    """The results below a folder, without their times and paths."""
    texts = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "event_log" not in path.parts:
            name = re.sub(r"\d{14}", "TIME", str(path.relative_to(folder)))
            texts[name] = re.sub(r"\d{14}", "TIME", path.read_text(encoding="utf-8").replace(str(folder), "FOLDER"))
    return texts


def _kill_one_worker() -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for worker in multiprocessing.active_children():
            worker.kill()
            return
        time.sleep(0.01)


def test_workers_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and summaries; and a worker that is killed costs none of them."""
    alone = _finished(tmp_path / "alone", monkeypatch, 1)
    together = _finished(tmp_path / "together", monkeypatch, 2)
    killer = threading.Thread(target=_kill_one_worker)
    killer.start()
    without_one = _finished(tmp_path / "without_one", monkeypatch, 2)
    killer.join()
    assert not multiprocessing.active_children()
    expected = _contents(tmp_path / "alone")
    assert sum(name.endswith("report.txt") for name in expected) == CAPTURES
    for name, finished in (("together", together), ("without_one", without_one)):
        assert _contents(tmp_path / name) == expected
        assert [one.directory for one in finished.processes] == [
            tmp_path / name / one.directory.relative_to(tmp_path / "alone") for one in alone.processes
        ]
        assert [one.event_count for one in finished.processes] == [one.event_count for one in alone.processes]
        assert finished.unwritten == 0


def test_an_interrupt_ends_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None goes on by itself."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(finishing._Quiet, "count", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _finished(tmp_path, monkeypatch, 2)
    assert not multiprocessing.active_children()
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize(
    ("log_mebibytes", "expected"),
    [([], 1), ([1], 1), ([1000], 1), ([1] * 8, 1), ([100] * 8, 8), ([0] * 300, 16), ([1000, 1, 1], 1)],
    ids=["none", "one", "one large", "few small", "some large", "many small", "one large, others small"],
)
def test_workers_are_begun_where_they_save_time(
    monkeypatch: pytest.MonkeyPatch, log_mebibytes: list[int], expected: int
) -> None:
    """On a machine with 16 processors and enough memory; never more than captures."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(16)))
    monkeypatch.setattr(finishing, "available_memory_bytes", lambda: 1 << 40)
    assert finishing._worker_count([size << 20 for size in log_mebibytes]) == expected


def test_memory_bounds_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what is free is divided among them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(16)))
    monkeypatch.setattr(finishing, "available_memory_bytes", lambda: 8 << 30)
    assert finishing._worker_count([300 << 20] * 8) == 2


def test_workers_run_no_file_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may hold files with the names of modules that a worker needs to begin."""
    ran = tmp_path / "ran"
    for name in ("queue", "socket", "random", "selectors", "polars"):
        (tmp_path / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')\nraise SystemExit(3)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert can_have_workers() == (sys.version_info >= (3, 11))
    if can_have_workers():
        assert _finished(tmp_path / "run", monkeypatch, 2).unwritten == 0
    assert not ran.exists()


def test_an_observed_launcher_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be observed as well."""
    monkeypatch.setenv("MSMEMSCOPE_SETTINGS", "output=/tmp")
    assert not can_have_workers()


@pytest.mark.parametrize(
    "error", [NotImplementedError("no semaphores"), RuntimeError("no threads"), OSError("no processes")]
)
def test_where_no_worker_can_be_started(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are made all the same."""

    def refused(_count: int) -> None:
        raise error

    monkeypatch.setattr(finishing, "worker_processes", refused)
    finished = _finished(tmp_path, monkeypatch, 2)
    assert (len(finished.processes), finished.unwritten) == (CAPTURES, 0)
