"""Recording that begins in the middle of a program: what the allocator of torch_npu held then, and what it did from there on."""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from msmemscope.analysis.replay.advice import advise
from msmemscope.analysis.replay.recorded_allocations import Action, recorded_allocations
from msmemscope.analysis.replay.replay import replay
from msmemscope.analysis.replay.replayed_recording import ReplayOptions, equal_blocks, prepared, replay_recording
from msmemscope.formats.reading import load
from tests.support import tool
from tests.support.allocator_runs import DEVICE_BYTES, NAMES, SETTINGS, run_programs
from tests.support.ascend import PROGRAMS, TOLD_SINCE, NotInstalledError, torch_npu_release
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording import Recording
    from tests.ascend.conftest import Observe, RunAlone

EXPANDABLE: Final = "expandable_segments:True"
BY_DAY: Final[dict[str, dict[str, Any]]] = {
    "streams": {"program": "streams", "settings": EXPANDABLE, "at": [200, 400, 500]},
    "pools": {"program": "pools", "settings": "", "at": [30]},
    "racing": {"program": "racing", "settings": "", "at": [10, 20, 22, 40, 41]},
}
"""Two streams and cached blocks, private pools, and threads that allocate while the state is read."""


def _by_night() -> dict[str, dict[str, Any]]:
    """Each program under settings of the night, recorded from somewhere on, with gaps."""
    chance = random.Random(NIGHT)  # noqa: S311 - no secret
    cases = {}
    for name in NAMES:
        # How long cached blocks were not used when recording began is not known, so garbage may go in another order.
        settings = chance.choice([name for name in SETTINGS if "collected" not in name])
        at = [chance.randrange(2, 12)]
        for _ in range(chance.choice((0, 2, 4))):
            at.append(at[-1] + chance.randrange(1, 150))
        cases[f"{name}-{settings}"] = {"program": name, "seed": NIGHT, "at": at, "settings": "", **SETTINGS[settings]}
    cases["racing-expandable"] = {"program": "racing", "settings": EXPANDABLE, "at": list(range(10, 51, 4))}
    return cases


CASES: Final = {**BY_DAY, **(_by_night() if NIGHT else {})}


def _is_told() -> bool:
    """Whether this torch_npu has a trace tracker; without torch_npu the tests are skipped anyway."""
    try:
        return torch_npu_release() >= TOLD_SINCE
    except NotInstalledError:
        return True


pytestmark = pytest.mark.skipif(not _is_told(), reason="this torch_npu has no trace tracker")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, cann_environment: dict[str, str], run_alone: RunAlone) -> Path:
    """The folder with the capture and the counters of each case: no operator computes."""
    folder = tmp_path_factory.mktemp("started_late")
    if NIGHT:
        assert not run_programs(folder, CASES, cann_environment, script="started_late.py")
        return folder
    variables = {"VNPU_COMPUTE": "none", "VNPU_MEMORY": str(DEVICE_BYTES)}
    run = run_alone("started_late.py", folder, json.dumps(CASES), 2, folder=folder, variables=variables)
    assert run.returncode == 0, run.stderr[-3000:]
    return folder


def recording_of(folder: Path) -> Recording:
    """The one capture in a folder."""
    (capture,) = folder.glob("msmemscope_*_ascend")
    return load(capture)


@pytest.mark.parametrize("case", CASES)
def test_every_event_behind_as_the_real_allocator(runs: Path, case: str) -> None:
    """Address of every block, what is reserved and in use after every operation that was recorded: as torch_npu has it."""
    if case not in BY_DAY and not (runs / case).is_dir():
        assert json.loads((runs / f"{case}.json").read_text()) == []
        pytest.skip("memory ran out before recording began, as settings and sizes were drawn")
    recording = recording_of(runs / case)
    given = CASES[case]
    assert "unobserved.allocator" not in recording.facts
    options = ReplayOptions("", None, None, given.get("device_bytes", DEVICE_BYTES))
    allocations, settings, followed, _ = prepared(recording, 0, options)
    states = allocations.states
    assert states is not None
    assert 1 <= states.count <= (len(given["at"]) + 1) // 2
    assert given["settings"] in settings.text
    blocks = int(((allocations.actions == Action.ALLOCATE) & (allocations.leads_to_state == 0)).sum())
    assert equal_blocks(allocations, followed) == (blocks, blocks)
    assert followed.failure is None

    # With the moments at which the program emptied its cache.
    result = replay(allocations, settings, as_recorded=True, with_course=True)
    course = result.course
    assert course is not None
    assert result.replayed_events == allocations.count
    reserved = course["reserved_bytes"].astype(np.int64)
    is_own = (allocations.actions == Action.ALLOCATE) & (allocations.leads_to_state == 0)
    assert np.array_equal(reserved[is_own], allocations.recorded_reserved[is_own])
    counters = json.loads((runs / f"{case}.json").read_text())
    if given["program"] == "racing":
        return  # which events torch's counters are of, nobody knows
    assert len(counters) > (30 if case in BY_DAY else 0)
    for number, allocated, held in counters:
        place = int(np.flatnonzero(allocations.sequences < number)[-1])
        seen = set()
        # Entries that the recording lists as the first ones of the next event came before that event.
        while place < allocations.count:
            seen.add((int(course["allocated_bytes"][place]), int(reserved[place])))
            place += 1
            if place < allocations.count and allocations.actions[place] not in {
                Action.EMPTY_CACHE,
                Action.GIVE_UP_POOL,
            }:
                break
        assert (allocated, held) in seen


def test_what_the_states_had(runs: Path) -> None:
    """All that makes a state: free parts, what waits for another stream, expandable segments, two streams, private pools."""
    streams = recorded_allocations(recording_of(runs / "streams"), 0)
    pools = recorded_allocations(recording_of(runs / "pools"), 0)
    assert streams.states is not None
    assert pools.states is not None
    parts = streams.states.parts
    assert streams.states.count == 2
    assert {*parts["use"].tolist()} == {0, 1, 2}
    assert len({*parts["stream"].tolist()}) > 1
    assert parts["is_expandable"].all()
    assert {*parts["is_small"].tolist()} == {0, 1}
    assert len({*pools.states.parts["pool"].tolist()}) > 1
    # Blocks that were there are freed behind it.
    older = {*streams.blocks[(streams.actions == Action.ALLOCATE) & (streams.leads_to_state == 1)].tolist()}
    freed = {*streams.blocks[(streams.actions == Action.REQUEST_FREE) & (streams.leads_to_state == 0)].tolist()}
    assert len(older & freed) > 10
    assert streams.unknown_requests == 0


def test_answers_under_other_settings_say_what_they_take(runs: Path) -> None:
    """They begin with what was in use, and compare only what begins alike."""
    recording = recording_of(runs / "pools")
    other = replay_recording(recording, ReplayOptions(EXPANDABLE, None, None, DEVICE_BYTES))
    assert any("came while nothing was recorded" in line for line in other.coverage.limits)
    (advice,) = advise(recording, ReplayOptions("", None, None, DEVICE_BYTES)).devices
    assert advice.recorded.replayed == other.devices[0].recorded
    same = replay_recording(recording, ReplayOptions("", None, None, DEVICE_BYTES))
    assert not any("came while nothing was recorded" in line for line in same.coverage.limits)
    assert same.devices[0].recorded == same.devices[0].replayed


@nightly
@pytest.mark.slow
def test_msmemscope_comes_when_the_npu_is_in_use(vnpu_environment: dict[str, str], tmp_path: Path) -> None:
    """Nobody but the allocator tells of its blocks then; the replay is exact all the same."""
    output = tmp_path / "memscopeDumpResults"
    run = tool.run(
        [sys.executable, str(PROGRAMS / "used_before.py")], output=output, variables=vnpu_environment, folder=tmp_path
    )
    assert run.returncode == 0, run.stderr
    recording = recording_of(output)
    (device,) = replay_recording(recording, ReplayOptions()).devices
    assert (device.compared_blocks, device.equal_blocks) == (4, 4)
    assert device.recorded.peak_reserved_bytes == int(run.report["reserved"])
    allocations, _, followed, _ = prepared(recording, 0, ReplayOptions())
    assert followed.course is not None
    assert int(run.report["allocated"]) in followed.course["allocated_bytes"]
    is_own = (allocations.actions == Action.ALLOCATE) & (allocations.leads_to_state == 0)
    assert (allocations.recorded_bytes[is_own] > allocations.requested_bytes[is_own]).all()
    assert advise(recording, ReplayOptions()).devices


@nightly
@pytest.mark.slow
def test_a_state_that_cannot_be_read(vnpu_environment: dict[str, str], tmp_path: Path) -> None:
    """One line says so, the program goes on, and what the allocator says is not used."""
    output = tmp_path / "memscopeDumpResults"
    program = [sys.executable, str(PROGRAMS / "used_before.py"), "refused"]
    run = tool.run(program, output=output, variables=vnpu_environment, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    (line,) = [text for text in run.stderr.splitlines() if "caching allocator" in text and "msmemscope" in text]
    assert "its memory when collection began could not be recorded: RuntimeError: no snapshots today" in line
    recording = recording_of(output)
    assert not replay_recording(recording, ReplayOptions()).devices
    assert "no snapshots today" in recording.facts["unobserved.allocator"][0]


@nightly
@pytest.mark.slow
def test_chosen_steps(observe: Observe, tmp_path: Path) -> None:
    """Each of them begins with what the allocator holds then."""
    program = tmp_path / "steps.py"
    program.write_text(
        "import torch, torch_npu, msmemscope\n"
        "kept = []\n"
        "for step in range(5):\n"
        "    kept.append(torch.empty(3 << 20, dtype=torch.uint8, device='npu'))\n"
        "    more = torch.empty((30 << 20) * (step + 1), dtype=torch.uint8, device='npu')\n"
        "    msmemscope.step()\n"
        "    del more\n"
    )
    seen = observe(["--events=alloc,free,allocator", "--device=npu", "--steps=2,4"], str(program))
    recording = recording_of(seen.run.output)
    allocations, _, followed, _ = prepared(recording, 0, ReplayOptions())
    assert allocations.states is not None
    assert allocations.states.count == 2
    assert equal_blocks(allocations, followed) == (4, 4)
