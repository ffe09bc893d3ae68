"""Operators that write what is not theirs, chosen by a seed; and the same without.

    watched_faults.py DEVICE SEEDS WAY [WAY ...]

DEVICE: cpu (the write comes from ctypes, in the middle of an operator) or npu (the virtual NPU injects an overrun).
WAY: how the victim is watched: tensor, address, or window and auto, where options say it.

Everything runs in forked children, which print a line for each seed. With a fault the line has what must be found: the
operator, its call, and the bytes, as the child itself compared them.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
from typing import TYPE_CHECKING, Any

import torch
import torch._dynamo  # what optimizers import when they are first used; once here, and not in each child
from torch import nn

import msmemscope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEVICE = sys.argv[1]
if DEVICE == "npu":
    import torch_npu  # noqa: F401 - registers the device


class Training:
    """Everything that may write memory of its own: in place, through views and lists, in the backward pass."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(12, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 4)).to(DEVICE)
        self.optimizers = (
            torch.optim.AdamW(self.net.parameters(), foreach=True),
            torch.optim.SGD(self.net.parameters(), 1e-3, momentum=0.9, foreach=True),
        )
        self.buffer = torch.zeros(64, 16, device=DEVICE)

    def step(self, choice: random.Random) -> None:
        """One step: gradients of two backward passes are added up."""
        for _ in range(2):
            self.net(torch.randn(6, 12).to(DEVICE)).square().mean().backward()
        choice.choice(self.optimizers).step()
        if choice.random() < 0.5:
            self.optimizers[0].zero_grad(set_to_none=choice.random() < 0.5)
        with torch.no_grad():
            row = choice.randrange(60)
            self.buffer[row : row + 3].add_(1)
            self.buffer.t()[2:9].mul_(0.5)
            torch.add(self.buffer[0], 1, out=self.buffer[1])
            torch._foreach_add_(list(self.net.parameters()), 1e-3)
            self.buffer[5].copy_(torch.ones(16))
            self.net[0].weight.view(-1)[3:7].zero_()


def content(tensor: torch.Tensor) -> bytes:
    """The elements, in their order."""
    whole = tensor.detach().cpu().contiguous()
    return ctypes.string_at(whole.data_ptr(), whole.nbytes)


def ranges_of(before: bytes, after: bytes) -> str:
    """Where two contents differ, as events have it."""
    different = [place for place in range(len(before)) if before[place] != after[place]]
    pieces: list[list[int]] = []
    for place in different:
        if pieces and pieces[-1][1] == place - 1:
            pieces[-1][1] = place
        else:
            pieces.append([place, place])
    return ",".join(f"{first}-{last}" for first, last in pieces)


class FaultyOperators:
    """Operators of the CPU; one of them writes the victim in one of its calls."""

    def __init__(self) -> None:
        self.calls = {"plain": 0, "in_place": 0, "many": 0}
        self.fault: tuple[str, int] | None = None
        self.victim = torch.empty(0)
        self.address = self.bytes = 0
        self.ranges = ""
        self.library = torch.library.Library("faulty", "DEF")
        for name, schema in (
            ("plain", "(Tensor x) -> Tensor"),
            ("in_place", "(Tensor(a!) x) -> Tensor(a!)"),
            ("many", "(Tensor(a!)[] x) -> ()"),
        ):
            self.library.define(name + schema)
            self.library.impl(name, self.kernel(name), "CPU")

    def kernel(self, name: str) -> Callable[[Any], Any]:
        """The actions of the operator: its own work, and at the chosen call the wrong write."""

        def work(x: Any) -> Any:
            self.calls[name] += 1
            if self.fault == (name, self.calls[name]):
                before = content(self.victim)
                inverted = bytes(byte ^ 0xFF for byte in ctypes.string_at(self.address, self.bytes))
                ctypes.memmove(self.address, inverted, self.bytes)
                self.ranges = ranges_of(before, content(self.victim))
            if name == "plain":
                return x * 2
            if name == "in_place":
                return x.mul_(2)
            for one in x:
                one.mul_(2)
            return None

        return work

    def run(self, name: str, own: list[torch.Tensor]) -> None:
        """Call one of them with memory of its own."""
        getattr(torch.ops.faulty, name)(own if name == "many" else own[0])


def watch(way: str, victim: torch.Tensor) -> None:
    """Watch it, if the program has to."""
    if way == "tensor":
        msmemscope.watcher.watch(victim, name="victim")
    elif way == "address":
        msmemscope.watcher.watch(victim.data_ptr(), length=victim.nbytes, name="victim")


def run_on_cpu(way: str, choice: random.Random, *, is_faulty: bool) -> dict[str, object]:
    """A write by ctypes, into memory of some size and shape."""
    operators, training = OPERATORS[0], Training()
    before = dict(operators.calls)
    lengths = [7, 120, 1000, 4096, 20_000, 150_000]
    if way != "auto":  # whose budget all blocks of these runs are to fit into
        lengths.append(800_000)
    others = [torch.zeros(choice.choice(lengths)) for _ in range(choice.randrange(4, 12))]
    made = torch.sin(torch.ones(choice.choice(lengths), dtype=choice.choice((torch.float32, torch.float64))))
    victim = made
    if way == "tensor" and made.numel() == 1000:
        victim = choice.choice((nn.Parameter(made), made.view(20, 50)[3:17].t(), made.view(20, 50)[:, 5:9]))
    offset = choice.randrange(victim.numel()) * made.itemsize if victim.is_contiguous() else 0
    operators.victim, operators.address = victim, victim.data_ptr() + offset
    operators.bytes = min(choice.randrange(1, 300), victim.nbytes - offset)
    watch(way, victim)
    order = [choice.choice(("plain", "in_place", "many")) for _ in range(9)]
    wrong = choice.randrange(9)
    name = order[wrong]
    call = before[name] + order[: wrong + 1].count(name)
    operators.fault, operators.ranges = (name, call) if is_faulty else None, ""
    for index, next_name in enumerate(order):
        if index % 4 == 0:
            training.step(choice)
        operators.run(next_name, others[:3])
    torch.cos(others[0])
    operators.victim = torch.empty(0)
    return {
        "operator": f"torch._ops.faulty.{name}.default",
        "call": call,
        "ranges": operators.ranges,
        "address": victim.data_ptr(),
        "bytes": victim.nbytes,
    }


OPERATORS = [FaultyOperators()] if DEVICE == "cpu" else []

# What the fault is told, how it is called, and how it is named.
NPU_OPERATORS = (
    ("aclnnErf", lambda own: torch.erf(own, out=own), "torch._ops.aten.erf.out"),
    ("aclnnAtan", lambda own: torch.atan(own, out=own), "torch._ops.aten.atan.out"),
    ("aclnnInplaceTan", lambda own: own.tan_(), "torch._ops.aten.tan_.default"),
    ("aclnnInplaceFloor", lambda own: own.floor_(), "torch._ops.aten.floor_.default"),
)


def run_on_npu(way: str, choice: random.Random, *, is_faulty: bool) -> dict[str, object]:
    """An overrun by the virtual NPU, over the 32 bytes behind a tensor into the blocks that follow."""
    order = [choice.randrange(len(NPU_OPERATORS)) for _ in range(9)]
    wrong = choice.randrange(9)
    function, _, operator = NPU_OPERATORS[order[wrong]]
    call = order[: wrong + 1].count(order[wrong])
    overrun_bytes = choice.choice((choice.randrange(33, 480), choice.randrange(600, 1400)))
    if is_faulty:
        os.environ["VNPU_FAULTS"] = f"overrun:{function}:{call}:{overrun_bytes}"
    floats = choice.choice((120, 248))
    blocks = sorted((torch.full((floats,), 3.0).npu() for _ in range(12)), key=torch.Tensor.data_ptr)
    training = Training()
    place = choice.randrange(2, 6)
    own, made = blocks[place], blocks[place + 1]
    block_bytes = made.data_ptr() - own.data_ptr()
    assert block_bytes == own.nbytes + 32, "the allocator puts them side by side, with its padding between"
    victim = made[: choice.randrange(20, floats)] if way == "tensor" else made
    torch.neg(made, out=made)
    watch(way, victim)
    for index, number in enumerate(order):
        if index % 4 == 0:
            training.step(choice)
        NPU_OPERATORS[number][1](own)
    torch.abs(own)
    torch.npu.synchronize()
    before = content(torch.full((floats,), -3.0))[: victim.nbytes]
    after = content(victim.cpu())
    whole = min(overrun_bytes - 32, block_bytes)
    if is_faulty:
        assert ranges_of(before, after), "the fault was injected"
    else:
        assert before == after
    more = sum(32 + block_bytes * number < overrun_bytes for number in range(1, 12))
    return {
        "operator": operator,
        "call": call,
        "ranges": f"0-{whole - 1}" if way == "auto" else ranges_of(before, after),
        "address": victim.data_ptr(),
        "bytes": block_bytes if way == "auto" else victim.nbytes,
        "own": own.data_ptr(),
        "own_bytes": own.nbytes,
        "more": more,
        "until": own.data_ptr() + own.nbytes + overrun_bytes,
    }


def run_in_child(way: str, seeds: Sequence[int], *, is_faulty: bool) -> None:
    """Run some seeds one after the other in a process of their own."""
    child = os.fork()
    if child == 0:
        for seed in seeds:
            torch.manual_seed(seed)
            choice = random.Random(f"{way} {seed}")  # noqa: S311 - to be repeated
            found = (
                run_on_cpu(way, choice, is_faulty=is_faulty)
                if OPERATORS
                else run_on_npu(way, choice, is_faulty=is_faulty)
            )
            words = {"pid": os.getpid(), "way": way, "seed": seed, "is_faulty": int(is_faulty), **found}
            print(" ".join(f"{key}={value}" for key, value in words.items()), flush=True)
        ctypes.CDLL(None).exit(0)  # taking the interpreter apart takes longer than all the rest
    _, status = os.waitpid(child, 0)
    assert status == 0, (way, seeds, is_faulty, status)


def main() -> None:
    """Run clean seeds together; faulty ones too, but on the NPU, where a process has one fault."""
    torch.set_num_threads(1)
    seeds = range(int(sys.argv[2]))
    for way in sys.argv[3:]:
        run_in_child(way, seeds, is_faulty=False)
        for some in [seeds] if OPERATORS else [[seed] for seed in seeds]:
            run_in_child(way, some, is_faulty=True)


main()
