"""One function of a program, wrapped: what happens around its calls, and how it is given back.

The wrapper is transparent. It has the name, signature and kind (method, coroutine function, generator) of the function.
It passes on every exception, and rests when nobody wants anything of it. If something goes wrong on our side, one line
on stderr says so.
"""

from __future__ import annotations

import functools
import inspect
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from msmemscope import _native
from msmemscope.capture.decorating import run_within
from msmemscope.capture.frameworks.targets import Callback
from msmemscope.capture.frameworks.wrapper_chain import leads_to
from msmemscope.capture.labels import pop_labels, push_labels

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from msmemscope.capture.frameworks.targets import Label, Target

_ABSENT: Any = object()


class NotAFunctionError(Exception):
    """The error for an object in a place that cannot be wrapped; the text says what it is."""


class _Claim(NamedTuple):
    """Who wants what of a place; see `Place.claim`."""

    holder: str
    target: Target
    module: str
    take_snapshot: Callable[[str], None] | None

    def snapshots_of_moments(self) -> Callable[[str], None] | None:
        """Return a call that takes the snapshot of a moment, `Start` or `End`; None if nothing takes any."""
        take = self.take_snapshot
        name = f"{self.module}@{self.target.class_name}@{self.target.function}"
        return None if take is None else lambda moment: take(f"{name}@{moment}")


class Place:
    """An attribute of a module or class that holds a function, with our wrapper in front of it.

    Args:
        owner: The module or class.
        name: The name of the attribute.

    Raises:
        NotAFunctionError: If there is none of that name, or something that is no function.
    """

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name
        self._claims: tuple[_Claim, ...] = ()
        self._is_own = True
        self._raw: Any = None
        self._wrapper: Any = None
        self._attribute: Any = None
        self._complaints: set[str] = set()
        self.labels: tuple[Label, ...] = ()
        self.take_snapshot: Callable[[str], None] | None = None
        self.callbacks: tuple[Callback, ...] = ()
        self.range_name = ""
        self._put()

    def __reduce__(self) -> tuple[Any, ...]:
        # A program may send a class with our wrappers to another process (Ray does): there they rest.
        return (object.__new__, (RestingPlace,))

    def claim(
        self, holder: str, target: Target, module: str, take_snapshot: Callable[[str], None] | None = None
    ) -> None:
        """Do what a target says, as long as its holder wants it.

        Args:
            holder: Who wants it.
            target: The wanted effect on the function.
            module: The name of the module that it was found in, for snapshots.
            take_snapshot: Takes a snapshot; needed where the target wants snapshots.

        Raises:
            ValueError: If the target wants snapshots, and nothing takes them.
        """
        if target.is_snapshot and take_snapshot is None:
            message = f"{target} wants snapshots, and {holder} takes none"
            raise ValueError(message)
        if not self._is_reached():
            self._put()
        claim = _Claim(holder, target, module, take_snapshot)
        if claim not in self._claims:
            self._claims = (*self._claims, claim)
            self._settle()

    def release(self, holder: str) -> bool:
        """Drop the targets of a holder. True if the original is in its place again."""
        self._claims = tuple(claim for claim in self._claims if claim.holder != holder)
        self._settle()
        return not self._claims and self._take_away()

    def _settle(self) -> None:
        targets = [claim.target for claim in self._claims]
        self.labels = tuple(dict.fromkeys(label for target in targets for label in target.labels))
        self.callbacks = tuple(dict.fromkeys(target.callback for target in targets if target.callback is not None))
        first = next((claim for claim in self._claims if claim.target.is_snapshot), None)
        # One attribute: a call on another thread sees all of it or nothing.
        self.take_snapshot = first.snapshots_of_moments() if first else None
        self.range_name = next((target.range_name for target in targets if target.range_name), "")

    def _put(self) -> None:
        _wrapped.pop(id(self._attribute), None)
        raw = vars(self._owner).get(self._name, _ABSENT)
        self._is_own = raw is not _ABSENT
        if not self._is_own:
            raw = self._inherited()
        # A name that was imported from another place of ours: each of the two names stands for itself.
        first = _wrapped.get(id(raw))
        self._raw = raw if first is None else first._raw  # noqa: SLF001 - of the same class
        if isinstance(self._raw, (staticmethod, classmethod)):
            wrapper = self._wrapped(self._raw.__func__)
            self._attribute = type(self._raw)(wrapper)
        elif not callable(self._raw):
            text = f"is of type {type(self._raw).__name__}, no function"
            raise NotAFunctionError(text)
        else:
            wrapper = self._wrapped(self._raw)
            is_bound = not isinstance(self._owner, type) or _becomes_method(self._raw)
            self._attribute = wrapper if is_bound else staticmethod(wrapper)
        self._wrapper = wrapper
        setattr(self._owner, self._name, self._attribute)
        _wrapped[id(self._attribute)] = self

    def _inherited(self) -> Any:
        """The attribute that the class inherits. A plain method is looked up at each call, as others may replace it."""
        if not isinstance(self._owner, type):
            raise NotAFunctionError
        raw = next((vars(base)[self._name] for base in self._owner.__mro__ if self._name in vars(base)), _ABSENT)
        if raw is _ABSENT:
            raise NotAFunctionError
        if not isinstance(raw, FunctionType) or inspect.iscoroutinefunction(raw) or _is_generator(raw):
            return raw
        owner, name = self._owner, self._name

        @functools.wraps(raw)
        def inherited(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(super(owner, self), name)(*args, **kwargs)

        _hide(inherited)
        return inherited

    def _wrapped(self, function: Callable[..., Any]) -> Any:
        with_results = _with_results(self, function)
        with_labels = run_within(functools.partial(_Labels, self), with_results, pauses=True)
        with_range = run_within(functools.partial(_Range, self), with_labels)
        wrapper = run_within(functools.partial(_Snapshots, self), with_range)
        for layer in (with_results, with_labels, with_range, wrapper):
            if layer is not function:
                _hide(layer)
        return wrapper

    def _take_away(self) -> bool:
        if vars(self._owner).get(self._name, _ABSENT) is not self._attribute:
            return False  # somebody wrapped our wrapper: it stays, and rests
        if self._is_own:
            setattr(self._owner, self._name, self._raw)
        else:
            delattr(self._owner, self._name)
        _wrapped.pop(id(self._attribute), None)
        return True

    def _is_reached(self) -> bool:
        """Whether our wrapper is still called; not after a reload, for example."""
        return leads_to(vars(self._owner).get(self._name, _ABSENT), self._wrapper)

    def complain(self, what: str, error: Exception) -> None:
        """Say what went wrong on our side, once for each kind of thing."""
        if what not in self._complaints:
            self._complaints.add(what)
            owner = getattr(self._owner, "__qualname__", getattr(self._owner, "__name__", "?"))
            _native.warn(f"{what} of {owner}.{self._name} failed: {type(error).__name__}: {error}")

    def returned(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run the callbacks on the result of a call. Never raises."""
        for callback in self.callbacks:
            self._call(callback, result, args, kwargs)

    def _call(self, callback: Callback, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            if callback in {Callback.SAVED, Callback.SAVED_BY_COMPILED}:
                from msmemscope.capture.saved_tensors import label_saved_by

                label_saved_by(args[0 if callback is Callback.SAVED else 1])
                return
            if callback is Callback.SAVED_BY_CHECKPOINT:
                from msmemscope.capture.saved_tensors import label_saved_by_checkpoint

                label_saved_by_checkpoint(args[0], args[1:])
                return
            if callback in {Callback.SHARDED_GRADIENTS, Callback.ZERO_GRADIENTS, Callback.ZERO_GRADIENT}:
                from msmemscope.capture.frameworks import gradient_labels

                label = {
                    Callback.SHARDED_GRADIENTS: gradient_labels.label_sharded_gradients,
                    Callback.ZERO_GRADIENTS: gradient_labels.label_gradients_of_zero,
                    Callback.ZERO_GRADIENT: gradient_labels.label_gradient_of_zero,
                }[callback]
                label(result, args, kwargs)
                return
            from msmemscope.capture.frameworks import vllm_labels

            act = vllm_labels.label_weights if callback is Callback.WEIGHTS else vllm_labels.label_kv_cache
            act(result, args, kwargs)
        except Exception as error:  # noqa: BLE001 - the program goes on
            self.complain(f"labels ({callback.value})", error)


class RestingPlace(Place):
    """A place in a process that it was sent to: nobody wants anything of it there."""

    labels = ()
    take_snapshot = None
    callbacks = ()
    range_name = ""


_wrapped: dict[int, Place] = {}
"""By the identity of the attribute that we put there."""


class _Labels:
    """The labels of one call."""

    __slots__ = ("_place", "_pushed")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._pushed: tuple[Label, ...] = ()

    def __enter__(self) -> None:
        labels = self._place.labels
        if labels:
            try:
                push_labels(labels)
                self._pushed = labels
            except Exception as error:  # noqa: BLE001 - the program goes on
                self._place.complain("labels", error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pushed:
            try:
                pop_labels(self._pushed)
            except Exception as problem:  # noqa: BLE001 - the program goes on, with its own exception if it has one
                self._place.complain("labels", problem)


class _Range:
    """The mstx range of one call."""

    __slots__ = ("_number", "_place")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._number = 0

    def __enter__(self) -> None:
        name = self._place.range_name
        if name:
            try:
                self._number = _native.range_start(name)
            except Exception as error:  # noqa: BLE001 - the program goes on
                self._place.complain("ranges", error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._number:
            try:
                _native.range_end(self._number)
            except Exception as problem:  # noqa: BLE001 - the program goes on, with its own exception if it has one
                self._place.complain("ranges", problem)


class _Snapshots:
    """The snapshots before and after one call."""

    __slots__ = ("_place", "_take_snapshot")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._take_snapshot = place.take_snapshot

    def __enter__(self) -> None:
        self._take("Start")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._take("End")

    def _take(self, moment: str) -> None:
        if self._take_snapshot is not None:
            try:
                self._take_snapshot(moment)
            except Exception as error:  # noqa: BLE001 - the program goes on
                self._place.complain("snapshots", error)


def _becomes_method(value: Any) -> bool:
    """Whether an attribute of a class is bound to an instance, as our function in its place is."""
    if isinstance(value, functools.partial):
        # Python 3.13 has a `__get__` that warns of the change of 3.14, and binds nothing.
        return sys.version_info >= (3, 14)
    return hasattr(type(value), "__get__")


def _with_results(place: Place, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a place see what a function returns; a generator has no result of its own."""
    if _is_generator(function):
        return function
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def reporting(*args: Any, **kwargs: Any) -> Any:
            result = await function(*args, **kwargs)
            place.returned(result, args, kwargs)
            return result

    else:

        @functools.wraps(function)
        def reporting(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            place.returned(result, args, kwargs)
            return result

    return reporting


def _is_generator(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _hide(function: Any) -> None:
    """Leave our frames out of the stacks that are recorded."""
    try:
        _native.hide_code((function.__code__,))
    except ValueError as error:
        _native.note_fact("unobserved.framework_hooks", f"our frames show in stacks: {error}")
