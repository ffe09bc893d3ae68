"""The labels in force in a thread or an asyncio task, and labels of blocks that exist already.

The native core keeps the labels of each thread. They follow from a context variable that is kept here. Tasks of asyncio
share a thread, but each has its own value of a context variable, so each keeps its own labels.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.model.labels import USER_LEVELS, LabelLevel, encode_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Label = tuple[str, LabelLevel]

_in_force: contextvars.ContextVar[tuple[Label, ...]] = contextvars.ContextVar("msmemscope_labels", default=())


class _OfThread(threading.local):
    """The labels that the native core was told for this thread."""

    def __init__(self) -> None:
        self.labels: tuple[Label, ...] = ()
        # Contexts that ran here without our knowing: their labels, and those of the thread around them.
        self.around: list[tuple[tuple[Label, ...], tuple[Label, ...]]] = []


_of_thread = _OfThread()
_texts: dict[tuple[Label, ...], str] = {(): ""}
_MOST_TEXTS = 4096
_follows_tasks = False


def push_labels(labels: Sequence[Label]) -> None:
    """Put labels in force for all that the calling thread or task allocates, until `pop_labels` takes them back.

    Args:
        labels: Each with its level. Of two on one level the later one counts. All levels of the user are one: up to
            three different labels of it count, in the order in which they were pushed.
    """
    before = _in_force.get()
    if _of_thread.labels != before:
        # A copied context that runs in another thread: what was in force in the thread comes back at the end.
        _of_thread.around.append((before, _of_thread.labels))
    _put_in_force((*before, *labels))


def pop_labels(labels: Sequence[Label]) -> bool:
    """Take labels back, of equal ones the innermost. False if one of them was not in force."""
    remaining = list(_in_force.get())
    found = True
    for label in reversed(labels):
        for place in range(len(remaining) - 1, -1, -1):
            if remaining[place] == label:
                del remaining[place]
                break
        else:
            found = False
    left = tuple(remaining)
    if _of_thread.around and _of_thread.around[-1][0] == left:
        _in_force.set(left)
        _set_native_labels(_of_thread.around.pop()[1])
    else:
        _put_in_force(left)
    return found


def user_labels_in_force() -> tuple[str, ...]:
    """The different labels of the user that are in force, the outermost first; more of them than count, if there are."""
    return tuple(dict.fromkeys(label for label, level in _in_force.get() if level in USER_LEVELS))


def label_tensor(tensor: Any, labels: Sequence[Label]) -> bool:
    """Label the block that a tensor lies in. False if it has none, or none that is followed.

    Args:
        tensor: A torch tensor; of a DTensor, the local part is meant.
        labels: Each with its level. They replace the labels of the block on these levels. Labels of the user are added.
    """
    address = _storage_address(getattr(tensor, "_local_tensor", tensor))
    return address != 0 and label_address(address, labels)


def label_address(address: int, labels: Sequence[Label]) -> bool:
    """Label the block that contains an address. False if none is followed there."""
    return _native.label_block(address, encode_labels(labels))


def storage_addresses(tensor: Any, depth: int = 0) -> list[int]:
    """Return where a tensor's storages begin: its own, or those of the tensors that it wraps; none without memory."""
    inner = getattr(type(tensor), "__tensor_flatten__", None)
    if inner is None or depth >= _DEEPEST_WRAPPER:
        address = _storage_address(getattr(tensor, "_local_tensor", tensor))
        return [address] if address else []
    names, _ = inner(tensor)
    return [address for name in names for address in storage_addresses(getattr(tensor, name), depth + 1)]


_DEEPEST_WRAPPER = 4


def _storage_address(tensor: Any) -> int:
    torch = sys.modules["torch"]
    # In spite of its name, this is where the storage begins; it materialises nothing, as data_ptr() could.
    read = getattr(torch._C, "_data_address", None)  # noqa: SLF001 - no public name
    try:
        return int(read(tensor) if read is not None else tensor.untyped_storage().data_ptr())
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return 0  # sparse, fake, meta or not yet initialised: there is no memory


def _put_in_force(labels: tuple[Label, ...]) -> None:
    _in_force.set(labels)
    _set_native_labels(labels)
    if not _follows_tasks:
        _follow_tasks_of_a_running_loop()


def _set_native_labels(labels: tuple[Label, ...]) -> None:
    _of_thread.labels = labels
    _native.set_thread_labels(_text_of(labels))


def _text_of(labels: tuple[Label, ...]) -> str:
    text = _texts.get(labels)
    if text is None:
        text = encode_labels(_with_places(labels))
        if len(_texts) < _MOST_TEXTS:
            _texts[labels] = text
    return text


def _with_places(labels: tuple[Label, ...]) -> Iterator[Label]:
    """The labels that count, those of the user on their levels."""
    yield from {level: (label, level) for label, level in labels if level not in USER_LEVELS}.values()
    users = dict.fromkeys(label for label, level in labels if level in USER_LEVELS)
    yield from zip(users, USER_LEVELS, strict=False)


def _follow_tasks_of_a_running_loop() -> None:
    """Let labels change with the task, once labels are used where an event loop runs.

    Every step of a task is a handle of the loop, run in the context of the task. A wrapper around it tells the native
    core which labels are in force there. When the step is over, it tells the core which labels are in force then.
    """
    global _follows_tasks  # noqa: PLW0603 - there is one asyncio
    events = sys.modules.get("asyncio.events")
    if events is None or events._get_running_loop() is None:  # noqa: SLF001 - does not raise where there is none
        return
    _follows_tasks = True
    original = events.Handle._run  # noqa: SLF001 - no public name

    def _run(handle: Any) -> Any:
        _set_native_labels(handle._context.get(_in_force, ()))  # noqa: SLF001
        try:
            return original(handle)
        finally:
            _set_native_labels(_in_force.get())

    events.Handle._run = _run  # noqa: SLF001
