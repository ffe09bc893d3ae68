"""Optimizers that are not torch's: state in attributes, and classes of the program that are optimizers by what they can do.

The latter have `step` and `zero_grad`. They are looked for where steps end, among the variables of the functions that
run then. The objects that these variables refer to directly are looked at too. Optimizers that were found stay known.
"""

from __future__ import annotations

import sys
import time
import types
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.capture.labels import storage_addresses
from msmemscope.capture.module_labels import GRADIENT_TEXT, WEIGHT_TEXT, label_storages
from msmemscope.capture.search_roots import is_of_library
from msmemscope.model.labels import MODEL_OPTIMIZER_STATE, LabelLevel, encode_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE_TEXT: Final = encode_labels([(MODEL_OPTIMIZER_STATE, LabelLevel.DETAIL_1)])
_REST: Final = 50
"""Looks take at most one part in this many of the time."""
_MOST_FRAMES: Final = 64
_METHODS: Final = ("step", "zero_grad")


class OwnOptimizers:
    """Those of this process that were found."""

    def __init__(self) -> None:
        self._is_one: dict[type, bool] = {}
        self._found: dict[int, weakref.ref[Any]] = {}
        self._rests_until_s = 0.0
        self._has_failed = False

    def look_if_due(self) -> None:
        """Label what they hold now, if looking costs little beside the time since the last look. Never raises."""
        began_s = time.thread_time()  # of this thread only: a machine may be busy with other things
        if time.perf_counter() < self._rests_until_s or self._has_failed or "torch" not in sys.modules:
            return
        try:
            for value in _variables():
                if self._is_optimizer(value) and id(value) not in self._found:
                    self._add(value)
            for reference in list(self._found.values()):
                optimizer = reference()
                if optimizer is not None:
                    label_attributes(optimizer)
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever its objects are like
            self._has_failed = True
            _native.note_fact("unobserved.own_optimizers", f"{type(error).__name__}: {error}")
        self._rests_until_s = time.perf_counter() + _REST * (time.thread_time() - began_s)

    def _add(self, optimizer: Any) -> None:
        number, found = id(optimizer), self._found
        try:
            found[number] = weakref.ref(optimizer, lambda _: found.pop(number, None))
        except TypeError:
            label_attributes(optimizer)  # a class without weak references: found anew each time

    def _is_optimizer(self, value: Any) -> bool:
        kind = type(value)
        known = self._is_one.get(kind)
        if known is None:
            known = self._is_one[kind] = _can_optimize(kind)
        return known


def _can_optimize(kind: type) -> bool:
    """Whether a class is one of the program with the methods of an optimizer, and torch knows nothing of it."""
    torch = sys.modules["torch"]
    if not kind.__flags__ & _HEAP_TYPE or torch.optim.Optimizer in kind.__mro__ or torch.nn.Module in kind.__mro__:
        return False
    if is_of_library(getattr(sys.modules.get(kind.__module__), "__file__", None) or ""):
        return False
    return all(any(type(vars(one).get(name)) is types.FunctionType for one in kind.__mro__) for name in _METHODS)


def _variables() -> Iterator[Any]:
    """Local variables of the functions that run, globals of the program, and what these have as attributes."""
    values = list(vars(sys.modules["__main__"]).values()) if "__main__" in sys.modules else []
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - as traceback does
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if not is_of_library(frame.f_code.co_filename):
            values.extend(value for _, value in _native.frame_locals(frame))
        frame = frame.f_back
    for value in values:
        yield value
        # Never isinstance(): it would call the code of proxies.
        if type(value).__flags__ & _HEAP_TYPE and type not in type(value).__mro__:
            yield from _attributes(value).values()


own_optimizers: Final = OwnOptimizers()

_KNOWN_ATTRIBUTES: Final = frozenset({"state", "param_groups", "defaults", "step", "profile_hook_step"})
_DEEPEST: Final = 6
_MOST_HELD: Final = 20_000
"""Objects of an optimizer that are looked at."""
_PLAIN: Final = (str, bytes, int, float, bool, type(None), type)


def label_attributes(optimizer: Any) -> None:
    """Label tensors that an optimizer has outside of its `state`, in attributes.

    Args:
        optimizer: Of torch's kind, or not.

    Raises:
        Exception: Any error of its objects.
    """
    torch = sys.modules["torch"]
    own = [
        value
        for name, value in _attributes(optimizer).items()
        if name not in _KNOWN_ATTRIBUTES and name[-6:] != "_hooks"
    ]
    found: list[Any] = []
    others: list[Any] = [optimizer] if torch.optim.Optimizer in type(optimizer).__mro__ else []
    for value in _held(own):
        kinds = type(value).__mro__
        if torch.Tensor not in kinds:
            others.append(value)
        elif torch.nn.Parameter not in kinds:
            found.append(value)
    if not found:
        return
    theirs: set[int] = set()
    for one in others:
        for group in one.param_groups:
            for parameter in group["params"]:
                theirs.update(storage_addresses(parameter))
                if parameter.grad is not None:
                    theirs.update(storage_addresses(parameter.grad))
    for tensor in found:
        if theirs.isdisjoint(storage_addresses(tensor)):
            # If a backward pass would add to a tensor, it is a weight: a copy in another precision.
            label_storages(tensor, WEIGHT_TEXT if tensor.is_leaf and tensor.requires_grad else STATE_TEXT)
            if tensor.is_leaf and tensor.grad is not None:
                label_storages(tensor.grad, GRADIENT_TEXT)


def _held(values: list[Any]) -> Iterator[Any]:
    """Yield tensors and optimizers that objects lead to, by containers and attributes, not by objects with modules."""
    torch = sys.modules["torch"]
    seen: dict[int, Any] = {}
    pending = [(value, 0) for value in values]
    while pending and len(seen) < _MOST_HELD:
        value, depth = pending.pop()
        kind = type(value)
        if kind in _PLAIN or id(value) in seen:
            continue
        kinds = kind.__mro__
        if torch.Tensor in kinds or torch.optim.Optimizer in kinds:
            seen[id(value)] = value
            yield value
        elif depth < _DEEPEST and torch.nn.Module not in kinds:
            below = _parts(value, kinds)
            # A trainer, say: what it has is not the optimizer's.
            if below and not any(torch.nn.Module in type(one).__mro__ for one in below):
                seen[id(value)] = value
                pending.extend((one, depth + 1) for one in below)


def _parts(value: Any, kinds: tuple[type, ...]) -> list[Any]:
    """Return the parts of an object, without a call of the program's code."""
    if dict in kinds:
        return list(dict.values(value))
    for container in (list, tuple, set, deque):
        if container in kinds:
            return list(container.__iter__(value))
    return list(_attributes(value).values()) if type(value).__flags__ & _HEAP_TYPE else []


def _attributes(value: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}  # it has slots
    return dict(found) if type(found) is dict else {}


_HEAP_TYPE: Final = 1 << 9
"""Flag of a class that was made by Python code."""
