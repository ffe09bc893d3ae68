"""Key-value caches of transformers: the tensors that a layer of a cache holds after each update get labels.

In training a cache only passes on activations: tensors that the backward pass is going to read, or that those were
copied from.

Programs compile the method as part of a whole graph. So the tracer of `torch.compile` must be able to follow our
function like the program's own. Where it compiles, our part is left out, and no graph breaks.
"""

from __future__ import annotations

import functools
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.capture.import_hook import whenever_imported
from msmemscope.capture.module_labels import KV_CACHE_TEXT, label_storages, tensors_in
from msmemscope.capture.saved_tensors import ACTIVATION_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.capture.import_hook import EndWatch

_MODULE: Final = "transformers.cache_utils"
_METHODS: Final = ("update", "update_conv_state", "update_recurrent_state", "update_indexer", "update_ssm_state")
_LISTS: Final = ("key_cache", "value_cache", "conv_states", "ssm_states")
"""Where caches before transformers 4.56 hold a tensor for each layer."""


class CacheLabels:
    """The methods of the caches, wrapped while it is on."""

    def __init__(self) -> None:
        self._end_watch: EndWatch | None = None
        self._wrapped: list[tuple[type, str, Any, Any]] = []

    def enable(self) -> None:
        """Wrap them now if the program has transformers already, else as soon as it imports it."""
        if self._end_watch is None:
            self._end_watch = whenever_imported(_MODULE, self._wrap)
            if hasattr(sys.modules.get(_MODULE), "Cache"):
                self._wrap()

    def disable(self) -> None:
        """Put the originals back, where nobody has wrapped them again."""
        if self._end_watch is not None:
            self._end_watch()
            self._end_watch = None
        for owner, name, original, wrapper in self._wrapped:
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)
        self._wrapped.clear()

    def _wrap(self) -> None:
        """Never raises: it may run in the middle of the program's imports."""
        try:
            module = sys.modules[_MODULE]
            for owner in list(vars(module).values()):
                if not (isinstance(owner, type) and issubclass(owner, module.Cache)):
                    continue
                for name in _METHODS:
                    original = vars(owner).get(name)
                    is_ours = any(original is wrapper for *_, wrapper in self._wrapped)
                    if isinstance(original, FunctionType) and not is_ours:
                        wrapper = _labelling(original, sys.modules["torch"].compiler.is_compiling)
                        setattr(owner, name, wrapper)
                        self._wrapped.append((owner, name, original, wrapper))
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever this transformers is like
            _native.note_fact("unobserved.key_value_caches", f"{type(error).__name__}: {error}")


def _labelling(original: FunctionType, is_compiling: Callable[[], bool]) -> Callable[..., Any]:
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if not is_compiling():
            label_cache(self, args, kwargs)
        return result

    # The tracer decides by the file of a function whether it follows it.
    update.__code__ = update.__code__.replace(co_filename=original.__code__.co_filename)
    functools.update_wrapper(update, original)
    _native.hide_code((update.__code__,))
    return update


_has_failed = False


def label_cache(cache: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Label the tensors of the layer that was updated. Never raises.

    Args:
        cache: A cache of transformers.
        args: The arguments of its method. The first int among them is the number of the layer.
        kwargs: The number may be here, as `layer_idx`.
    """
    global _has_failed  # noqa: PLW0603 - one line says it for all caches
    try:
        number = kwargs.get("layer_idx", next((each for each in args if type(each) is int), None))
        if number is None:
            return
        layers = getattr(cache, "layers", None)
        if layers is not None:
            held: Any = vars(layers[number])
        else:
            lists = (getattr(cache, name, ()) for name in _LISTS)
            held = [each[number] for each in lists if number < len(each)]
        for tensor in tensors_in(held):
            label_storages(tensor, ACTIVATION_TEXT if tensor.requires_grad else KV_CACHE_TEXT)
    except Exception as error:  # noqa: BLE001 - the program goes on
        if not _has_failed:
            _has_failed = True
            _native.note_fact("unobserved.key_value_caches", f"{type(error).__name__}: {error}")
