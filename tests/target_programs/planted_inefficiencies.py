"""Allocates, uses and frees tensors too early, too late and too rarely, and some just in time. Prints what is what.

Every tensor of interest has a size of its own, so that the blocks of a recording can be told apart on any device. The
report names for each number of elements the kind of inefficiency, or `none`.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = 1 << 14
IDLE_OPERATORS = 40
"""More operators than the threshold that the tests use."""

DEVICE = sys.argv[1]
if DEVICE == "npu":
    import torch_npu  # noqa: F401

kinds: dict[int, str] = {}


def planted(kind: str) -> int:
    """Return a number of elements that no other tensor has, of a tensor with this fate."""
    size = BASE + 1024 * (len(kinds) + 1)
    kinds[size] = kind
    return size


def tensor() -> torch.Tensor:
    """Make a tensor that matters to nobody."""
    return torch.ones(1 << 12, device=DEVICE)


def early_del() -> None:
    """Python frees another one with `del`."""
    other = tensor()
    early = torch.empty(planted("early_allocation"), device=DEVICE)
    used = other * 2
    del other
    used.add_(1)
    early.fill_(1)


def early_scope() -> None:
    """The end of a scope frees."""

    def inner() -> None:
        tensor().mul_(2)

    early = torch.empty(planted("early_allocation"), device=DEVICE)
    inner()
    early.zero_()


def early_rebind() -> None:
    """A name gets another tensor."""
    early = torch.empty(planted("early_allocation"), device=DEVICE)
    chain = tensor()
    chain = chain * 2
    chain = chain + 1
    early.fill_(2)
    chain.zero_()


def early_expression() -> None:
    """Results in the middle of an expression are freed at once."""
    early = torch.empty(planted("early_allocation"), device=DEVICE)
    result = (tensor() * 2 + 1).relu()
    early.copy_(torch.ones(early.numel(), device=DEVICE))
    result.zero_()


def early_out() -> None:
    """The place of a result, long before it."""
    early = torch.empty(planted("early_allocation"), device=DEVICE)
    first = tensor()
    second = first * 2
    del first
    second.add_(1)
    torch.mul(torch.ones(early.numel(), device=DEVICE), 3, out=early)


def early_list() -> None:
    """A list is emptied."""
    buffers = [torch.empty(planted("early_allocation"), device=DEVICE)]
    parts = [tensor() for _ in range(3)]
    total = parts[0] + parts[1]
    parts.clear()
    total.mul_(2)
    buffers[0].fill_(3)


def early_backward() -> None:
    """Gradients come and go."""
    weight = torch.ones(64, 64, device=DEVICE, requires_grad=True)
    early = torch.empty(planted("early_allocation"), device=DEVICE)
    (weight @ weight).relu().sum().backward()
    weight.grad = None
    weight.detach().mul_(2)
    early.zero_()


def late_del() -> None:
    """Two operators after its last use."""
    late = torch.ones(planted("late_deallocation"), device=DEVICE)
    total = late.sum()
    other = tensor() + total
    other.mul_(2)
    del late


def late_scope() -> None:
    """A function keeps its argument to its end."""

    def inner(late: torch.Tensor) -> torch.Tensor:
        total = late.sum()
        other = tensor()
        return other.add_(total)

    inner(torch.ones(planted("late_deallocation"), device=DEVICE)).zero_()


def late_list() -> None:
    """A list keeps what nobody reads any more."""
    kept = [torch.ones(planted("late_deallocation"), device=DEVICE)]
    total = kept[0].sum()
    for _ in range(3):
        total = total + tensor().sum()
    kept.clear()


def idle() -> None:
    """Many operators between two uses."""
    block = torch.ones(planted("temporary_idleness"), device=DEVICE)
    block.add_(1)
    other = tensor()
    for _ in range(IDLE_OPERATORS):
        other.add_(1)
    block.add_(1)


def early_result() -> None:
    """A block that its own operator wrote waits for its first use, while others are freed."""
    block = torch.zeros(planted("early_allocation"), device=DEVICE)
    other = tensor()
    del other
    block.add_(1)


def nothing_freed_between() -> None:
    """Nobody frees anything before its first use."""
    block = torch.empty(planted("none"), device=DEVICE)
    other = tensor()
    block.fill_(1)
    other.zero_()


def freed_in_time() -> None:
    """Freed right after its last use, before anybody allocates."""
    block = torch.ones(planted("none"), device=DEVICE)
    block.add_(1)
    del block
    tensor().zero_()


def late_by_one_operator() -> None:
    """A free of Python comes after the operator before it, which allocates."""
    block = torch.ones(planted("late_deallocation"), device=DEVICE)
    block.add_(1)
    other = torch.empty(1 << 12, device=DEVICE)
    del block
    other.zero_()


def used_often() -> None:
    """Fewer operators between any two uses than would be idle."""
    block = torch.ones(planted("none"), device=DEVICE)
    for _ in range(IDLE_OPERATORS):
        block.add_(1)


PROGRAM: tuple[Callable[[], None], ...] = (
    early_del, early_scope, early_rebind, early_expression, early_out, early_list, early_backward, late_del, late_scope,
    late_list, idle, early_result, nothing_freed_between, freed_in_time, late_by_one_operator, used_often,
)  # fmt: skip

for function in PROGRAM:
    function()
sys.stdout.write(f"planted={json.dumps({4 * size: kind for size, kind in kinds.items()}, separators=(',', ':'))}\n")
