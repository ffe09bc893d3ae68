"""The model of the caching allocator against the real one of torch_npu: every block's place, every counter."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from msmemscope.analysis.replay.advice import advise
from msmemscope.analysis.replay.allocator_settings import AllocatorSettings, read_settings
from msmemscope.analysis.replay.recorded_allocations import (
    Action,
    Allocations,
    allocating_devices,
    recorded_allocations,
)
from msmemscope.analysis.replay.replay import Replay, replay, with_emptied_caches
from msmemscope.analysis.replay.replayed_recording import ReplayOptions
from msmemscope.formats.reading import load
from msmemscope.model.devices import DeviceKind
from tests.support.ascend import PROGRAMS, NotInstalledError, torch_npu_folder
from tests.support.nightly import NIGHT
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEVICE_BYTES: Final = 1 << 30
CAPACITY_BYTES: Final = DEVICE_BYTES - (224 << 20)
"""Without what the virtual NPU gives to the runtime."""
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "expandable": {"settings": "expandable_segments:True"},
    "split": {"settings": "max_split_size_mb:32"},
    "rounded": {"settings": "roundup_power2_divisions:4"},
    "rounded-by-size": {"settings": "roundup_power2_divisions:[1:8,16:2,>:4]"},
    "collected": {"settings": "garbage_collection_threshold:0.5", "fraction": 0.7},
    "segments-64": {"settings": "large_segment_size_mb:64"},
    "expandable-40": {"settings": "expandable_segments:True,large_segment_size_mb:40"},
    "expandable-30": {"settings": "expandable_segments:True,segment_size_mb:30,base_addr_aligned_kb:0"},
    "fraction": {"fraction": 0.5},
    "split-collected": {
        "settings": "max_split_size_mb:40,garbage_collection_threshold:0.4,max_non_split_rounding_mb:30",
        "fraction": 0.6,
    },
    "expandable-fraction": {"settings": "expandable_segments:True", "fraction": 0.4},
}
"""Settings of torch_npu, and the fraction of the device's memory that a process may have."""
NAMES: Final = ("small", "large", "mixed", "training", "serving", "streams", "full", "longer", "planned")
BY_DAY: Final = (
    "mixed-default",
    "streams-expandable",
    "full-split-collected",
    "planned-rounded-by-size",
    "mixed-collected",
    "large-expandable-30",
    "full-expandable-fraction",
    "streams-default",
    "mixed-expandable",
    "serving-default",
    "serving-expandable",
    "serving-split",
    "training-default",
    "training-expandable",
    "longer-default",
    "longer-expandable",
)
CASES: Final = {
    f"{name}-{settings}": {"program": name, **given, "seed": NIGHT or 7}
    for name in NAMES
    for settings, given in SETTINGS.items()
    if NIGHT or f"{name}-{settings}" in BY_DAY
}


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory, cann_environment: dict[str, str]) -> Path:
    """The folder with the history and counters of each case: no operator computes."""
    try:
        folder = str(torch_npu_folder())
    except NotInstalledError as missing:
        pytest.skip(str(missing))
    written = tmp_path_factory.mktemp("histories")
    run = subprocess.run(
        [sys.executable, str(PROGRAMS / "allocator_histories.py"), str(written), json.dumps(CASES)],
        env=environment(**{**cann_environment, "PYTHONPATH": folder, "VNPU_MEMORY": str(DEVICE_BYTES)}),
        cwd=written,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return written


def settings_of(case: str) -> AllocatorSettings:
    """What the program of a case ran with."""
    return given_settings(CASES[case])


def given_settings(given: Mapping[str, Any]) -> AllocatorSettings:
    """What a program ran with, by a row of SETTINGS."""
    return dataclasses.replace(
        read_settings(given.get("settings", ""), DeviceKind.NPU),
        device_bytes=DEVICE_BYTES,
        memory_fraction=given.get("fraction", 1.0),
    )


def replayed(histories: Path, case: str) -> tuple[Allocations, Replay]:
    """The allocations of a case, and their replay as recorded."""
    recording = load(histories / f"{case}.pickle")
    (device,) = allocating_devices(recording)
    allocations = recorded_allocations(recording, device)
    settings = settings_of(case)
    first = replay(allocations, settings, as_recorded=True, with_course=True)
    complete = with_emptied_caches(allocations, first)
    return complete, replay(complete, settings, as_recorded=True, with_course=True)


@pytest.mark.parametrize("case", CASES)
def test_every_event_as_the_real_allocator(histories: Path, case: str) -> None:
    """Address of every block, what is reserved at each, and torch's own counters after every operation of the program."""
    allocations, result = replayed(histories, case)
    course = result.course
    assert course is not None
    assert result.failure is None
    assert result.replayed_events == allocations.count > 100
    is_allocation = allocations.actions == Action.ALLOCATE
    assert np.array_equal(course["address"], allocations.recorded_addresses)
    reserved = course["reserved_bytes"].astype(np.int64)
    assert np.array_equal(reserved[is_allocation], allocations.recorded_reserved[is_allocation])
    # How many blocks had been allocated, freed and completed tells where an operation of the program ended.
    counts = [np.cumsum(allocations.actions == action).tolist() for action in (0, 1, 2)]
    states: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    for *place, allocated, held in zip(*counts, course["allocated_bytes"].tolist(), reserved.tolist(), strict=True):
        states.setdefault(tuple(place), set()).add((allocated, held))
    # Where segments were given back right before an allocation that needed the driver, nobody can say from a history whether
    # the program emptied the cache a moment before: its counters in between are not in the replay then.
    assert allocations.released is not None
    releases = dict(zip(zip(*counts, strict=True), np.append(allocations.released[1:], 0).tolist(), strict=True))
    counters = json.loads((histories / f"{case}.json").read_text())
    assert len(counters) > 40
    for *place, allocated, held in (row[:5] for row in counters):
        assert (allocated, held) in states[tuple(place)] or releases[tuple(place)] > 0


@pytest.mark.parametrize(
    ("recorded", "other"),
    [
        ("training-default", "training-expandable"),
        ("serving-expandable", "serving-default"),
        ("serving-default", "serving-split"),
    ],
)
def test_other_settings_as_a_real_run(histories: Path, recorded: str, other: str) -> None:
    """What a program would have reserved under other settings: torch_npu's own history of such a run."""
    allocations, _ = replayed(histories, recorded)
    real, _ = replayed(histories, other)
    result = replay(allocations, settings_of(other), with_course=True)
    assert result.course is not None
    mine = np.flatnonzero(allocations.actions == Action.ALLOCATE)
    theirs = np.flatnonzero(real.actions == Action.ALLOCATE)
    assert np.array_equal(allocations.requested_bytes[mine], real.requested_bytes[theirs])
    reserved = result.course["reserved_bytes"][mine].astype(np.int64)
    # Ties between equally large blocks go by addresses of the driver, which nobody knows beforehand.
    assert np.mean(reserved == real.recorded_reserved[theirs]) > 0.98
    assert result.peak_reserved_bytes == pytest.approx(real.recorded_reserved.max(), rel=0.01)


def test_whether_memory_runs_out_as_in_a_real_run(histories: Path) -> None:
    """A program that finishes with expandable segments would have failed without, where it did, with as much reserved."""
    case, other = "longer-expandable", "longer-default"
    recording = load(histories / f"{case}.pickle")
    (advice,) = advise(recording, ReplayOptions("", None, CAPACITY_BYTES)).devices
    assert advice.recorded.fits
    allocations, _ = replayed(histories, case)
    limited = dataclasses.replace(settings_of(other), capacity_bytes=CAPACITY_BYTES)
    failure = replay(allocations, limited).failure
    assert failure is not None
    real = json.loads((histories / f"{other}.json").read_text())
    assert len(real) < len(json.loads((histories / f"{case}.json").read_text()))
    assert [failure.allocated_bytes, failure.reserved_bytes] == real[-1][3:5]
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
    allocations, _ = replayed(histories, "mixed-default")
    result = replay(allocations, settings_of("mixed-expandable"), as_recorded=True, with_course=True)
    assert result.course is not None
    assert not np.array_equal(result.course["reserved_bytes"].astype(np.int64), allocations.recorded_reserved)
