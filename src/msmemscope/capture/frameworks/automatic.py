"""Hooks that come by themselves, for the frameworks and versions that the program uses.

Labels come with `analysis="decompose"`, ranges around the functions that put memory to sleep with every collection.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msmemscope import _native
from msmemscope.capture.frameworks.patching import patcher
from msmemscope.capture.frameworks.registry import find_automatic_sets, known_frameworks
from msmemscope.capture.frameworks.targets import HookType
from msmemscope.capture.frameworks.transformers_cache import CacheLabels
from msmemscope.capture.import_hook import whenever_imported

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.capture.frameworks.targets import Framework
    from msmemscope.capture.import_hook import EndWatch

_WORDS = {HookType.DECOMPOSE: "labels", HookType.SLEEP: "sleep mode"}


class _AutomaticHooks:
    """Whether automatic hooks of one type are on, and which frameworks are still waited for."""

    def __init__(self, hook_type: HookType = HookType.DECOMPOSE) -> None:
        self._hook_type = hook_type
        self._holder = f"automatic {hook_type.value}"
        self.is_on = False
        self.is_left_to_program = False
        self._watches: list[EndWatch] = []
        self._reported: set[str] = set()
        self._caches = CacheLabels() if hook_type is HookType.DECOMPOSE else None

    def enable(self) -> None:
        """Hook the frameworks that are imported, and the others when they are imported."""
        if self.is_on or self.is_left_to_program:
            return
        self.is_on = True
        if self._caches is not None:
            self._caches.enable()
        for framework in known_frameworks():
            if not any(each.hook_type is self._hook_type for each in framework.hook_sets):
                continue
            self._watches.append(whenever_imported(framework.package, self._hook_when_asked(framework)))
            if framework.package in sys.modules:
                self._hook(framework)

    def disable(self) -> None:
        """Give back what only these hooks have."""
        self.is_on = False
        if self._caches is not None:
            self._caches.disable()
        while self._watches:
            self._watches.pop()()
        patcher.release(self._holder)

    def _hook_when_asked(self, framework: Framework) -> Callable[[], None]:
        return lambda: self._hook(framework)

    def _hook(self, framework: Framework) -> None:
        """Never raises: it may run in the middle of the program's imports."""
        if not self.is_on:
            return
        try:
            version = _version_in_use(framework)
            hook_sets = find_automatic_sets(framework, version, self._hook_type)
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever this framework is like
            self._note(f"{framework.name}: its version is not known ({type(error).__name__}: {error})")
            return
        if not hook_sets:
            self._note(f"{framework.name} {version} has no {_WORDS[self._hook_type]} of its own")
        patcher.install(hook_sets, self._holder)

    def _note(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            _native.note_fact("unobserved.framework_hooks", text)


def _version_in_use(framework: Framework) -> str:
    """The version that an imported framework says it has, or the one that is installed.

    Raises:
        PackageNotFoundError: If neither says it.
    """
    stated = getattr(sys.modules[framework.package], "__version__", None)
    if isinstance(stated, str):
        return str(stated)
    import importlib.metadata  # slow to import: only where a framework is in use

    return importlib.metadata.version(framework.distribution)


_hooks = _AutomaticHooks()
_sleep_hooks = _AutomaticHooks(HookType.SLEEP)


def enable_automatic_hooks() -> None:
    """Label the memory of every known framework in the version that the program uses.

    Frameworks that are imported already are hooked now, the others when they are imported. Does nothing if they are on,
    or if the program has called `init_framework_hooks` for labels itself.
    """
    _hooks.enable()


def disable_automatic_hooks() -> None:
    """Give back what `enable_automatic_hooks` hooked. Hooks of the program itself stay."""
    _hooks.disable()


def enable_sleep_hooks() -> None:
    """Record when a known framework puts memory to sleep and wakes it. Does nothing if that is on."""
    _sleep_hooks.enable()


def disable_sleep_hooks() -> None:
    """Give back what `enable_sleep_hooks` hooked."""
    _sleep_hooks.disable()


def leave_to_program() -> None:
    """Hook nothing automatically any more in this process: the program says which labels it wants."""
    _hooks.is_left_to_program = True
    _hooks.disable()
