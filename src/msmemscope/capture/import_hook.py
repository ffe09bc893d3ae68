"""Doing something right after the program has imported a module, and not a moment before."""

from __future__ import annotations

import importlib.abc
import sys

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def when_imported(name: str, action: Callable[[], None]) -> None:
    """Call `action` once, after the module of that name has been executed for the first time.

    Args:
        name: A top-level module that is not imported yet.
        action: Must not raise.
    """
    sys.meta_path.insert(0, _ModuleWatcher(name, action))


class _ModuleWatcher(importlib.abc.MetaPathFinder):
    """Lets the other finders find the module, and wraps its loader."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for our module only, with what the finders behind us say."""
        if fullname != self._name:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _ActingLoader(spec.loader, self)
                return spec
        return None

    def module_is_there(self) -> None:
        """Act, once."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._action()


class _ActingLoader(importlib.abc.Loader):
    """The real loader, and the action after it."""

    def __init__(self, loader: Any, watcher: _ModuleWatcher) -> None:
        self._loader = loader
        self._watcher = watcher

    def __getattr__(self, name: str) -> Any:
        # Resource readers, get_source and the like belong to the real loader.
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the real loader does."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, with its own loader in place again, then act."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._watcher.module_is_there()
