"""The effects of an operator on its arguments, read once from its schema.

The rules are those of the dump format: arguments that are written, views, and factories that only look at shape and
dtype. An output that is fresh has been written by the operator, unless it is left uninitialised.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import torch

_RUNNING_STATISTICS = ("running_mean", "running_var")
_UNDECLARED_WRITES = {
    "native_batch_norm": _RUNNING_STATISTICS,
    "cudnn_batch_norm": _RUNNING_STATISTICS,
    "miopen_batch_norm": _RUNNING_STATISTICS,
    "_batch_norm_impl_index": _RUNNING_STATISTICS,
    "batch_norm": _RUNNING_STATISTICS,
    "batch_norm_gather_stats": _RUNNING_STATISTICS,
    "batch_norm_gather_stats_with_counts": _RUNNING_STATISTICS,
    "rrelu_with_noise": ("noise",),
}
"""Operators of torch that write arguments without saying so in their schema."""

AUTOCAST_KEYS = ("AutocastCPU", "AutocastPrivateUse1")
"""Names of torch, for the CPU and for NPUs."""

_COMMUNICATION_NAMESPACES = frozenset({"c10d", "_c10d_functional", "_c10d_functional_autograd"})
"""Their operators write tensors from other threads, and their schemas do not say which."""


class Use(enum.IntEnum):
    """The uses of an argument or result by an operator; the native collector has the same numbers."""

    NONE = 0
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class OperatorFacts:
    """The plan for every call of one operator."""

    name: str
    """As dumps show it: `torch._ops.aten.add.Tensor`."""
    inputs: tuple[Use, ...]
    """By position."""
    keyword_inputs: dict[str, Use]
    """By name, for every argument: any can be passed by name."""
    outputs: tuple[Use, ...]
    """By position of the schema's returns."""
    written_positions: tuple[int, ...]
    """Arguments that it may write, also those that the schema does not mark as written."""
    written_names: tuple[str, ...]
    """The same by name."""
    writes_later: bool
    """Whether they are still written after it has returned: communication."""
    counts_within: bool
    """Whether torch goes on counting writes in place within the operator too.

    Most operators have a kernel in front that counts for the operator as a whole; this is false for them.
    """
    differentiates_within: bool
    """Whether gradients go through what the operator runs: nobody has told torch of a derivative of its own."""
    casts_within: bool
    """Whether autocast changes what such an operator runs: nobody has told torch how it is to be cast as a whole."""


def operator_facts(operator: Any) -> OperatorFacts:
    """Read the facts of a torch `OpOverload`.

    Args:
        operator: The `func` that a dispatch mode gets; must have a schema.
    """
    schema = operator._schema  # noqa: SLF001 - torch has no public name for it
    base_name = schema.name.partition("::")[2]
    looks_only = base_name.endswith("_like") or base_name.startswith("new_")
    leaves_uninitialised = base_name.startswith(("empty", "new_empty", "_empty"))
    uses = {argument.name: _input_use(argument, looks_only=looks_only) for argument in schema.arguments}
    inputs = tuple(uses[argument.name] for argument in schema.arguments if not argument.kwarg_only)
    outputs = tuple(_output_use(result, leaves_uninitialised=leaves_uninitialised) for result in schema.returns)
    is_communication = schema.name.partition("::")[0] in _COMMUNICATION_NAMESPACES
    undeclared = _UNDECLARED_WRITES.get(base_name, ())
    written = [
        argument.name
        for argument in schema.arguments
        if uses[argument.name] is Use.WRITE or argument.name in undeclared or is_communication
    ]
    takes_tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
    is_bare = not (takes_tensors and _has_kernel(schema, "Autograd"))
    return OperatorFacts(
        name=f"{operator.__module__}.{operator.__name__}",
        inputs=inputs,
        keyword_inputs=uses,
        outputs=outputs,
        written_positions=tuple(place for place, argument in enumerate(schema.arguments) if argument.name in written),
        written_names=tuple(written),
        writes_later=is_communication,
        counts_within=is_bare or (_is_guarded_less(schema) and not _has_kernel(schema, "ADInplaceOrView")),
        differentiates_within=is_bare,
        casts_within=is_bare and not any(_has_kernel(schema, key) for key in AUTOCAST_KEYS),
    )


def _is_guarded_less(schema: Any) -> bool:
    """Whether torch's kernel for gradients, in front of an operator, keeps gradients out of it and no more.

    That holds if Python has defined the operator. It also holds if the operator writes in place, or into tensors that
    it is given. It does not hold if the operator has results of its own and writes something else beside that.
    """
    if schema.name in getattr(getattr(torch._library, "custom_ops", None), "OPDEFS", ()):  # noqa: SLF001 - no public name
        return True
    written = [
        argument for argument in schema.arguments if argument.alias_info is not None and argument.alias_info.is_write
    ]
    base_name = schema.name.partition("::")[2]
    is_in_place = base_name.endswith("_") and not base_name.endswith("__")
    return bool(written) and (is_in_place or all(argument.kwarg_only for argument in written))


def _has_kernel(schema: Any, key: str) -> bool:
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    has: bool = torch._C._dispatch_has_kernel_for_dispatch_key(name, key)  # noqa: SLF001 - no public name
    return has


def _input_use(argument: Any, *, looks_only: bool) -> Use:
    if argument.alias_info is not None:
        # Aliased without being written: the result is a view of it.
        return Use.WRITE if argument.alias_info.is_write else Use.NONE
    return Use.NONE if looks_only else Use.READ


def _output_use(result: Any, *, leaves_uninitialised: bool) -> Use:
    if result.alias_info is not None:
        return Use.WRITE if result.alias_info.is_write else Use.NONE
    return Use.NONE if leaves_uninitialised else Use.WRITE
