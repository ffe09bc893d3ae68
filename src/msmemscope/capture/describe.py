"""`describer`: the user's own labels, on what a piece of code allocates or on memory that exists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msmemscope import _native
from msmemscope.capture.decorating import run_within
from msmemscope.capture.labels import label_address, label_tensor, pop_labels, push_labels, user_labels_in_force
from msmemscope.errors import ConfigurationError
from msmemscope.model.labels import USER_LABELS_FACT, USER_LEVELS, LabelLevel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from typing_extensions import Self

_Function = TypeVar("_Function", bound="Callable[..., Any]")

LONGEST_LABEL_BYTES = 128
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOTHING: Any = object()
_reported: set[str] = set()
_is_noted: list[bool] = []


class LabelledCode:
    """The result of `describer(owner=...)`: a context manager and a decorator."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __repr__(self) -> str:
        return f"describer(owner={self._label!r})"

    def __enter__(self) -> Self:
        """Label what this thread, or this task, allocates from now on."""
        others = user_labels_in_force()
        push_labels([(self._label, LabelLevel.USER_1)])
        if self._label not in others and len(others) >= len(USER_LEVELS):
            in_force = ", ".join(others[: len(USER_LEVELS)])
            _warn_once(
                f"describer: label {self._label!r} is left out, because {len(USER_LEVELS)} labels can be nested and "
                f"these are in force: {in_force}"
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """End the innermost label of this name; exceptions go their way."""
        if not pop_labels([(self._label, LabelLevel.USER_1)]):
            _warn_once(f"describer: label {self._label!r} is ended where it was not in force; nothing happens")

    def __call__(self, function: _Function) -> _Function:
        """Label what a function allocates, a coroutine function or generator too."""
        return run_within(lambda: LabelledCode(self._label), function, pauses=True)


@overload
def describer(*, owner: str) -> LabelledCode: ...
@overload
def describer(target: Any, *, owner: str) -> None: ...
def describer(target: Any = _NOTHING, *, owner: str) -> LabelledCode | None:
    """Give memory a label of your own, which shows in the owner of its blocks.

    Three ways::

        @describer(owner="attention")      # all that a function allocates
        def attend(query, key): ...

        with describer(owner="prefill"):   # all that a piece of code allocates; also __enter__() and __exit__()
            output = model(prompt)

        describer(cache, owner="cache")    # a tensor that exists

    Up to three different labels can be nested. A thread and an asyncio task have labels of their own. If you give a
    label to memory that exists, it is added to the labels of that memory, up to three.

    Args:
        target: A tensor, an address (int), a module (its parameters and buffers), or a list, tuple or dict of those.
        owner: The label: at most 128 bytes. Control characters are written as escapes.

    Raises:
        TypeError: If the owner is no string, or the target nothing that has memory.
        ConfigurationError: If the owner is empty or too long; it is a ValueError.
    """
    label = _checked(owner)
    _note_labels()
    if target is _NOTHING:
        return LabelledCode(label)
    pairs = [(label, LabelLevel.USER_1)]
    found = [
        label_address(place, pairs) if isinstance(place, int) else label_tensor(place, pairs)
        for place in _places(target)
    ]
    if not all(found):
        _warn_once(
            f"describer: label {label!r} was given to memory that is not followed (another device than --device names, "
            "or no block of an allocator)"
        )
    return None


def _note_labels() -> None:
    """Say once, for results without owners, that there are labels."""
    if not _is_noted:
        _is_noted.append(True)
        _native.note_fact(USER_LABELS_FACT, "describer")


def _checked(owner: object) -> str:
    if not isinstance(owner, str):
        message = f"owner must be a string, not {type(owner).__name__}: {owner!r}"
        raise TypeError(message)
    accepted = f"1 to {LONGEST_LABEL_BYTES} bytes"
    length = len(owner.encode("utf-8", "surrogatepass"))
    if not owner or length > LONGEST_LABEL_BYTES:
        message = "too long for a label" if owner else "an empty label"
        raise ConfigurationError(message, option="owner", value=owner[:40], accepted=accepted)
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), owner)


def _places(target: Any) -> Iterator[Any]:
    """The addresses and tensors that a target stands for."""
    if isinstance(target, (list, tuple)):
        for item in target:
            yield from _places(item)
    elif isinstance(target, dict):
        for item in target.values():
            yield from _places(item)
    elif hasattr(target, "data_ptr") or (isinstance(target, int) and not isinstance(target, bool)):
        yield target
    elif callable(getattr(target, "parameters", None)) and callable(getattr(target, "buffers", None)):
        yield from target.parameters()
        yield from target.buffers()
    else:
        message = (
            f"cannot describe {type(target).__name__}: {target!r:.80} "
            "(accepted: a tensor, an address as int, a module, or a list, tuple or dict of those)"
        )
        raise TypeError(message)


def _warn_once(text: str) -> None:
    if text not in _reported:
        _reported.add(text)
        _native.warn(text)
