"""A kind of device is a row of the table: names, options, logs, dumps, questions and their words follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import msmemscope
from msmemscope.cli.main import main
from msmemscope.configuration import Config, with_keywords
from msmemscope.configuration.settings import HIGHEST_DEVICE
from msmemscope.model.devices import (
    DEVICES_PER_KIND,
    KIND_NAMES,
    DeviceKind,
    device_name,
    device_number,
    device_word,
    kind_of,
    names_of,
    parse_device_name,
)
from tests.fakes.event_log_builder import HAL, STEP, EventLogBuilder
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from pathlib import Path

KIB = 1024


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize("index", [0, 9, DEVICES_PER_KIND - 1])
def test_names_and_numbers(kind: DeviceKind, index: int) -> None:
    """Each is the other's way back, in what people read and in what dumps hold."""
    device = device_number(kind, index)
    assert device_name(device) == f"{KIND_NAMES[kind].word}:{index}"
    assert parse_device_name(device_name(device)) == parse_device_name(device_word(device)) == device
    assert kind_of(device) is kind
    if kind is not DeviceKind.NPU or index <= HIGHEST_DEVICE:
        assert with_keywords(Config(), {"device": device_name(device)}).devices == (device_name(device),)


@pytest.mark.parametrize(
    "kind, form",
    [
        *((kind, "csv") for kind in KIND_NAMES),
        *(pytest.param(kind, "db", marks=nightly if kind else ()) for kind in KIND_NAMES),
    ],
)
def test_a_row_is_enough(kind: DeviceKind, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the event log through a dump to the answers: the same device, and no other kind's name."""
    device = device_number(kind, 3)
    log = EventLogBuilder(tmp_path)
    for _ in range(4):
        log.malloc(0x1000_0000 + 64 * KIB * len(log.events.get(0, ())), 64 * KIB, pool=HAL, device=device)
        log.add(STEP, size=1 + len(log.events[0]) // 2, device=device)
    capture = log.write()
    assert main(["recover", str(capture), f"--data-format={form}"]) == 0
    capsys.readouterr()
    (dump,) = capture.glob(f"device_*/dump/*.{form}")
    for path in (capture, dump):
        recording = msmemscope.load(path)
        assert recording.blocks["device"].unique().to_list() == [device]
        assert recording.timeline(device=device_name(device), pool=names_of(device).driver).height == 4
        (peak,) = recording.peak(device=device_name(device)).devices
        assert peak.device == device
        assert main(["analyze", "peak", str(path)]) == 0
        shown = capsys.readouterr().out
        assert device_name(device) in shown
        others = {KIND_NAMES[other].word for other in KIND_NAMES if other is not kind}
        assert not [word for word in others if f"{word}:" in shown]
        assert names_of(device) is KIND_NAMES[kind]
