"""Prints how exactly the model of the caching allocator does what torch_npu does: `python -m tests.allocator_exactness`.

Runs every program of `tests/ascend/programs/allocator_histories.py` under every setting with the real torch_npu on the virtual
NPU, and compares the model with what torch recorded. Two tables in Markdown: with the settings of the run, the share of
allocations at which the address of the block and what is reserved are equal; and from a run with default settings, the
share of allocations at which as much is reserved as in a real run under the other settings. `--write` puts them into
docs/replay.md and its Chinese twin.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from msmemscope.analysis.replay.recorded_allocations import Action, allocating_devices, recorded_allocations
from msmemscope.analysis.replay.replay import Replay, replay, with_emptied_caches
from msmemscope.formats.reading import load
from tests.ascend.test_replay_npu import DEVICE_BYTES, NAMES, SETTINGS, given_settings
from tests.support.ascend import PROGRAMS, torch_npu_folder, virtual_npu_environment
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msmemscope.analysis.replay.recorded_allocations import Allocations

SEED: Final = 7
DEFAULT: Final = "default"
_DOCS: Final = Path(__file__).parents[1] / "docs"
_BEGIN: Final = "<!-- exactness: begin -->"
_END: Final = "<!-- exactness: end -->"
_ALL: Final = 1.0


def main(words: list[str]) -> int:
    """Run, compare, and print the tables."""
    with tempfile.TemporaryDirectory() as folder:
        _run(Path(folder))
        recorded = {case: _replayed(Path(folder), *case) for case in _cases()}
    text = f"{_same_settings(recorded)}\n\n{_changed_settings(recorded)}\n"
    sys.stdout.write(text)
    if "--write" in words:
        for name in ("replay.md", "replay.zh.md"):
            page = (_DOCS / name).read_text(encoding="utf-8")
            before, after = page.split(_BEGIN)[0], page.split(_END)[1]
            (_DOCS / name).write_text(f"{before}{_BEGIN}\n\n{text}\n{_END}{after}", encoding="utf-8")
    return 0


def _cases() -> list[tuple[str, str]]:
    return [(program, settings) for program in NAMES for settings in SETTINGS]


def _run(folder: Path) -> None:
    cases = {
        f"{program}-{settings}": {"program": program, **SETTINGS[settings], "seed": SEED}
        for program, settings in _cases()
    }
    variables = virtual_npu_environment(with_torch=False)
    variables |= {"PYTHONPATH": str(torch_npu_folder()), "VNPU_MEMORY": str(DEVICE_BYTES)}
    subprocess.run(
        [sys.executable, str(PROGRAMS / "allocator_histories.py"), str(folder), json.dumps(cases)],
        env=environment(**variables),
        cwd=folder,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def _replayed(folder: Path, program: str, settings: str) -> tuple[Allocations, Replay]:
    recording = load(folder / f"{program}-{settings}.pickle")
    (device,) = allocating_devices(recording)
    allocations = recorded_allocations(recording, device)
    used = given_settings(SETTINGS[settings])
    complete = with_emptied_caches(allocations, replay(allocations, used, as_recorded=True, with_course=True))
    return complete, replay(complete, used, as_recorded=True, with_course=True)


def _same_share(allocations: Allocations, replayed: Replay) -> float:
    """At how many of the allocations the address and what is reserved are those of the recording."""
    assert replayed.course is not None
    begins = np.flatnonzero(allocations.actions == Action.ALLOCATE)
    begins_done = begins[begins < replayed.replayed_events]
    course = {name: column[begins_done] for name, column in replayed.course.items()}
    is_same_place = course["address"] == allocations.recorded_addresses[begins_done]
    equal = is_same_place & (course["reserved_bytes"].astype(np.int64) == allocations.recorded_reserved[begins_done])
    return float(equal.sum() / len(begins))


def _changed_share(allocations: Allocations, real: Allocations, settings: str) -> float | None:
    """At how many allocations as much is reserved as in the real run; None if the two runs asked for different things."""
    result = replay(allocations, given_settings(SETTINGS[settings]), with_course=True)
    assert result.course is not None
    mine = np.flatnonzero(allocations.actions == Action.ALLOCATE)
    theirs = np.flatnonzero(real.actions == Action.ALLOCATE)
    if not np.array_equal(allocations.requested_bytes[mine], real.requested_bytes[theirs]):
        return None
    mine = mine[mine < result.replayed_events]
    reserved = result.course["reserved_bytes"][mine].astype(np.int64)
    return float((reserved == real.recorded_reserved[theirs[: len(mine)]]).sum() / len(theirs))


def _same_settings(recorded: Mapping[tuple[str, str], tuple[Allocations, Replay]]) -> str:
    return _table(SETTINGS, lambda program, settings: _same_share(*recorded[program, settings]))


def _changed_settings(recorded: Mapping[tuple[str, str], tuple[Allocations, Replay]]) -> str:
    others = [name for name in SETTINGS if name != DEFAULT]
    return _table(
        others,
        lambda program, settings: _changed_share(
            recorded[program, DEFAULT][0], recorded[program, settings][0], settings
        ),
    )


def _table(settings: Mapping[str, object] | list[str], share: Callable[[str, str], float | None]) -> str:
    """Settings down, programs across; shares in percent, rounded down so that 100 is all of them."""
    lines = [f"| settings | {' | '.join(NAMES)} |", f"|---|{'---|' * len(NAMES)}"]
    lines += [f"| {name} | {' | '.join(_said(share(program, name)) for program in NAMES)} |" for name in settings]
    return "\n".join(lines)


def _said(share: float | None) -> str:
    if share is None:
        return "-"
    return "100" if share == _ALL else f"{int(share * 1000) / 10:.1f}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
