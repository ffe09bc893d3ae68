"""Imports of the fake frameworks of `tests/fakes/framework_packages.py`, and what is seen in their functions."""

from __future__ import annotations

import importlib
import inspect
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msmemscope.capture import labels, sleep_modes
from msmemscope.capture.frameworks import automatic, patching
from msmemscope.capture.frameworks.targets import HookType
from tests.fakes.framework_packages import write_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from msmemscope.capture.frameworks.targets import Target

_folder = tempfile.TemporaryDirectory(prefix="framework_packages_")
PACKAGES = Path(_folder.name)
write_packages(PACKAGES)
NAMES = ("vllm", "vllm_ascend", "verl", "mindspeed_llm", "megatron", "torch", "framework_probe")


class FrameworkProcess:
    """A process as far as frameworks are concerned: what it imported, and what we said and took there."""

    def __init__(self) -> None:
        self.facts: list[tuple[str, str]] = []
        self.printed: list[str] = []
        self.snapshots: list[str] = []
        self.ranges: list[str | int] = []
        """Names where ranges began, their numbers where they ended."""

    def facts_of(self, key: str) -> list[str]:
        """The values that were noted under a key."""
        return [value for name, value in self.facts if name == key]

    def begin_range(self, name: str) -> int:
        """Take the place of the core's function."""
        self.ranges.append(name)
        return len(self.ranges)

    def take_snapshot(self, device_mask: object = None, name: str = "") -> None:
        """Take the place of the real one."""
        assert device_mask is None
        self.snapshots.append(name)


@contextmanager
def framework_process(folder: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrameworkProcess]:
    """Let the fakes of a folder be importable and nothing of them imported, and end without any hook."""
    process = FrameworkProcess()
    hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in NAMES}
    for name in hidden:
        del sys.modules[name]
    finders = list(sys.meta_path)
    monkeypatch.syspath_prepend(PACKAGES)
    monkeypatch.syspath_prepend(PACKAGES / folder)
    monkeypatch.setattr(patching, "patcher", patcher := patching.Patcher())
    monkeypatch.setattr(automatic, "patcher", patcher)
    monkeypatch.setattr(automatic, "_hooks", automatic._AutomaticHooks())
    monkeypatch.setattr(automatic, "_sleep_hooks", automatic._AutomaticHooks(HookType.SLEEP))
    monkeypatch.setattr("msmemscope.capture.framework_hooks.patcher", patcher)
    monkeypatch.setattr("msmemscope._native.note_fact", lambda key, value: process.facts.append((key, value)))
    monkeypatch.setattr("msmemscope._native.range_start", process.begin_range)
    monkeypatch.setattr("msmemscope._native.range_end", process.ranges.append)
    monkeypatch.setattr("msmemscope._native.warn", process.printed.append)
    monkeypatch.setattr("msmemscope.capture.snapshot.take_snapshot", process.take_snapshot)
    try:
        yield process
    finally:
        sleep_modes.leave_sleep_modes()
        automatic.disable_automatic_hooks()
        patcher.release_all()
        assert sys.meta_path == finders, "a finder was left behind"
        for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
            del sys.modules[name]
        sys.modules.update(hidden)


@contextmanager
def listening(listener: Callable[[str], Any]) -> Iterator[None]:
    """Let a listener answer for every function of the fakes."""
    listeners = importlib.import_module("framework_probe").listeners
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)


def labels_in_force() -> list[str]:
    """The labels of this thread, in the order of their levels."""
    return [label for label, _ in sorted(labels._in_force.get(), key=lambda pair: pair[1])]


def owner_of(target: Target, module: str) -> Any:
    """The class or module that holds the function of a target."""
    found = importlib.import_module(module)
    return getattr(found, target.class_name) if target.class_name else found


def call(target: Target, module: str) -> Any:
    """Call the function of a target with as many arguments as it asks for."""
    owner = owner_of(target, module)
    function = getattr(owner, target.function)
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    arguments = [object() for _ in required]
    if isinstance(owner, type):
        return getattr(object.__new__(owner), target.function)(*arguments[1:])
    return function(*arguments)
