"""Arguments of the marks of the pytest plugin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from msmemscope.integrations.pytest import checks_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Mark(NamedTuple):
    """As pytest's marks are. Those can only be made where the plugin is installed."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class MarkedTest:
    """A test with marks, the closest first."""

    nodeid = "test_memory.py::test_it"

    def __init__(self, *marks: Mark) -> None:
        self._marks = marks

    def iter_markers(self, name: str) -> Iterator[Mark]:
        """As pytest's items do."""
        return (mark for mark in self._marks if mark.name == name)


def limit(*args: Any, **kwargs: Any) -> Mark:
    """A mark that limits memory."""
    return Mark("limit_device_memory", args, kwargs)


def leaks(*args: Any, **kwargs: Any) -> Mark:
    """A mark that looks for leaks."""
    return Mark("no_device_leaks", args, kwargs)


def read(*marks: Mark) -> Any:
    """Read the marks of a test."""
    return checks_of(cast("pytest.Item", MarkedTest(*marks)))


def test_sizes_are_read_as_people_write_them() -> None:
    """As text, with or without a blank, or as bytes; all limits of a test hold."""
    checks = read(limit("2 GiB"), limit("512M", device="npu:0"), limit(4096, device="cpu"))
    assert checks.limits == ((2 << 30, None), (512 << 20, "npu:0"), (4096, "cpu"))
    assert checks.devices == {"npu:0", "cpu"}
    assert not checks.looks_for_leaks


def test_patterns_of_all_marks_are_ignored() -> None:
    """One may stand on the module, and the closest one names the device."""
    checks = read(leaks(ignore="*a*", device="npu"), leaks(ignore=["*b*", "*c*"]))
    assert checks.ignored == ("*a*", "*b*", "*c*")
    assert checks.leak_device == "npu"
    assert checks.looks_for_leaks


def test_other_tests_are_left_alone() -> None:
    """No mark, nothing to check."""
    assert read(Mark("slow", (), {})) is None


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (limit(), "takes one size"),
        (limit("1G", "2G"), "takes one size"),
        (limit("1G", limit=2), "takes one size"),
        (limit("2 apples"), "not a size: '2 apples' (accepted: a whole number of bytes"),
        (limit("1.5 GiB"), "not a size: '1.5 GiB'"),
        (limit(-1), "not a size: -1"),
        (limit(1.5), "not a size: 1.5"),
        (limit(True), "not a size: True"),
        (limit("1G", device="gpu"), "not a device: 'gpu' (accepted: cpu, npu"),
        (limit("1G", device=0), "not a device: 0"),
        (leaks("*a*"), "takes a device and patterns to ignore, both by keyword"),
        (leaks(ignore=5), "not patterns: ignore=5"),
        (leaks(ignore=["a", 5]), "not patterns: ignore=['a', 5]"),
        (leaks(devices="cpu"), "takes a device and patterns to ignore"),
    ],
)
def test_mistakes_name_the_test_the_mark_and_the_value(mark: Mark, message: str) -> None:
    """And what is accepted."""
    expected = re.escape(f"test_memory.py::test_it: @pytest.mark.{mark.name}: {message}")
    with pytest.raises(pytest.UsageError, match=expected):
        read(mark)
