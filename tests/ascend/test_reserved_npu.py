"""Memory that is reserved and idle is found with its cause, bytes and line; the repaired programs are silent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import msmemscope
from msmemscope.analysis.replay.replayed_recording import ReplayOptions
from msmemscope.analysis.reserved.idle_memory import Cause
from msmemscope.analysis.reserved.whole_advice import advise_whole
from msmemscope.cli.main import main
from tests.support.ascend import PROGRAMS

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

PROGRAM = "reserved_memory.py"
MEBIBYTE = 1 << 20


def marked(text: str) -> int:
    """The line of the program that has a text."""
    lines = (PROGRAMS / PROGRAM).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("kind", "cause", "line", "device"),
    [
        ("record_stream", Cause.WAITING, "batch = torch.ones", "npu:0"),
        ("pinned", Cause.ROUNDING, "pin_memory=True", "cpu"),
        ("sizes", Cause.SIZES, "# alone in its step", "npu:0"),
    ],
)
def test_the_cause_is_found(
    observe: Observe, capsys: pytest.CaptureFixture[str], kind: str, cause: Cause, line: str, device: str
) -> None:
    """First in the summary; by itself; in the advice; and as much as the program itself counts."""
    seen = observe(["--device=npu"], PROGRAM, kind)
    in_use, reserved = map(int, seen.run.stdout.split()[-2:])
    recording = msmemscope.load(seen.run.capture.directory)
    (found,) = recording.ask("reserved").found
    assert (found.cause, found.in_use_bytes >> 20, found.reserved_bytes >> 20) == (cause, in_use, reserved)
    assert found.idle_bytes / MEBIBYTE == pytest.approx(reserved - in_use, rel=0.35)
    assert f"{PROGRAM}({marked(line)})" in found.site
    verdict = " ".join(seen.run.stderr.split())
    assert re.search(rf"msmemscope: reserved: [\d.]+ MiB on {device} at \S*{PROGRAM}\({marked(line)}\)", verdict), (
        verdict
    )
    assert advise_whole(recording, ReplayOptions()).idle[0].idle_bytes == found.idle_bytes
    assert main(["analyze", "reserved", "--fail-on-findings", str(seen.run.capture.directory)]) != 0
    assert cause.value.split(",")[0].split(" ")[0] in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["record_stream", "pinned", "sizes"])
def test_repaired_programs_are_silent(observe: Observe, kind: str) -> None:
    """Also where there are several streams."""
    seen = observe(["--device=npu"], PROGRAM, kind, "repaired")
    assert "msmemscope: nothing found: no leak over" in " ".join(seen.run.stderr.split())
    result: Any = msmemscope.load(seen.run.capture.directory).ask("reserved")
    assert (result.found, result.is_judged) == ((), kind == "record_stream")


def test_pinned_memory_is_shown_without_the_cpu(observe: Observe) -> None:
    """Each pinned block is shown with the bytes that were asked for.

    Pinned memory has its own peak beside the device's.
    """
    seen = observe(["--device=npu"], PROGRAM, "pinned")
    recording = msmemscope.load(seen.run.capture.directory)
    host = recording.ask("card").parts.filter(part="pinned host")
    assert host["peak_bytes"].to_list() == [256 * MEBIBYTE]
    assert "Peak on cpu (HOST, pinned): 256 MiB in 16 blocks" in " ".join(seen.run.stderr.split())
