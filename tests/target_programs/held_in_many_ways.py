"""Tensors that are held in each way that a program can hold them; prints what `msmemscope.who_holds` says of each."""

from __future__ import annotations

import collections
import functools
import gc
import json
import sys
import weakref
from typing import ClassVar

import torch

import msmemscope


class Owner:
    """Has attributes, and a registry."""

    registry: ClassVar[list[torch.Tensor]] = []

    def __init__(self) -> None:
        self.history = [torch.ones(2), torch.ones(3)]


class Slots:
    """Has no dictionary."""

    __slots__ = ("value",)


class Node:
    """Part of a cycle."""


by_key: dict[str, torch.Tensor] = {}


def collect(value: torch.Tensor, seen: list[torch.Tensor] = []) -> None:  # noqa: B006 - this is the mistake
    """Keeps its argument."""
    seen.append(value)


def made() -> object:
    """Returns a closure."""
    kept = [torch.ones(4)]

    def closure() -> int:
        return len(kept)

    return closure


closure = made()


@functools.cache
def cached(length: int) -> torch.Tensor:
    """Keeps its results."""
    return torch.ones(length)


def suspended() -> object:
    """A generator."""
    work = torch.ones(5)
    yield work.data_ptr()


def main() -> None:
    """Asks for each."""
    found: dict[str, tuple[str, ...]] = {}

    def ask(name: str, address: int) -> None:
        found[name] = msmemscope.who_holds(address, limit_ms=60_000)

    owner, slots, node = Owner(), Slots(), Node()
    ask("attribute", owner.history[1].data_ptr())
    by_key["key"] = torch.ones(6)
    ask("global", by_key["key"].data_ptr())
    collect(torch.ones(7))
    ask("default", collect.__defaults__[0][0].data_ptr())
    Owner.registry.append(torch.ones(8))
    ask("class", Owner.registry[0].data_ptr())
    slots.value = torch.ones(9)
    ask("slot", slots.value.data_ptr())
    ask("closure", closure.__closure__[0].cell_contents[0].data_ptr())
    ask("cache", cached(10).data_ptr())
    generator = suspended()
    ask("generator", next(generator))
    last = collections.deque([torch.ones(11)])
    ask("deque", last[0].data_ptr())
    model = torch.nn.Linear(12, 12)
    ask("parameter", model.weight.data_ptr())
    weight = torch.ones(13, 13, requires_grad=True)
    saved = torch.ones(1, 13)
    address = saved.data_ptr()
    loss = (saved @ weight).sum()
    del saved
    ask("graph", address)
    gc.disable()
    node.itself, node.value = node, torch.ones(14)
    address = node.value.data_ptr()
    del node
    ask("cycle", address)
    gc.enable()
    gone = torch.ones(15)
    address, watcher = gone.data_ptr(), weakref.ref(gone)
    before = sys.getrefcount(gone)
    both = [gone]
    ask("two", address)
    assert sys.getrefcount(gone) == before + 1
    del gone, both
    assert watcher() is None, "a search kept a tensor alive"
    ask("nobody", address)
    print(json.dumps(found))
    assert loss is not None


main()
