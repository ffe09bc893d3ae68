"""Labels for gradients that no parameter of a module has: those of DeepSpeed's ZeRO, and of `fully_shard`."""

from __future__ import annotations

from typing import Any, Final

from msmemscope.capture.module_labels import GRADIENT_TEXT, label_storages, tensors_in

_BUFFERS: Final = ("grads_in_partition", "grad_partitions_flat_buffer", "averaged_gradients", "all_grad_tensors")


def label_gradients_of_zero(_result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    """Label gradients that an optimizer of ZeRO holds: sums over all processes, and the buckets that exchange them.

    Args:
        args: The optimizer is the first.
    """
    held = vars(args[0])
    buckets = [getattr(bucket, "buffer", None) for bucket in held.get("ipg_buckets", {}).values()]
    for tensor in tensors_in([buckets, *(held.get(name) for name in _BUFFERS)]):
        label_storages(tensor, GRADIENT_TEXT)


def label_gradient_of_zero(result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    """Label the gradient of a parameter of ZeRO, which lives only until it is added to the others.

    Args:
        result: The gradient, or nothing.
        args: The parameter is the second.
    """
    parameter = args[1]
    held = vars(parameter).get("grad_accum")
    for tensor in tensors_in((result, parameter.grad, held)):
        label_storages(tensor, GRADIENT_TEXT)


def label_sharded_gradients(_result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    """Label the gradients of whole parameters that `fully_shard` keeps, from micro-batch to micro-batch, for one exchange.

    Args:
        args: The group of parameters is the first.
    """
    for parameter in args[0].fsdp_params:
        whole = vars(parameter).get("_unsharded_param")
        for gradient in (vars(parameter).get("unsharded_accumulated_grad"), whole.grad if whole is not None else None):
            if gradient is not None:
                label_storages(gradient, GRADIENT_TEXT)
