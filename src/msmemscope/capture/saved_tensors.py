"""Labels for tensors that graphs of autograd hold, as activations: only where an allocation failed in a forward pass.

Elsewhere activations are known from the backward pass that reads them. Here there will be none. Nothing is unpacked,
because the program's own hooks could run then. The tensors that a graph has saved are read as they lie there.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.capture.module_labels import label_storages, tensors_in
from msmemscope.model.labels import MODEL_ACTIVATION, LabelLevel, encode_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTIVATION_TEXT: Final = encode_labels([(MODEL_ACTIVATION, LabelLevel.DETAIL_1)])
_SAVED: Final = "_raw_saved_"
_MOST_NODES: Final = 200_000
"""Nodes of graphs that are looked at: a second or two."""


def label_saved_tensors() -> None:
    """Label what all graphs have saved that a tensor of Python leads to.

    Raises:
        Exception: Any error of this torch.
    """
    tensor_class = sys.modules["torch"].Tensor
    read = tensor_class.grad_fn.__get__  # never the attribute of a subclass, which may be the program's code
    roots = [
        node for thing in gc.get_objects() if tensor_class in type(thing).__mro__ and (node := read(thing)) is not None
    ]
    for tensor in _inputs_saved_by_running_operators():
        label_storages(tensor, ACTIVATION_TEXT)
    for node in _nodes(roots):
        for tensor in _saved_by(node):
            label_storages(tensor, ACTIVATION_TEXT)


def _inputs_saved_by_running_operators() -> Iterator[Any]:
    """Yield the inputs that a running operator has saved: nothing in Python leads to its node yet."""
    if not sys.modules["torch"].is_grad_enabled():
        return
    for operator, inputs in _native.running_operators():
        has_graph = any(tensor.requires_grad for tensor in tensors_in(inputs))
        names = _names_saved_by(operator) if has_graph else set()
        for argument, value in zip(operator._schema.arguments, inputs, strict=False):  # noqa: SLF001 - no public name
            if argument.name in names:
                yield from tensors_in(value)


def _names_saved_by(operator: Any) -> set[str]:
    """The names of the arguments that some overload of an operator saves; nodes are called like it."""
    words = operator._schema.name.partition("::")[2].split("_")  # noqa: SLF001 - no public name
    name = "".join(word[:1].upper() + word[1:] for word in words)
    functions = sys.modules["torch"]._C._functions  # noqa: SLF001 - no public name
    kinds = [getattr(functions, f"{name}Backward{number}", None) for number in range(_MOST_OVERLOADS)]
    attributes = [attribute for kind in kinds if kind is not None for attribute in dir(kind)]
    return {attribute.removeprefix(_SAVED) for attribute in attributes if attribute.startswith(_SAVED)}


_MOST_OVERLOADS: Final = 8


def label_saved_by(context: Any) -> None:
    """Label the tensors that an autograd function written in Python has saved for its backward pass.

    Args:
        context: The `ctx` of its forward.
    """
    for saved in (getattr(context, "to_save", None), vars(context).get("_tensors_no_vc_check")):
        for tensor in tensors_in(saved):
            label_saved_tensor(tensor)


def label_saved_by_checkpoint(frame: Any, inputs: tuple[Any, ...]) -> None:
    """Label what a checkpoint without reentrance keeps to run its function again, whether that will read it or not.

    Args:
        frame: Of the checkpoint.
        inputs: The inputs that the frame was given to keep: the named arguments of the function, and the others.
    """
    for tensor in (*tensors_in(inputs), *_held_by_frame(frame)):
        label_saved_tensor(tensor)


def label_saved_tensor(tensor: Any) -> None:
    """Label a tensor that was saved. A parameter keeps its label, so that the log gets no entry in each step."""
    if not (tensor.is_leaf and (tensor.requires_grad or _is_parameter(tensor))):
        label_storages(tensor, ACTIVATION_TEXT)


def _is_parameter(tensor: Any) -> bool:
    return sys.modules["torch"].nn.Parameter in type(tensor).__mro__


def _nodes(roots: list[Any]) -> Iterator[Any]:
    """The nodes of graphs, each once."""
    # Nodes are made anew for Python each time: kept, so that an identity stays one.
    seen = dict.fromkeys(roots)
    remaining = list(seen)
    while remaining and len(seen) < _MOST_NODES:
        node = remaining.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen[following] = None
                remaining.append(following)


_names_of_kind: dict[type, tuple[str, ...]] = {}


def _saved_by(node: Any) -> Iterator[Any]:
    kind = type(node)
    names = _names_of_kind.get(kind)
    if names is None:
        names = _names_of_kind[kind] = tuple(name for name in dir(kind) if name.startswith(_SAVED))
    for name in names:
        try:
            saved = getattr(node, name)
        except RuntimeError:
            continue  # freed by a backward pass
        for each in saved if isinstance(saved, (list, tuple)) else (saved,):
            yield from _held(each)
    # A function in Python may keep tensors as attributes of its own.
    yield from tensors_in(getattr(node, "__dict__", None))


def _held(saved: Any) -> Iterator[Any]:
    try:
        data = getattr(saved, "data", None)
    except RuntimeError:
        return
    yield from tensors_in(data)
    hook = getattr(saved, "unpack_hook", None)
    yield from _inputs_of_checkpoint(hook)


def _inputs_of_checkpoint(hook: Any) -> Iterator[Any]:
    """Yield the inputs that a checkpoint without reentrance keeps, to run its function again."""
    for frame in _held_by_closure(hook):
        for kept in getattr(frame, "saved_args", ()):
            yield from _held(kept)
            yield from tensors_in(kept)
        yield from _held_by_frame(frame)


def _held_by_frame(frame: Any) -> Iterator[Any]:
    for held in _held_by_closure(getattr(frame, "recompute_fn", None)):
        yield from tensors_in(held)
        if type(held) is functools.partial:
            yield from tensors_in((held.args, held.keywords))


def _held_by_closure(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield cell.cell_contents
