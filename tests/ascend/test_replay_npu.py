"""The model of the caching allocator against the real one of torch_npu: every block's place, every counter."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from msmemscope.analysis.replay.advice import advise
from msmemscope.analysis.replay.recorded_allocations import Action
from msmemscope.analysis.replay.replay import replay
from msmemscope.analysis.replay.replayed_recording import ReplayOptions
from msmemscope.formats.reading import load
from tests.support.allocator_runs import (
    CAPACITY_BYTES,
    NAMES,
    SETTINGS,
    RealRun,
    compare,
    is_known,
    progress_of,
    real_run,
    run_programs,
)
from tests.support.ascend import TOLD_SINCE, NotInstalledError, torch_npu_release, torch_npu_version
from tests.support.nightly import NIGHT

if TYPE_CHECKING:
    from pathlib import Path

BY_DAY: Final = (
    "mixed-default",
    "streams-expandable",
    "full-split-collected",
    "planned-rounded-by-size",
    "mixed-collected",
    "large-expandable-30",
    "pools-default",
    "streams-default",
    "mixed-expandable",
    "serving-default",
    "serving-expandable",
    "serving-split",
    "training-default",
    "training-expandable",
    "training-page-1g",
    "longer-default",
    "longer-expandable",
)
CASES: Final = {
    f"{name}-{settings}": {"program": name, **given, "seed": NIGHT or 7}
    for name in NAMES
    for settings, given in SETTINGS.items()
    if NIGHT or f"{name}-{settings}" in BY_DAY
}
CHANGES: Final = [
    (recorded, other)
    for recorded, other in (
        *((f"{name}-default", f"{name}-{settings}") for name in NAMES for settings in SETTINGS),
        ("serving-expandable", "serving-default"),
    )
    if recorded in CASES and other in CASES and recorded != other and (NIGHT or not recorded.startswith("streams"))
]
"""The case to replay, and the case with the settings. By day, cases whose streams use each other's blocks are left
out."""


def histories_of(folder: Path, variables: dict[str, str], *, in_order: bool) -> Path:
    """The folder with the history and counters of each case: no operator computes."""
    try:
        failed = run_programs(folder, CASES, variables, in_order=in_order)
    except NotInstalledError as missing:
        pytest.skip(str(missing))
    assert not failed
    return folder


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory, cann_environment: dict[str, str]) -> Path:
    """As programs run: streams get to the end of their work when they do."""
    return histories_of(tmp_path_factory.mktemp("histories"), cann_environment, in_order=False)


@pytest.fixture(scope="module")
def repeatable(histories: Path, tmp_path_factory: pytest.TempPathFactory, cann_environment: dict[str, str]) -> Path:
    """Runs that can be compared with each other; what is compared by day has one stream, and no work on it."""
    if not NIGHT:
        return histories
    return histories_of(tmp_path_factory.mktemp("repeatable"), cann_environment, in_order=True)


def run_of(histories: Path, case: str) -> RealRun:
    """The real run of a case."""
    if not is_known(CASES[case]):
        pytest.skip(f"torch_npu {torch_npu_version()} has no such setting")
    if CASES[case]["program"] == "pools" and torch_npu_release() < TOLD_SINCE:
        pytest.skip(f"entries of the history of torch_npu {torch_npu_version()} do not name their pool")
    return real_run(histories, case, CASES[case])


@pytest.mark.parametrize("case", CASES)
def test_every_event_as_the_real_allocator(histories: Path, case: str) -> None:
    """Address of every block, what is reserved at each, and torch's own counters after every operation of the program."""
    run = run_of(histories, case)
    allocations, result = run.allocations, run.followed
    course = result.course
    assert course is not None
    assert result.failure is None
    assert result.replayed_events == allocations.count > 100
    is_allocation = allocations.actions == Action.ALLOCATE
    assert np.array_equal(course["address"], allocations.recorded_addresses)
    reserved = course["reserved_bytes"].astype(np.int64)
    assert np.array_equal(reserved[is_allocation], allocations.recorded_reserved[is_allocation])
    # How many blocks had been allocated, freed and completed tells where an operation of the program ended.
    places = list(map(tuple, progress_of(allocations.actions).tolist()))
    states: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    for place, allocated, held in zip(places, course["allocated_bytes"].tolist(), reserved.tolist(), strict=True):
        states.setdefault(place, set()).add((allocated, held))
    # Segments may be given back right before an allocation that needed the driver. A history does not say whether the
    # program emptied the cache a moment before. In that case the counters in between are not in the replay.
    assert allocations.released is not None
    releases = dict(zip(places, np.append(allocations.released[1:], 0).tolist(), strict=True))
    assert len(run.counters) > 30
    for *so_far, allocated, held in (row[:6] for row in run.counters):
        assert (allocated, held) in states[tuple(so_far)] or releases[tuple(so_far)] > 0


@pytest.mark.parametrize(("recorded", "other"), CHANGES)
def test_other_settings_as_a_real_run(repeatable: Path, recorded: str, other: str) -> None:
    """A replay under other settings reserves as much as a real run, and runs out of memory where the real run does."""
    recording, real = run_of(repeatable, recorded), run_of(repeatable, other)
    found = compare(recording, real)
    assert found.first_difference is None
    assert found.equal == found.compared > 60
    if not found.parted:
        assert found.compared == found.requests


def test_addresses_of_another_driver_show(histories: Path) -> None:
    """Ties between equally large blocks go by addresses: the comparison notices a model that has others."""
    recording, real = run_of(histories, "mixed-default"), run_of(histories, "mixed-collected")
    highest = dataclasses.replace(real, settings=dataclasses.replace(real.settings, address_order=0))
    assert compare(recording, real).first_difference is None
    assert compare(recording, highest).first_difference is not None


def test_whether_memory_runs_out_as_in_a_real_run(histories: Path) -> None:
    """A program that finishes with expandable segments would have failed without, where it did, with as much reserved."""
    case, other = "longer-expandable", "longer-default"
    recording = load(histories / f"{case}.pickle")
    (advice,) = advise(recording, ReplayOptions("", None, CAPACITY_BYTES)).devices
    assert advice.recorded.fits
    run, real = run_of(histories, case), run_of(histories, other)
    allocations = run.allocations
    limited = dataclasses.replace(real.settings, capacity_bytes=CAPACITY_BYTES)
    failure = replay(allocations, limited).failure
    assert failure is not None
    assert len(real.counters) < len(run.counters)
    assert [failure.allocated_bytes, failure.reserved_bytes] == real.counters[-1][4:6]
    # And from the recording that failed: what to change.
    failed = load(histories / f"{other}.pickle")
    (advice,) = advise(failed, ReplayOptions("", None, CAPACITY_BYTES)).devices
    assert advice.recorded.fits is False
    assert "expandable_segments:True" in [change.settings for change in advice.changes if change.fits]
    gains = {frozenset(change.settings.split(",")): change.gained_bytes for change in advice.changes}
    assert len(gains) == len(advice.changes)
    assert all(gains[part] < gains[whole] for part in gains for whole in gains if part < whole)


def test_a_wrong_setting_shows(histories: Path) -> None:
    """The comparison notices that the recording was made with other settings."""
    allocations = run_of(histories, "mixed-default").allocations
    result = replay(allocations, run_of(histories, "mixed-expandable").settings, as_recorded=True, with_course=True)
    assert result.course is not None
    assert not np.array_equal(result.course["reserved_bytes"].astype(np.int64), allocations.recorded_reserved)
