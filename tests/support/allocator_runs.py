"""Runs of `tests/ascend/programs/allocator_histories.py` under settings of torch_npu or torch.cuda, and the model beside them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.analysis.replay.allocator_settings import AllocatorSettings, read_settings
from msmemscope.analysis.replay.recorded_allocations import (
    Action,
    Allocations,
    Column,
    allocating_devices,
    recorded_allocations,
)
from msmemscope.analysis.replay.replay import Replay, replay, with_emptied_caches
from msmemscope.formats.reading import load
from msmemscope.model.devices import DeviceKind
from tests.support.ascend import PROGRAMS, torch_npu_folder, torch_npu_release
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEVICE_BYTES: Final = 1 << 30
_RUNTIME_BYTES: Final = 224 << 20
"""The bytes that the virtual NPU gives to the runtime."""
CAPACITY_BYTES: Final = DEVICE_BYTES - _RUNTIME_BYTES
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
    "page-1g": {"settings": "page_size:1g", "device_bytes": 24 << 30},
    "expandable-1g": {"settings": "expandable_segments:True,page_size:1g", "device_bytes": 24 << 30},
}
"""Settings of torch_npu, the fraction of the device's memory that a process may have, and a larger device."""
CUDA_SETTINGS: Final = {
    name: given
    for name, given in SETTINGS.items()
    if not any(word in given.get("settings", "") for word in ("page_size", ",segment_size_mb"))
}
"""Those that torch.cuda has, too."""
_SINCE: Final = {"max_non_split_rounding_mb": (2, 13)}
"""The oldest torch_npu here that has a setting; older ones refuse it."""
NAMES: Final = (
    "small", "large", "mixed", "training", "serving", "streams", "full", "longer", "planned", "accumulating",
    "checkpointing", "paged", "appending", "adapters", "evaluating", "prefetching", "emptying", "optimizing", "embeddings",
    "pools", "threads", "retrying",
)  # fmt: skip
"""Of `tests/ascend/programs/allocator_programs.py`."""

_REQUESTS: Final = (Action.ALLOCATE, Action.FAILED_ALLOCATION)
_FOUND_MEMORY: Final = 3
_FAILURES: Final = 3
_RETRIES: Final = 8
"""Columns of the counters of a program."""
_VERSIONS: Final = {"VNPU_CANN": "8.5.0", "VNPU_DRIVER": "25.5.0"}
"""With older ones torch_npu has no pages of 1 GiB."""
_IN_ORDER: Final = {"TASK_QUEUE_ENABLE": "0", "CUDA_LAUNCH_BLOCKING": "1"}
"""Without its queue torch_npu asks whether streams are done right after it has put work on them: no race decides the answer. On
CUDA devices a call returns when its work is done."""
_CUDA_AT_ONCE: Final = 8
"""Programs that share a CUDA device, each with 0.5 GiB of its own beside what it may allocate."""


def is_known(given: Mapping[str, Any]) -> bool:
    """Whether the torch_npu at hand has what a row of SETTINGS sets."""
    return all(word not in given.get("settings", "") or torch_npu_release() >= since for word, since in _SINCE.items())


def run_programs(
    folder: Path,
    cases: Mapping[str, Any],
    variables: Mapping[str, str],
    *,
    in_order: bool = False,
    script: str = "allocator_histories.py",
) -> str:
    """Run programs on the virtual NPU, except those with a setting that its torch_npu lacks; no operator computes.

    Args:
        folder: Where each program writes its history and counters.
        cases: Name to program, settings, fraction and seed.
        variables: Variables of the virtual NPU.
        in_order: Whether the same things happen in the same order each time.
        script: The file that runs them.

    Returns:
        The failures, as text; empty if there were none.
    """
    own = {"PYTHONPATH": str(torch_npu_folder()), "VNPU_MEMORY": str(DEVICE_BYTES), **_VERSIONS}
    known = {name: given for name, given in cases.items() if is_known(given)}
    return _run(folder, script, known, {**variables, **own, **(_IN_ORDER if in_order else {})})


def run_cuda_programs(folder: Path, cases: Mapping[str, Any], *, in_order: bool = False) -> str:
    """Run programs on the CUDA device of this machine, as `run_programs` does on the virtual NPU."""
    return _run(folder, "allocator_histories.py", cases, _IN_ORDER if in_order else {}, at_once=_CUDA_AT_ONCE)


def _run(folder: Path, script: str, cases: Mapping[str, Any], variables: Mapping[str, str], *, at_once: int = 2) -> str:
    run = subprocess.run(
        [sys.executable, str(PROGRAMS / script), str(folder), json.dumps(cases), str(at_once)],
        env=environment(**variables),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stderr[-3000:] if run.returncode != 0 else ""


def cuda_settings(given: Mapping[str, Any], written: Mapping[str, Any]) -> AllocatorSettings:
    """The settings of a program on a CUDA device, from a row of SETTINGS and from what it wrote of the device."""
    return dataclasses.replace(
        read_settings(given.get("settings", ""), DeviceKind.CUDA),
        device_bytes=written["device_bytes"],
        memory_fraction=written["fraction"],
    )


def given_settings(given: Mapping[str, Any]) -> AllocatorSettings:
    """The settings of a program on the virtual NPU, from a row of SETTINGS."""
    return dataclasses.replace(
        read_settings(given.get("settings", ""), DeviceKind.NPU),
        device_bytes=given.get("device_bytes", DEVICE_BYTES),
        memory_fraction=given.get("fraction", 1.0),
    )


@dataclass(frozen=True)
class RealRun:
    """A program under settings, as torch recorded it."""

    settings: AllocatorSettings
    allocations: Allocations
    """With what the history shows of emptied caches."""
    followed: Replay
    """Their replay as recorded, with its course."""
    counters: list[list[int]]
    """Torch's own after each operation of the program."""
    emptied: list[list[int]]
    """How far the history had come when the program emptied the cache."""

    @property
    def same_share(self) -> float:
        """At how many of the allocations the address and what is reserved are those of the recording."""
        allocations, course = self.allocations, self.followed.course
        assert course is not None
        begins = np.flatnonzero(allocations.actions == Action.ALLOCATE)
        done = begins[begins < self.followed.replayed_events]
        is_same = course["address"][done] == allocations.recorded_addresses[done]
        is_same &= course["reserved_bytes"][done].astype(np.int64) == allocations.recorded_reserved[done]
        return float(is_same.sum() / len(begins))

    def with_known_emptied_caches(self) -> Allocations:
        """Return the allocations with the calls that emptied the cache where the program made them, each of them."""
        given = self.allocations
        is_kept = given.actions != Action.EMPTY_CACHE
        progress = progress_of(given.actions[is_kept])
        places = np.array([_last_place(progress, place) + 1 for place in self.emptied], np.int64)
        columns: dict[str, Any] = {}
        for field in dataclasses.fields(given):
            column = getattr(given, field.name)
            if isinstance(column, np.ndarray) and len(column) == given.count:
                columns[field.name] = np.insert(column[is_kept], places, 0)
        columns["actions"][places + np.arange(len(places))] = Action.EMPTY_CACHE
        columns |= {"released": None, "first_address": None, "segment_addresses": None}
        return dataclasses.replace(given, **columns)


def progress_of(actions: Column) -> Column:
    """How many blocks had been allocated, freed and completed after each event, and how often memory had run out."""
    counted = (Action.ALLOCATE, Action.REQUEST_FREE, Action.COMPLETE_FREE, Action.FAILED_ALLOCATION)
    return np.stack([np.cumsum(actions == action) for action in counted], axis=1)


def _last_place(progress: Column, place: list[int]) -> int:
    """The last event after which the history had come so far; -1 if that was before the first one."""
    (found,) = np.nonzero((progress == place).all(axis=1))
    assert len(found) or not any(place), place
    return int(found[-1]) if len(found) else -1


def real_run(folder: Path, case: str, given: Mapping[str, Any]) -> RealRun:
    """Read what a program wrote.

    Args:
        folder: Of `run_programs`.
        case: Its name there.
        given: The row of SETTINGS that it ran under.
    """
    recording = load(folder / f"{case}.pickle")
    (device,) = allocating_devices(recording)
    allocations = recorded_allocations(recording, device)
    written = json.loads((folder / f"{case}.json").read_text())
    settings = cuda_settings(given, written) if written["kind"] == "cuda" else given_settings(given)
    first = replay(allocations, settings, as_recorded=True, with_course=True)
    complete = with_emptied_caches(allocations, first)
    followed = replay(complete, settings, as_recorded=True, with_course=True)
    return RealRun(settings, complete, followed, written["counters"], written["emptied"])


@dataclass(frozen=True)
class Comparison:
    """A recording replayed under the settings of another run of the same program, against that run."""

    requests: int
    """Of the run under these settings, failed ones included."""
    compared: int
    """Of these, how many came before the runs parted, and the one at which they did."""
    equal: int
    """Of these, at how many the model has as much reserved, and memory or none, as the real run."""
    first_difference: int | None
    """Number of the first one at which it does not."""
    parted: str
    """In which run memory ran out while the other one had some, `recorded` or `real`; empty if the runs did not part."""
    retries: int
    """How often the allocator of that run had released all that it cached before."""


def compare(recorded: RealRun, real: RealRun) -> Comparison:
    """Replay a recording under other settings, and compare with a real run under them.

    Both runs ask for the same until an allocation has memory in one of them alone; from there on the program may do other things.
    """
    allocations = recorded.with_known_emptied_caches()
    assert real.settings.device_bytes is not None
    settings = dataclasses.replace(real.settings, capacity_bytes=real.settings.device_bytes - _RUNTIME_BYTES)
    course = replay(allocations, settings, with_course=True).course
    assert course is not None
    mine, theirs = (np.flatnonzero(np.isin(run.actions, _REQUESTS)) for run in (allocations, real.allocations))
    fails_in_recording = allocations.actions[mine] == Action.FAILED_ALLOCATION
    fails_in_real = real.allocations.actions[theirs] == Action.FAILED_ALLOCATION
    both = min(len(mine), len(theirs))
    is_apart = fails_in_recording[:both] != fails_in_real[:both]
    parts_at = int(np.argmax(is_apart)) if is_apart.any() else both
    asked = [run.requested_bytes[rows[:parts_at]] for run, rows in ((allocations, mine), (real.allocations, theirs))]
    same_request = (asked[0] == asked[1]) | fails_in_recording[:parts_at]
    assert same_request.all(), f"requests differ at {np.argmin(same_request)}, before memory ran out in one of the runs"
    compared = min(parts_at + 1, both)
    replayed = mine[:compared][mine[:compared] < len(course["reserved_bytes"])]
    reserved = course["reserved_bytes"][replayed].astype(np.int64)
    failed = np.where(
        fails_in_recording[: len(replayed)],
        course["inferred"][replayed] != _FOUND_MEMORY,
        course["address"][replayed] == 0,
    )
    is_equal = (reserved == real.allocations.recorded_reserved[theirs[: len(replayed)]]) & (
        failed == fails_in_real[: len(replayed)]
    )
    is_equal = np.append(is_equal, np.zeros(compared - len(replayed), np.bool_))
    parted, retries = "", 0
    if parts_at < both:
        parted = "recorded" if fails_in_recording[parts_at] else "real"
        counters = (recorded if fails_in_recording[parts_at] else real).counters
        retries = max((row[_RETRIES] for row in counters if row[0] + row[_FAILURES] <= parts_at), default=0)
    return Comparison(
        requests=len(theirs),
        compared=compared,
        equal=int(is_equal.sum()),
        first_difference=None if is_equal.all() else int(np.argmin(is_equal)),
        parted=parted,
        retries=retries,
    )
