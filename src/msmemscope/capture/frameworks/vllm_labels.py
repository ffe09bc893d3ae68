"""Labels for what vLLM has loaded and allocated: weights and the key-value cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msmemscope.capture.labels import label_tensor
from msmemscope.model.labels import LabelLevel

if TYPE_CHECKING:
    from collections.abc import Iterator

_VLLM = ("vllm", LabelLevel.COMPONENT)
_WEIGHTS = (_VLLM, ("weights", LabelLevel.DETAIL_1))
_DRAFTER = (*_WEIGHTS, ("drafter", LabelLevel.DETAIL_2))
_LORA = (*_WEIGHTS, ("lora", LabelLevel.DETAIL_2))
_KV_CACHE = (_VLLM, ("kv_cache", LabelLevel.DETAIL_1))

# The stacked ones are where vLLM keeps the adapters that are in use.
_LORA_ATTRIBUTES = ("lora_a", "lora_b", "lora_a_stacked", "lora_b_stacked")

_HIDDEN_STATE_SPECS = frozenset({"HiddenStateCacheSpec", "HiddenStateSpec"})
_DEEPEST_NESTING = 8


def label_weights(_result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    """Label the weights of a model runner: of the model, of the drafter of speculative decoding, and of LoRA.

    If several of them share a tensor, the most particular label counts: the one that is given last.

    Args:
        args: The runner is the first; its `model` and `drafter.model` are modules of torch, or stand for one.
    """
    runner = args[0]
    model = getattr(runner, "model", None)
    for tensor in _parameters_and_buffers(model):
        label_tensor(tensor, _WEIGHTS)
    for tensor in _parameters_and_buffers(getattr(getattr(runner, "drafter", None), "model", None)):
        label_tensor(tensor, _DRAFTER)
    for module in _items(model, "modules"):
        for name in _LORA_ATTRIBUTES:
            for tensor in _tensors(getattr(module, name, None)):
                label_tensor(tensor, _LORA)


def label_kv_cache(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Label the tensors of the key-value cache with the kind of the layer that they belong to.

    Args:
        result: Layer name -> tensor, or tuple, list or dict of tensors.
        args: The runner is the first, the configuration of the cache the second.
        kwargs: The configuration may be here, as `kv_cache_config`.
    """
    if not isinstance(result, dict):
        return
    config = args[1] if len(args) > 1 else kwargs.get("kv_cache_config")
    specs = _specs_of_layers(args[0], config)
    for layer, tensors in result.items():
        kind = ((_kind_of_cache(specs[layer]), LabelLevel.DETAIL_2),) if layer in specs else ()
        for tensor in _tensors(tensors):
            label_tensor(tensor, (*_KV_CACHE, *kind))


def _specs_of_layers(runner: Any, config: Any) -> dict[str, Any]:
    """Return the kind of cache of each layer. Newer runners say it. In older ones it follows from the groups."""
    ask = getattr(runner, "_get_layer_kv_cache_specs", None)
    if callable(ask) and config is not None:
        return dict(ask(config))
    specs: dict[str, Any] = {}
    for group in getattr(getattr(runner, "kv_cache_config", config), "kv_cache_groups", ()):
        of_layers = getattr(group.kv_cache_spec, "kv_cache_specs", None)
        for layer in group.layer_names:
            spec = of_layers.get(layer) if isinstance(of_layers, dict) else group.kv_cache_spec
            if spec is not None:
                specs[layer] = spec
    return specs


def _kind_of_cache(spec: Any) -> str:
    name = type(spec).__name__
    if "mamba" in name.lower():
        return "mamba"
    if name in _HIDDEN_STATE_SPECS or "hidden_state" in name.lower():
        return "hidden_state"
    return "attn"


def _parameters_and_buffers(model: Any) -> Iterator[Any]:
    yield from _items(model, "parameters")
    yield from _items(model, "buffers")


def _items(model: Any, method: str) -> Iterator[Any]:
    ask = getattr(model, method, None)
    if callable(ask):
        yield from ask()


def _tensors(value: Any, depth: int = 0) -> Iterator[Any]:
    if hasattr(value, "data_ptr"):
        yield value
    elif depth < _DEEPEST_NESTING and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth + 1)
    elif depth < _DEEPEST_NESTING and isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item, depth + 1)
