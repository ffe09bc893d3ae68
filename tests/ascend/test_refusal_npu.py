"""How torch_npu's allocator came to refuse an allocation, as its own history shows it, and the model of it agrees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.analysis.peak.cause_words import Cause, Remedy
from msmemscope.analysis.peak.out_of_memory import analyze_out_of_memory
from msmemscope.analysis.replay.replayed_recording import ReplayOptions, replay_recording
from msmemscope.cli.main import main
from msmemscope.formats.reading import load
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ascend.conftest import RunAlone

MIB = 1 << 20
PROGRAM = "room_not_searched.py"
MEMORY = {"VNPU_MEMORY": "1GiB", "VNPU_DEVICES": "1"}


def ran(run_alone: RunAlone, folder: Path, *words: str) -> dict[str, Any]:
    """Run the program without the tool; it leaves `oom.pickle`."""
    run = run_alone(PROGRAM, folder / "oom.pickle", *words, folder=folder, variables=MEMORY)
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_room_that_is_not_searched_again(
    run_alone: RunAlone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A free block of 300 MiB, and 290 MiB refused: the same request is served right after. It is named, with the chain."""
    assert ran(run_alone, tmp_path) == {"refused": True, "refused_again": False}
    recording = load(tmp_path / "oom.pickle")
    (failure,) = analyze_out_of_memory(recording).failures
    cause = failure.cause
    assert cause is not None
    assert (cause.cause, cause.remedy) == (Cause.NOT_SEARCHED, Remedy.ASK_AGAIN)
    refusal = cause.refusal
    assert refusal is not None
    assert refusal.overlooked_bytes == refusal.largest_free_bytes == 300 * MIB - 512
    assert (refusal.block_bytes, refusal.is_small, refusal.is_of_stream) == (290 * MIB - 512, False, True)
    assert (refusal.waited_blocks, refusal.waited_bytes) == (1, 300 * MIB - 512)
    (holder,) = refusal.holders
    assert (holder.size_bytes, holder.pin_bytes) == (400 * MIB, 99 * MIB - 512)
    assert "room_not_searched.py" in holder.pin_site
    assert main(["analyze", "oom", str(tmp_path / "oom.pickle")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "pytorch issue 189504" in said
    assert "1 freed block (300 MiB) came back to the pool" in said
    # The model takes the recorded moment at which the block came free for one before the request, and serves it from there.
    reserved = cause.figures.reserved_bytes
    assert reserved is not None
    options = ReplayOptions("", None, reserved + int(failure.state["free"]))
    (device,) = replay_recording(recording, options).devices
    assert device.is_exact
    assert device.replayed.failure is None


@nightly
def test_synchronized_first(run_alone: RunAlone, tmp_path: Path) -> None:
    """The control: what the other stream used came back in time."""
    assert ran(run_alone, tmp_path, "synchronized") == {"refused": False, "refused_again": False}
    assert analyze_out_of_memory(load(tmp_path / "oom.pickle")).failures == ()
