"""Doing something right after the program has imported a module, and not a moment before."""

from __future__ import annotations

import _frozen_importlib  # importlib itself, which every interpreter has loaded
import sys
from _thread import get_ident

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def when_imported(name: str, action: Callable[[], None], begins: Callable[[], object] | None = None) -> None:
    """Call `action` once, after the module of that name has been executed for the first time.

    Args:
        name: A module that is not imported yet; of a submodule the full name.
        action: Must not raise.
        begins: Called when the module was found and is about to be executed. Must not raise.
    """
    _finder.watch(_Watch(name, action, is_once=True, begins=begins))


def whenever_imported(name: str, action: Callable[[], None], missing: Callable[[], None] | None = None) -> EndWatch:
    """Call `action` each time the module of that name has been executed, until the returned function is called.

    A module is executed again when it is reloaded, or imported after somebody took it out of `sys.modules`.

    Args:
        name: The full name of the module. An earlier import does not count.
        action: Must not raise.
        missing: Called when the program looks for the module and there is none. Must not raise.
    """
    watch = _Watch(name, action, missing=missing)
    _finder.watch(watch)
    return lambda: _finder.forget(watch)


class ImportLock:
    """Python's own lock of a module, which a thread holds while it imports that module.

    A thread that imports torch takes the session's lock at the end of that. Whoever takes the session's lock in another
    thread, and may touch torch then, must take this one first.
    """

    def __init__(self, name: str) -> None:
        self._lock: Any = _frozen_importlib._ModuleLockManager(name)  # type: ignore[attr-defined] # noqa: SLF001 - no public name

    def __enter__(self) -> None:
        """Wait for a thread that imports the module; not where Python sees that it waits for this one."""
        try:
            self._lock.__enter__()
        except RuntimeError:
            self._lock = None

    def __exit__(self, *exception: object) -> None:
        """Let others import it."""
        if self._lock is not None:
            self._lock.__exit__(*exception)


class _Watch:
    """One who waits for a module."""

    def __init__(
        self,
        name: str,
        action: Callable[[], None],
        *,
        is_once: bool = False,
        missing: Callable[[], None] | None = None,
        begins: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self.action = action
        self.is_once = is_once
        self.missing = missing
        self.begins = begins


class _Finder:
    """Lets the finders behind it find the modules that somebody waits for, and wraps their loaders.

    One for all: two that ask each other for the same module would never end.
    """

    def __init__(self) -> None:
        # Names -> who waits, in the order in which they came. The tuples are replaced, never changed: imports go on in
        # several threads.
        self._watches: dict[str, tuple[_Watch, ...]] = {}
        self._searches: set[tuple[str, int]] = set()

    def watch(self, watch: _Watch) -> None:
        """Stand first in line: a finder before us could answer for the module."""
        self._watches[watch.name] = (*self._watches.get(watch.name, ()), watch)
        if not sys.meta_path or sys.meta_path[0] is not self:
            self._leave()
            sys.meta_path.insert(0, self)

    def forget(self, watch: _Watch) -> bool:
        """Let somebody wait no more. False if that was so."""
        waiting = self._watches.get(watch.name, ())
        if watch not in waiting:
            return False
        remaining = tuple(other for other in waiting if other is not watch)
        if remaining:
            self._watches[watch.name] = remaining
        else:
            self._watches.pop(watch.name, None)
            if not self._watches:
                self._leave()
        return True

    def _leave(self) -> None:
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer only for modules that somebody waits for, with the answer of the finders behind us."""
        search = (fullname, get_ident())
        # A finder behind us may ask all finders in turn: then we are not the one to answer.
        if fullname not in self._watches or search in self._searches:
            return None
        self._searches.add(search)
        try:
            spec = self._ask_others(fullname, path, target)
        finally:
            self._searches.discard(search)
        if spec is None:
            for watch in self._watches.get(fullname, ()):
                if watch.missing is not None:
                    watch.missing()
        elif hasattr(spec.loader, "exec_module"):
            from msmemscope.capture.acting_loader import ActingLoader  # importlib.abc is slow to import

            for watch in self._watches.get(fullname, ()):
                if watch.begins is not None:
                    watch.begins()
            spec.loader = ActingLoader(spec.loader, lambda: self.module_is_there(fullname))
        return spec

    def _ask_others(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        finders = list(sys.meta_path)
        place = next((index for index, finder in enumerate(finders) if finder is self), -1)
        for finder in finders[place + 1 :]:
            if not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def module_is_there(self, name: str) -> None:
        """Act."""
        for watch in self._watches.get(name, ()):
            if not watch.is_once or self.forget(watch):
                watch.action()


if TYPE_CHECKING:
    EndWatch = Callable[[], object]

_finder = _Finder()
