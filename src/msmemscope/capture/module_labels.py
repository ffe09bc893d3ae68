"""Parameters and buffers of live modules, labelled as weights with the name of their module; their gradients too.

A module is known from the moment on at which something is registered in it, by a weak reference. Modules are walked
through now and then:

- after some operators;
- at the end of steps;
- after an optimizer's step;
- where an allocation failed;
- where collection ends.

Labels that are given to a block count for its whole life, so one look at it is enough. The cost of the walks bounds how
often they happen.
"""

from __future__ import annotations

import gc
import re
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.capture.labels import storage_addresses
from msmemscope.model.labels import KV_CACHE, MODEL_GRADIENT, MODEL_WEIGHT, LabelLevel, encode_labels, module_label

if TYPE_CHECKING:
    from collections.abc import Iterator

WEIGHT_TEXT: Final = encode_labels([(MODEL_WEIGHT, LabelLevel.DETAIL_1)])
GRADIENT_TEXT: Final = encode_labels([(MODEL_GRADIENT, LabelLevel.DETAIL_1)])
KV_CACHE_TEXT: Final = encode_labels([(KV_CACHE, LabelLevel.DETAIL_1)])

_REST: Final = 50
"""Looks take at most one part in this many of the time,"""
_REST_WHEN_NEW: Final = 10
"""or in this many, while modules are new: a model is built, moved to its device, and used."""
_EASE: Final = 8
_LONGEST_EASE_S: Final = 10.0
"""Where no module changes any more, the time between looks grows by one part in `_EASE` of the time since then, up to this."""
_FIRST_OPERATORS: Final = 8
_LAST_OPERATORS: Final = 4096
"""While modules are new there is a look after so many operators, then after twice as many, and so on."""
_MOST_LOOKS_WITHOUT_REST: Final = 8
"""Where steps end, new modules are looked at so often without a rest before: short programs end before a rest does."""
_OPERATORS_BETWEEN: Final = 16
"""Operators between two questions whether a look is due."""
_LONGEST_PATH: Final = 126
"""A label has at most 128 bytes; of longer paths the beginning is left out."""
_CACHE_NAME: Final = re.compile(r"(^|_)(k|v|kv|key|value)_?caches?$|(^|_)cache_?(k|v|kv|key|value)s?$|^past_key")
"""Names of buffers and attributes of modules that hold a key-value cache."""
_WRAPPED_NAMES: Final = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Names under which modules that only stand for another one hold it; paths leave them out."""


class ModuleLabels:
    """The modules of this process, and when they were looked at."""

    def __init__(self) -> None:
        self.is_on = False
        self._modules: dict[int, weakref.ref[Any]] = {}
        self._hooks: list[Any] = []
        self._original_setstate: Any = None
        self._texts: dict[str, str] = {}
        self._text_of_parameter: dict[int, str] = {}
        self._names: dict[str, bool] = {}
        self._changed_s = 0.0
        self._looked_s = float("-inf")
        self._cost_s = 0.0
        self._operators = 0
        self._next_operators = _FIRST_OPERATORS
        self._looks_without_rest = 0
        self._has_failed = False

    def enable(self) -> None:
        """Know modules from now on. Torch must be imported already.

        Raises:
            Exception: This torch has no such hooks.
        """
        if self.is_on:
            return
        module = sys.modules["torch.nn.modules.module"]
        for register in (
            module.register_module_parameter_registration_hook,
            module.register_module_buffer_registration_hook,
            module.register_module_module_registration_hook,
        ):
            self._hooks.append(register(self._registered))
        self._watch_copies(module.Module)
        self.is_on = True
        _native.set_operator_visitor(self.operators_ran)

    def disable(self) -> None:
        """Look once more, then know no more of them."""
        if not self.is_on:
            return
        self.look()
        self.is_on = False
        _native.set_operator_visitor(None)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        module_class = sys.modules["torch.nn.modules.module"].Module
        if vars(module_class).get("__setstate__") is self._setstate:
            module_class.__setstate__ = self._original_setstate
        self._modules.clear()
        self._text_of_parameter.clear()

    def _watch_copies(self, module_class: Any) -> None:
        """Copies and unpickled modules register nothing: they get their state as a whole."""
        original = self._original_setstate = module_class.__setstate__
        labels = self

        def __setstate__(self: Any, state: Any) -> None:  # noqa: N807 - takes its place
            original(self, state)
            if labels.is_on:
                labels._add(self)

        __setstate__.__wrapped__ = original  # type: ignore[attr-defined] # as functools.wraps, which changes no more
        self._setstate = module_class.__setstate__ = __setstate__

    def _registered(self, module: Any, _name: str, _value: Any) -> None:
        """Follow a module when torch registers something in it. Returns nothing: torch would register that instead."""
        if id(module) not in self._modules:
            self._add(module)

    def _add(self, module: Any) -> None:
        number = id(module)
        modules = self._modules
        try:
            modules[number] = weakref.ref(module, lambda _: modules.pop(number, None))
        except TypeError:
            return  # a class without weak references: not known, as before
        self._changed_s = time.perf_counter()
        self._operators = 0
        self._next_operators = _FIRST_OPERATORS

    def find_all(self) -> None:
        """Know modules that were made before, or in a way that registers nothing. Walks through all objects of Python."""
        base = sys.modules["torch.nn.modules.module"].Module
        kinds = {base}
        remaining = [base]
        while remaining:
            for kind in type.__subclasses__(remaining.pop()):
                if kind not in kinds:
                    kinds.add(kind)
                    remaining.append(kind)
        # Never isinstance(): it would call the code of proxies.
        for thing in gc.get_objects():
            if type(thing) in kinds and id(thing) not in self._modules:
                self._add(thing)

    def operators_ran(self) -> int:
        """Look at all modules, if that is due after operators.

        Returns:
            After how many operators to ask again.
        """
        self._operators += _OPERATORS_BETWEEN
        if self._operators >= self._next_operators <= _LAST_OPERATORS:
            if time.perf_counter() - self._looked_s >= self._cost_s * _REST_WHEN_NEW:
                self._next_operators *= 2
                self.look()
        else:
            self.look_if_due()
        return _OPERATORS_BETWEEN

    def step_ends(self) -> None:
        """Look at all modules, if there are new ones and that did not happen too often, or if a look is due."""
        if self._changed_s > self._looked_s and self._looks_without_rest < _MOST_LOOKS_WITHOUT_REST:
            self._looks_without_rest += 1
            self.look()
        else:
            self.look_if_due()

    def look_if_due(self) -> None:
        """Look at all modules, if there are new ones, or if it costs little beside the time since the last look."""
        now = time.perf_counter()
        if self._changed_s > self._looked_s:
            due = self._cost_s * _REST_WHEN_NEW
        else:
            due = max(self._cost_s * _REST, min((now - self._changed_s) / _EASE, _LONGEST_EASE_S))
        if now - self._looked_s >= due:
            self.look()

    def look(self) -> None:
        """Label what the modules hold now. Never raises."""
        if not self._modules:
            return
        began = time.thread_time()  # of this thread only: a machine may be busy with other things
        try:
            self._label_all()
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever its modules are like
            if not self._has_failed:
                self._has_failed = True
                _native.note_fact("unobserved.modules", f"{type(error).__name__}: {error}")
        self._looked_s = time.perf_counter()
        self._cost_s = time.thread_time() - began

    def text_of(self, parameter: Any) -> str:
        """The labels of a parameter that some module holds, or may hold."""
        return self._text_of_parameter.get(id(parameter), WEIGHT_TEXT)

    def _label_all(self) -> None:
        modules = [module for reference in list(self._modules.values()) if (module := reference()) is not None]
        children = {id(child) for module in modules for child in list(vars(module).get("_modules", {}).values())}
        self._text_of_parameter = {}
        seen: set[int] = set()
        for module in modules:
            if id(module) not in children:
                self._label_tree(module, "", seen)
        for module in modules:  # parts of modules that are not known, or of each other
            if id(module) not in seen:
                self._label_tree(module, "", seen)

    def _label_tree(self, root: Any, path: str, seen: set[int]) -> None:
        remaining = [(root, path)]
        while remaining:
            module, path = remaining.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            attributes = vars(module)
            children = list(attributes.get("_modules", {}).items())
            holds = self._label_module(attributes, path or type(module).__name__)
            is_wrapper = not path and not holds and len(children) == 1 and children[0][0] in _WRAPPED_NAMES
            for name, child in reversed(children):
                if child is None:
                    continue
                if is_wrapper:
                    below = ""
                elif name in _WRAPPED_NAMES:
                    below = path or type(module).__name__
                else:
                    below = f"{path or type(module).__name__}.{name}"
                remaining.append((child, below))

    def _label_module(self, attributes: dict[str, Any], path: str) -> bool:
        """Label what one module holds itself. False if that is nothing."""
        weight = self._weight_text(path)
        parameters = list(attributes.get("_parameters", {}).values())
        buffers = list(attributes.get("_buffers", {}).items())
        for parameter in parameters:
            if parameter is None:
                continue
            self._text_of_parameter[id(parameter)] = weight
            label_storages(parameter, weight)
            # Of a result of operators, torch warns where its gradient is asked for.
            if parameter.is_leaf and parameter.grad is not None:
                label_storages(parameter.grad, GRADIENT_TEXT)
            part = vars(parameter).get("ds_tensor")  # what DeepSpeed leaves of a parameter that is not gathered
            if part is not None:
                label_storages(part, weight)
            main_grad = vars(parameter).get("main_grad")  # where Megatron adds gradients up
            if main_grad is not None:
                label_storages(main_grad, GRADIENT_TEXT)
        for name, buffer in buffers:
            if buffer is not None:
                label_storages(buffer, KV_CACHE_TEXT if self._is_cache(name) else weight)
        for name, value in list(attributes.items()):
            if self._is_cache(name):
                for tensor in tensors_in(value):
                    label_storages(tensor, KV_CACHE_TEXT)
        return bool(parameters or buffers)

    def _weight_text(self, path: str) -> str:
        text = self._texts.get(path)
        if text is None:
            shown = "".join(letter if letter.isprintable() and letter not in '@,:{}"\\' else "_" for letter in path)
            shown = shown.encode(errors="replace")[-_LONGEST_PATH:].decode(errors="ignore")
            labels = [(MODEL_WEIGHT, LabelLevel.DETAIL_1), (module_label(shown), LabelLevel.DETAIL_2)]
            text = self._texts[path] = encode_labels(labels)
        return text

    def _is_cache(self, name: str) -> bool:
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = _CACHE_NAME.search(name) is not None
        return known


def label_storages(tensor: Any, text: str) -> None:
    """Label the blocks that a tensor lies in; of a subclass that wraps tensors, all of them."""
    for address in storage_addresses(tensor):
        _native.label_block(address, text)


def tensors_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors in nested containers."""
    if hasattr(type(value), "data_ptr"):
        yield value
    elif depth < _DEEPEST and isinstance(value, dict):
        for item in list(value.values()):
            yield from tensors_in(item, depth + 1)
    elif depth < _DEEPEST and isinstance(value, (list, tuple)):
        for item in list(value):
            yield from tensors_in(item, depth + 1)


_DEEPEST: Final = 4

module_labels: Final = ModuleLabels()
