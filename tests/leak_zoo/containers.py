"""Tensors kept in containers: forgotten, bounded, drained, replaced."""

from __future__ import annotations

import collections
import gc
from typing import Any, ClassVar

import torch

import msmemscope

from . import DEVICE, STEPS

_seen_by_step: dict[int, torch.Tensor] = {}


class Registry:
    """Remembers every instance."""

    instances: ClassVar[list[Registry]] = []

    def __init__(self, value: torch.Tensor) -> None:
        """Hold the value, for ever."""
        self.value = value
        Registry.instances.append(self)


class Node:
    """Part of a cycle."""

    def __init__(self, value: torch.Tensor) -> None:
        """Refer to itself."""
        self.value = value
        self.itself = self


def forgotten_list() -> None:
    """A list that nobody empties."""
    kept = []
    for _ in range(STEPS):
        kept.append(torch.ones(256, device=DEVICE))  # LEAK
        torch.ones(100, device=DEVICE).sum()
        msmemscope.step()


def decoded_in_first_epoch() -> None:
    """Each sample is decoded once and kept: the first epoch fills the dictionary, three others only read it."""
    decoded: dict[int, torch.Tensor] = {}
    of_epoch = 9
    for step in range(4 * of_epoch):
        sample = step % of_epoch
        if sample not in decoded:
            decoded[sample] = torch.full((256,), float(sample), device=DEVICE)
        decoded[sample].sum()
        msmemscope.step()


def global_dict_by_step() -> None:
    """A global dictionary whose key is the step."""
    for step in range(STEPS):
        value = torch.full((300,), float(step), device=DEVICE)  # LEAK
        _seen_by_step[step] = value
        msmemscope.step()


def global_dict_same_key() -> None:
    """A global dictionary whose key stays the same: the value is replaced."""
    for step in range(STEPS):
        _seen_by_step[-1] = torch.full((300,), float(step), device=DEVICE)
        msmemscope.step()


def default_argument() -> None:
    """A list made once, where the function is defined."""

    def collect(value: torch.Tensor, seen: list[torch.Tensor] = []) -> int:  # noqa: B006 - this is the mistake
        seen.append(value)
        return len(seen)

    for _ in range(STEPS):
        collect(torch.zeros(64, device=DEVICE))  # LEAK
        msmemscope.step()


def class_registry() -> None:
    """A class that remembers its instances."""
    for _ in range(STEPS):
        Registry(torch.zeros(128, device=DEVICE))  # LEAK
        msmemscope.step()


def two_leaks_and_work() -> None:
    """Two call sites leak, one of them twice in each step; the same helper is also used for what is given back."""
    first, second = [], []

    def made(size: int) -> torch.Tensor:
        return torch.zeros(size, device=DEVICE)  # LEAK

    for _ in range(STEPS):
        first.extend([made(10), made(20)])
        second.append(torch.ones(30, device=DEVICE))  # LEAK
        made(40).add_(1)
        msmemscope.step()


def every_fourth_step() -> None:
    """A leak with pauses, as of what is logged now and then."""
    kept = []
    for step in range(4 * STEPS):
        if step % 4 == 3:
            kept.append(torch.zeros(64, device=DEVICE))  # LEAK
        msmemscope.step()


def bounded_deque() -> None:
    """The values of the last three steps, as for a moving average."""
    last: collections.deque[torch.Tensor] = collections.deque(maxlen=3)
    for _ in range(STEPS):
        last.append(torch.zeros(256, device=DEVICE))
        msmemscope.step()


def ring_of_slots() -> None:
    """Five slots, used in turn."""
    slots: list[torch.Tensor | None] = [None] * 5
    for step in range(STEPS):
        slots[step % 5] = torch.zeros(256, device=DEVICE)
        msmemscope.step()


def growing_then_shrinking() -> None:
    """A pool that is filled and emptied again."""
    pool = []
    for step in range(STEPS):
        if step < STEPS // 2:
            pool.append(torch.zeros(256, device=DEVICE))
        else:
            pool.pop()
        msmemscope.step()


def per_epoch_buffers() -> None:
    """At its end, an epoch of four steps drops all that it has collected."""
    collected: list[torch.Tensor] = []
    for step in range(2 * STEPS):
        if step % 4 == 0:
            collected.clear()
        collected.append(torch.zeros(256, device=DEVICE))
        msmemscope.step()


def filled_once() -> None:
    """A table for each of four shapes, made when a shape first comes; then all are there."""
    tables: dict[int, torch.Tensor] = {}
    for step in range(2 * STEPS):
        size = 100 + min(step, 4 * STEPS) % 4
        if size not in tables:
            tables[size] = torch.zeros(size, device=DEVICE)
        tables[size].add_(1)
        msmemscope.step()


def set_up_in_the_third_step() -> None:
    """A buffer of the evaluation, which runs for the first time in step 3 and again in every third step."""
    buffer = None
    for step in range(STEPS):
        if step % 3 == 2 and buffer is None:
            buffer = torch.zeros(4096, device=DEVICE)
        if buffer is not None:
            buffer.zero_()
        msmemscope.step()


def cycle_until_collection() -> None:
    """Cycles that the garbage collector finds in every third step."""
    gc.disable()
    for step in range(STEPS):
        Node(torch.zeros(256, device=DEVICE))
        if step % 3 == 2:
            gc.collect()
        msmemscope.step()
    gc.enable()


def cycle_without_collection() -> None:
    """Cycles, and the garbage collector is off."""
    gc.disable()
    for _ in range(STEPS):
        Node(torch.zeros(256, device=DEVICE))  # LEAK
        msmemscope.step()
    gc.enable()


def weak_references() -> None:
    """A cache that does not keep what it knows alive."""
    import weakref

    known: Any = weakref.WeakValueDictionary()
    for step in range(STEPS):
        value = torch.zeros(256, device=DEVICE)
        known[step] = value
        msmemscope.step()
