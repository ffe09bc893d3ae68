"""Arguments and texts of snapshots, and which devices torch may be asked about."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from msmemscope.capture.device_figures import Accelerators, accelerators_of_process, host_figures
from msmemscope.capture.snapshot import TakeSnapshot, take_snapshot
from msmemscope.capture.snapshot_records import attributes_of
from msmemscope.errors import ConfigurationError
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.devices import DEVICE_NONE, DeviceKind, device_number

ACCEPTED = "None, a device number from 0 to 1023, or a list or tuple of those"


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (True, "cannot be or hold bool: 'True'"),
        ("0", "cannot be or hold str: \"'0'\""),
        (1.0, "cannot be or hold float: '1.0'"),
        ([0, None], r"cannot be or hold NoneType: '[0, None]'"),
        ({0}, "cannot be or hold set: '{0}'"),
        (-1, "not a device number: '-1'"),
        (1024, "not a device number: '1024'"),
        ((0, 9999), "not a device number: '(0, 9999)'"),
        ([], "names no device: '[]'"),
    ],
)
@pytest.mark.parametrize("take", [take_snapshot, TakeSnapshot])
def test_wrong_devices(take: Any, mask: Any, reason: str) -> None:
    """Each is an error that says what is accepted, of the function and when the context manager is made."""
    with pytest.raises(ConfigurationError) as raised:
        take(device_mask=mask)
    assert str(raised.value) == f"device_mask: {reason} (accepted: {ACCEPTED})"
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(("name", "reason"), [(5, "cannot be int"), ("", "empty"), ("x" * 1025, "too long")])
def test_wrong_names(name: Any, reason: str) -> None:
    """A name is text of a length that a table can show."""
    with pytest.raises(ConfigurationError, match=f"name: {reason}: .*accepted: text of at most 1024 characters"):
        TakeSnapshot(name=name)


def test_names_are_made_printable() -> None:
    """Control characters and text that is no Unicode become escapes."""
    assert repr(TakeSnapshot((0, 1, 0), name="a\nb\udc80")) == (
        r"TakeSnapshot(device_mask=(0, 1), name='a\\nb\\udc80')"
    )


def test_only_functions_are_decorated() -> None:
    """Anything else is an error where it stands, not when it is called."""
    with pytest.raises(TypeError, match="it is not a function"):
        TakeSnapshot()(5)  # type: ignore[type-var]


def test_attributes_in_their_order() -> None:
    """Bytes, then millionths of a percent; what is not known is left out, and nothing is divided by zero."""
    figures = {"free": 1, "total": 3, "max_allocated": 4, "allocated": 2, "max_reserved": 8, "reserved": 6}
    key = AttributeKey
    assert list(attributes_of(figures).items()) == [
        (key.RESERVED_BYTES, 6), (key.MAX_RESERVED_BYTES, 8), (key.ALLOCATED_BYTES, 2), (key.MAX_ALLOCATED_BYTES, 4),
        (key.TOTAL_BYTES, 3), (key.FREE_BYTES, 1), (key.DEVICE_RATE, 66_666_667), (key.RESERVED_RATE, 33_333_333),
    ]  # fmt: skip
    assert attributes_of({"total": 0, "free": 0})[key.DEVICE_RATE] == 0
    assert attributes_of({"reserved": 0, "allocated": 0})[key.RESERVED_RATE] == 0
    assert attributes_of({}) == {}


@pytest.mark.parametrize(
    ("part", "whole", "rate"), [(1, 8 * 10**8, 0), (3, 8 * 10**8, 0), (12, 8 * 10**8, 2), (20, 8 * 10**8, 2)]
)
def test_rates_are_rounded_to_the_nearest(part: int, whole: int, rate: int) -> None:
    """To millionths of a percent; of two that are as near, to the even one."""
    assert attributes_of({"reserved": whole, "allocated": part})[AttributeKey.RESERVED_RATE] == rate


def test_figures_of_the_host() -> None:
    """Of this process and this machine, in bytes; tensors only where they are followed."""
    figures = host_figures(with_tensors=False)
    assert set(figures) == {"reserved", "max_reserved", "total", "free"}
    assert 1 << 20 < figures["reserved"] <= figures["max_reserved"] < figures["total"]
    assert all(value % 1024 == 0 for value in figures.values())
    assert "allocated" in host_figures(with_tensors=True)


def test_an_old_torch_cannot_tell_which_devices_are_used() -> None:
    """Then only the current one counts; without initialisation none does."""
    module = SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 1, device_count=lambda: 2)
    accelerators = Accelerators(module, SimpleNamespace(), "cuda")
    assert [accelerators.is_used(device) for device in range(2)] == [False, True]
    module.is_initialized = lambda: False
    assert not accelerators.is_used(1)


@pytest.mark.parametrize(
    ("visible", "numbers"), [("", [0, 1]), ("5, 3", [5, 3]), ("GPU-abc,GPU-def", [0, 1]), ("7", [7, None])]
)
def test_numbers_of_gpus(visible: str, numbers: list[int | None]) -> None:
    """The driver's where the environment says them, once for the life of a process."""
    question = "from msmemscope import _native; print(*map(_native.cuda_device, range(2)))"
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": visible}
    answer = subprocess.run(
        [sys.executable, "-c", question], env=variables, capture_output=True, text=True, check=True
    ).stdout.split()
    expected = [DEVICE_NONE if number is None else device_number(DeviceKind.CUDA, number) for number in numbers]
    assert answer == [str(number) for number in expected]


def test_an_allocator_that_was_replaced() -> None:
    """Statistics that are not there are left out; those of a device without any are an error for the caller."""
    module = SimpleNamespace(
        is_initialized=lambda: True,
        memory_stats=lambda _device: {"allocated_bytes.all.current": 5},
        mem_get_info=lambda _device: (1, 2),
    )
    extension = SimpleNamespace(_npu_hasPrimaryContext=lambda _device: True)
    assert Accelerators(module, extension, "npu").figures(0) == {"allocated": 5, "total": 2, "free": 1}


def test_no_torch_no_accelerators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch for CPUs has none either."""
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=SimpleNamespace(), cuda=object()))
    assert accelerators_of_process() is None
    monkeypatch.setitem(sys.modules, "torch", None)
    assert accelerators_of_process() is None
