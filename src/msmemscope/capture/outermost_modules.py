"""Calls of the outermost module of a thread, seen by torch's global hooks for modules.

A global hook makes each call of each module some microseconds slower, and a served model has hundreds of modules. So the
global hooks are away while the outermost module runs. For as long, that module has a hook of its own, which brings them
back. Where the calls of several threads overlap, the global hooks stay: one thread must not hide the calls of another.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict
from sys import exc_info
from threading import get_ident
from typing import TYPE_CHECKING, Any

from msmemscope import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEY = "msmemscope"
"""Of the hook of one module. Torch's own keys are numbers."""


class _OfThread(threading.local):
    """The modules that run in this thread, as far as global hooks have seen them begin."""

    def __init__(self) -> None:
        self.open = 0


class OutermostModules:
    """The watch for the ends of calls of outermost modules.

    Args:
        is_wanted: Asked before each of those calls. Once it says no, there are no more hooks.
        ended: Called with the module after each call, and with whether the call raised.
    """

    def __init__(self, is_wanted: Callable[[], bool], ended: Callable[[Any, bool], None]) -> None:
        self._is_wanted = is_wanted
        self._ended = ended
        self._of_thread = _OfThread()
        self._is_on = False
        self._is_hidden = False
        self._places: list[tuple[dict[Any, Any], Any, Any]] = []
        self._calls_overlap = False
        self._thread = 0
        self._end_of_call = _EndOfCall(self._call_ended)

    def begin(self) -> None:
        """Watch from now on.

        Raises:
            Exception: Whatever a torch that has no such hooks raises.
        """
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._take_away()
        is_compiling = sys.modules["torch"].compiler.is_compiling
        begins, ends = self._global_hooks(is_compiling)
        self._is_on = True
        handles = register_module_forward_pre_hook(begins), register_module_forward_hook(ends, always_call=True)
        self._places = [place for handle in handles for place in _places_of(handle)]
        self._hide_from_compiled_modules(is_compiling)
        own = (begins, ends, _EndOfCall.__call__, OutermostModules._call_ended, OutermostModules._step_aside)
        _native.hide_code(tuple(function.__code__ for function in own))

    def end(self) -> None:
        """Watch no more."""
        self._is_on = False
        # While an error is handed on, torch walks through its hooks. The next call takes them away.
        if exc_info()[0] is None:
            self._take_away()

    def _take_away(self) -> None:
        for hooks, key, _ in self._places:
            hooks.pop(key, None)

    def _put_back(self) -> None:
        for hooks, key, value in self._places:
            hooks[key] = value

    def _global_hooks(self, is_compiling: Callable[[], bool]) -> tuple[Any, Any]:
        """The functions that run before and after each call of a module; torch.compile takes both for nothing."""
        of_thread = self._of_thread

        def begins(module: Any, _inputs: Any) -> None:
            if is_compiling():
                return
            if of_thread.open == 0:
                if not self._is_on or not self._is_wanted():
                    self.end()
                    return
                if self._step_aside(module):
                    return
            of_thread.open += 1

        def ends(module: Any, _inputs: Any, output: Any) -> None:
            if is_compiling():
                return
            if of_thread.open == 0:
                self._calls_overlap = True  # this one began while another thread had the hooks away
                return
            of_thread.open -= 1
            if of_thread.open == 0 and self._is_on:
                self._ended(module, _has_raised(output))

        return begins, ends

    def _step_aside(self, module: Any) -> bool:
        """Take the global hooks away until this call of a module ends; whether that was done."""
        of_module = module.__dict__
        hooks = of_module.get("_forward_hooks")
        always_called = of_module.get("_forward_hooks_always_called")
        if self._calls_overlap or type(hooks) is not OrderedDict or type(always_called) is not OrderedDict:
            return False
        # Another thread may be walking through hooks of the program, and must not find that they have changed.
        for of_torch, _, _ in self._places:
            if len(of_torch) > 1:
                return False
        self._thread = get_ident()
        # One that is left there saw no end: the call was interrupted. Ours must be the last, as the end needs.
        hooks.pop(_KEY, None)
        hooks[_KEY] = self._end_of_call
        always_called[_KEY] = True
        self._take_away()
        return True

    def _call_ended(self, module: Any, output: Any) -> None:
        """The module for which the global hooks were taken away has run."""
        if get_ident() != self._thread:
            self._calls_overlap = True
            return
        of_module = module.__dict__
        hooks = of_module["_forward_hooks"]
        # Where an error is handed on, torch walks through these hooks; behind the last of them it looks no further.
        if exc_info()[0] is None or next(reversed(hooks), None) == _KEY:
            hooks.pop(_KEY, None)
            of_module["_forward_hooks_always_called"].pop(_KEY, None)
        if self._is_on:
            self._put_back()
            self._ended(module, _has_raised(output))

    def _hide_from_compiled_modules(self, is_compiling: Callable[[], bool]) -> None:
        """A compiled module warns where it finds global hooks. It is to find those of the program only."""
        torch_modules: Any = sys.modules["torch.nn.modules.module"]
        asked = getattr(torch_modules, "_has_any_global_hook", None)
        if asked is None or self._is_hidden:
            return

        def has_any_global_hook() -> bool:
            if is_compiling() or not any(key in hooks for hooks, key, _ in self._places):
                return bool(asked())
            self._take_away()
            try:
                return bool(asked())
            finally:
                self._put_back()

        self._is_hidden = True
        torch_modules._has_any_global_hook = has_any_global_hook  # noqa: SLF001 - it has no public name


class _EndOfCall:
    """The hook of one module, for one call."""

    def __init__(self, ended: Callable[[Any, Any], None]) -> None:
        self._ended = ended

    def __call__(self, module: Any, _inputs: Any, output: Any) -> None:
        self._ended(module, output)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the module may be made meanwhile, or after an interruption. It gets a hook that does nothing, and
        # that can be read where there is no msmemscope.
        return getattr, (contextlib.nullcontext(), "__exit__")


def _has_raised(output: Any) -> bool:
    """Whether the call of a module hands an error on: then its hooks get no output. The program may handle one meanwhile."""
    return output is None and exc_info()[0] is not None


def _places_of(handle: Any) -> Iterator[tuple[dict[Any, Any], Any, Any]]:
    """Where torch keeps the hook of this handle, and what it keeps there."""
    for reference in (handle.hooks_dict_ref, *handle.extra_dict_ref):
        hooks = reference()
        if handle.id in hooks:
            yield hooks, handle.id, hooks[handle.id]
