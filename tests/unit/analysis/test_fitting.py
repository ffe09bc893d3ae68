"""Whether a job fits in devices of other sizes: the allocator's reserve, others of the process, and the verb."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.replay.fitting import fit_recording
from msmemscope.cli.main import main
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace
from tests.support.recorded_runs import write_run
from tests.support.small_snapshot import write_snapshot

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
LINE = "/home/me/train.py(7): step"


def trace() -> Trace:
    """30 MiB of a communicator, then three segments of 18 MiB with a block each."""
    made = Trace()
    made.malloc(30 * MIB, pool=Pool.HAL, attributes="CANN@HCCL,page_type:huge,alloc_type:alloc")
    for number in range(1, 4):
        made.malloc(18 * MIB, pool=Pool.HAL, attributes="CANN@APP,page_type:huge,alloc_type:alloc")
        made.add(EventKind.RESERVED, pool=int(Pool.PTA), size=number * 18 * MIB)
        made.malloc(18 * MIB, LINE)
    return made


def test_others_are_counted_and_the_line_is_named() -> None:
    """Memory of the communicator is not the allocator's. The allocator has only the rest of a capacity."""
    (device,) = fit_recording(trace().recording(), [80 * MIB, 90 * MIB, 20 * MIB], None).devices
    assert device.peak_reserved_bytes == 54 * MIB
    assert device.others_bytes == 30 * MIB
    assert dict(device.others_by_module) == {"HCCL": 30 * MIB}
    short, fitting, tiny = device.capacities
    assert not short.fits
    assert short.headroom_bytes == -4 * MIB
    assert short.failure is not None
    assert short.failure.reserved_bytes == 36 * MIB
    assert short.line == LINE
    assert (fitting.fits, fitting.headroom_bytes, fitting.line) == (True, 6 * MIB, "")
    assert (tiny.fits, tiny.failure) == (False, None)  # the others alone need more


def test_the_context_counts() -> None:
    """Memory that the process uses, and that no allocation tells of, is needed on another device too."""
    made = Trace()
    for number in range(1, 3):
        made.add(EventKind.DEVICE_USAGE, size=100 * MIB, extra=number * 18 * MIB + 5 * MIB)
        made.malloc(18 * MIB, pool=Pool.HAL, attributes="CANN@APP,page_type:huge,alloc_type:alloc")
        made.add(EventKind.RESERVED, pool=int(Pool.PTA), size=number * 18 * MIB)
        made.malloc(18 * MIB, LINE)
    (device,) = fit_recording(made.recording(), [40 * MIB, 41 * MIB], None).devices
    assert dict(device.others_by_module) == {"context, not recorded": 5 * MIB}
    assert [one.fits for one in device.capacities] == [False, True]


def test_capacities_that_devices_often_have() -> None:
    """Those of the kind of the device, where none is given."""
    (device,) = fit_recording(trace().recording(), None, None).devices
    assert [one.capacity_bytes >> 30 for one in device.capacities] == [32, 64]


def test_what_was_not_recorded_is_said() -> None:
    """Without the driver's memory nothing is known of others; allocations that failed have an unknown future."""
    made = Trace()
    made.malloc(18 * MIB, LINE)
    made.add(EventKind.OOM, size=MIB)
    found = fit_recording(made.recording(), [64 * MIB], None)
    assert found.devices[0].others_bytes is None
    said = " ".join(found.coverage.limits)
    assert "leave room for it" in said
    assert "1 allocations failed" in said


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict is the first line; JSON has the same."""
    snapshot = str(write_snapshot(tmp_path))
    assert main(["fits", snapshot, "--capacity=30MiB,1GiB"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "Does not fit in 30.0 MiB, 10.0 MiB short; fits in 1.00 GiB, 984 MiB left"
    assert main(["fits", snapshot, "--capacity=30MiB", "--json"]) == 0
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    (capacity,) = process["result"]["devices"][0]["capacities"]
    assert (capacity["fits"], capacity["headroom_bytes"]) == (False, -10 * MIB)


def test_a_recording_of_no_such_allocator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Has no answer, and says why."""
    assert main(["fits", str(write_run(tmp_path / "run"))]) == 0
    assert "no blocks of a caching allocator" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--capacity=much", "--capacity=0", "--capacity=1GiB,", "--recorded=x=1"])
def test_bad_arguments(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2; nothing on stdout."""
    assert main(["fits", str(write_snapshot(tmp_path)), option]) == 2
    assert capsys.readouterr().out == ""
