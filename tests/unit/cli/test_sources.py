"""The coverage names the sources that are about what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.formats.event_log import Capture
from msmemscope.launch.finish import finish
from tests.fakes.event_log_builder import EventLogBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ("cpu", ["torch_cpu: /a/libc10.so", "torch_operators: torch 2"]),
        ("npu:1", ["hal: libone.so, libtwo.so, libthree.so, and 1 more", "torch_operators: torch 2"]),
        ("npu,cpu", ["torch_cpu: /a/libc10.so", "hal: libone.so, libtwo.so, libthree.so, and 1 more",
                     "torch_operators: torch 2"]),
    ],
)  # fmt: skip
def test_sources_of_the_devices_asked_for(tmp_path: Path, devices: str, expected: list[str]) -> None:
    """A library that happens to be there is no source of anything otherwise; of many libraries, a few are named."""
    log = EventLogBuilder(tmp_path)
    log.fact("setting.devices", devices)
    log.fact("observed.torch_cpu", "/a/libc10.so")
    for name in ("one", "two", "one", "three", "four"):
        log.fact("observed.hal", f"/cann/lib{name}.so")
    log.fact("observed.torch_operators", "torch 2")
    (process,) = finish([Capture(log.write())], {}).processes
    assert list(process.observed) == expected
