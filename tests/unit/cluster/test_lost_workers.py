"""Workers that are killed in the middle of a job: nothing of the others is lost, and the one capture is tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.cluster import local_pool
from msmemscope.cluster.capture_task import TaskOptions
from tests.fakes.event_log_builder import EventLogBuilder
from tests.fakes.lost_workers import MARK, killed_by_some

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_pool_survives_its_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture that kills each worker is a failure; one that kills a single one is not, nor are the others."""
    locations = []
    for number, name in enumerate(("a", "b", "once", "always")):
        log = EventLogBuilder(tmp_path / name, number + 1)
        log.malloc(0x1000, 64)
        locations.append(str(log.write()))
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setattr(local_pool, "summarise_capture", killed_by_some)
    outcomes = {one.location: one for one in local_pool.summarise_locally(locations, TaskOptions(cache=None), jobs=2)}
    assert sorted(outcomes) == sorted(locations)
    assert [bool(outcomes[location].content) for location in locations] == [True, True, True, False]
    assert "its worker was killed twice" in outcomes[locations[-1]].failure
