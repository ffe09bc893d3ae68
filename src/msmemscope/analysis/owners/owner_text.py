"""Owners in words: the known facts of a block become one text."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msmemscope.model.devices import DEVICE_CPU, NOT_AVAILABLE
from msmemscope.model.labels import (
    KV_CACHE,
    MODEL_ACTIVATION,
    MODEL_GRADIENT,
    OPS_ATEN,
    PROGRAM,
    WORKSPACE,
    LabelLevel,
    is_of_model,
)
from msmemscope.model.owners import PINNED_HOST, SEPARATOR, UNKNOWN_MODULE, driver_owner
from msmemscope.model.pools import POOL_WORDS, TENSOR_POOLS, Pool, is_pinned_memory

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class OwnerTraits:
    """The known facts of a block beside its labels."""

    is_pinned: bool
    """It says so itself, as older recordings do; newer ones have a pool of pinned memory."""
    is_activation: bool
    is_gradient: bool
    """A backward pass made it, and a later operator used it."""
    is_cache: bool
    """Keys or values that grow from token to token, and attention reads them."""
    is_workspace: bool
    """A library keeps it to work in."""
    is_of_program: bool
    """It was alive when a step ended."""
    is_of_operator: bool
    """An operator allocated or used it."""


def owner_text(
    labels: Mapping[LabelLevel, str], *, pool: int, device: int, module: str | None, traits: OwnerTraits
) -> str:
    """Put the owner of a block into words.

    Args:
        labels: Of the block; none of them empty.
        pool: `model.pools`.
        device: `model.devices`.
        module: Who asked the driver for it; None if it says nothing.
        traits: The other known facts.
    """
    if traits.is_activation and labels.get(LabelLevel.DETAIL_1) == KV_CACHE:
        # In training, keys and values are on their way to the backward pass, whatever passes them on.
        labels = {level: text for level, text in labels.items() if level != LabelLevel.DETAIL_1}
    of_tools = [text for level, text in labels.items() if level < LabelLevel.USER_1]
    # The part of the model stands first, as MindStudio Insight has it.
    of_tools.sort(key=lambda text: not is_of_model(text))
    of_user = [text for level, text in labels.items() if level >= LabelLevel.USER_1]
    # CPU tensors and pinned memory of the host share a pool in older recordings.
    is_host = pool == Pool.HOST and device == DEVICE_CPU
    is_pinned = is_pinned_memory(pool, device) or (is_host and traits.is_pinned)
    allocator = PINNED_HOST if is_pinned else _allocator(pool, device, module)
    is_tensor = pool in TENSOR_POOLS and not is_pinned
    names_kind = LabelLevel.DETAIL_1 in labels or LabelLevel.DETAIL_2 in labels
    if is_tensor and not names_kind and traits.is_activation:
        # Of a phase of a framework, the purpose stands in front; the phase says no more then.
        of_tools = [MODEL_ACTIVATION, *filter(None, [labels.get(LabelLevel.COMPONENT)])]
    elif is_tensor and not of_tools and traits.is_gradient:
        of_tools = [MODEL_GRADIENT]
    elif is_tensor and not of_tools and traits.is_cache:
        of_tools = [KV_CACHE]
    elif is_tensor and not of_tools and traits.is_workspace:
        of_tools = [WORKSPACE]
    elif is_tensor and not of_tools and traits.is_of_program:
        of_tools = [PROGRAM]
    elif is_tensor and not of_tools and traits.is_of_operator:
        of_tools = [OPS_ATEN]
    return SEPARATOR.join([allocator, *of_tools, *of_user])


def _allocator(pool: int, device: int, module: str | None) -> str:
    """Return the beginning of the owner of memory that is not pinned."""
    if module is not None or pool == Pool.HAL:
        return driver_owner(module or UNKNOWN_MODULE, device)
    return POOL_WORDS.get(pool, NOT_AVAILABLE)
