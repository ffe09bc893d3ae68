"""What torch_npu's caching allocator says of itself, and what the program tells it: settings, and to empty its cache.

The allocator calls the core directly (`native/sources/ascend/torch_npu/`). It is asked to when torch_npu has initialised
itself, which is before its first allocation; a history that the program has torch record is not touched.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

_VARIABLES: Final = ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""Where the allocator's settings come from; the first one that is set counts."""

_waits = False
_attached: list[Any] = []


def observe_allocator() -> None:
    """Let the allocator tell what it does: now if the program has torch_npu already, else as soon as it imports it."""
    global _waits  # noqa: PLW0603 - there is one torch_npu
    # The package itself may be half imported: it imports torch, which begins the session.
    if hasattr(sys.modules.get("torch_npu.npu"), "_lazy_call"):
        _prepare()
    elif not _waits:
        _waits = True
        when_imported("torch_npu.npu", _prepare)


def _prepare() -> None:
    """Never raises: it runs in the middle of the program's imports."""
    try:
        extension = sys.modules["torch_npu._C"]
        if extension in _attached:
            return
        _attached.append(extension)
        for name, wrap in _WRAPPERS.items():
            original = getattr(extension, name)
            setattr(extension, name, functools.update_wrapper(wrap(original), original))
        vars(sys.modules["torch_npu.npu"])["_lazy_call"](_attach)
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch_npu is like
        _native.note_fact("unobserved.allocator", f"{type(error).__name__}: {error}")


def _attach() -> None:
    """torch_npu has been initialised."""
    why = _native.attach_allocator_trace(str(sys.modules["torch_npu"].__version__))
    if why is not None:
        _native.note_fact("unobserved.allocator", why)
        return
    settings = next((os.environ[name] for name in _VARIABLES if name in os.environ), "")
    _native.note_fact("allocator.settings", settings)


def _note(kind: EventKind, name: str = "") -> None:
    from msmemscope.capture.current_npu import current_npu

    if _native.is_collecting():
        _native.record_event(kind, _native.physical_device(current_npu()), name=name, pool=Pool.PTA)


def _emptying(original: Callable[..., Any]) -> Any:
    def empty_cache(*arguments: Any, **keywords: Any) -> Any:
        _note(EventKind.CACHE_EMPTIED)
        return original(*arguments, **keywords)

    return empty_cache


def _setting(original: Callable[..., Any]) -> Any:
    def set_settings(settings: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(settings, *arguments, **keywords)
        _note(EventKind.ALLOCATOR_SETTING, str(settings))
        return result

    return set_settings


def _limiting(original: Callable[..., Any]) -> Any:
    def set_fraction(fraction: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(fraction, *arguments, **keywords)
        _note(EventKind.ALLOCATOR_SETTING, f"per_process_memory_fraction:{fraction}")
        return result

    return set_fraction


_WRAPPERS: Final[dict[str, Callable[[Callable[..., Any]], Any]]] = {
    "_npu_emptyCache": _emptying,
    "_npu_npuCachingAllocator_set_allocator_settings": _setting,
    "_npu_setMemoryFraction": _limiting,
}
"""What torch_npu's own Python code calls, by its name in `torch_npu._C`."""
