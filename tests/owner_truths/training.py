"""Trainings: plain, with frozen parts, copies, checkpoints, compiled, in two processes."""

from __future__ import annotations

import copy
import gc
import io
import os
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.utils import checkpoint

import msmemscope

from . import DEVICE
from .truth import Noted, Saved, gradients_of, moment, parts_of, saved_by_graph, states_of, weights_of

WIDTH = 96
BATCH = 48
STEPS = 3


class Block(torch.nn.Module):
    """A part of a network, with a residual connection."""

    def __init__(self) -> None:
        """With weights, and a buffer."""
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.inner = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.outer = torch.nn.Linear(2 * WIDTH, WIDTH)
        self.register_buffer("scale", torch.full((WIDTH,), 0.5))
        self.probe: Any = None

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Compute."""
        hidden = functional.gelu(self.inner(self.norm(data)))
        if self.probe is not None and hidden.requires_grad:
            hidden.register_hook(self.probe)
        return data + self.scale * self.outer(hidden)


class Network(torch.nn.Module):
    """Blocks one after the other."""

    def __init__(self, depth: int = 3) -> None:
        """With so many blocks."""
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(depth))
        self.head = torch.nn.Linear(WIDTH, 8)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Compute."""
        for block in self.blocks:
            data = block(data)
        return self.head(data)


def _batch(rows: int = BATCH) -> torch.Tensor:
    return torch.randn(rows, WIDTH).to(DEVICE)


def plain() -> None:
    """AdamW; the program says where its steps end."""
    model = Network().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        data = _batch()
        with Saved() as saved:
            loss = model(data).square().mean()
        known = parts_of(model, optimizer)
        # The loss is a variable of the loop: it lives on until the next one takes its place.
        moment(f"forward {step}", **known, activation=saved, program=[loss, data])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        known = parts_of(model, optimizer)
        moment(f"step {step}", **known, activation=saved, program=[loss, data])
        msmemscope.step()


class Adapted(torch.nn.Module):
    """A frozen linear layer with an adapter of low rank."""

    def __init__(self, base: torch.nn.Linear, rank: int = 4) -> None:
        """Freeze the base."""
        super().__init__()
        self.base = base
        for parameter in base.parameters():
            parameter.requires_grad_(False)
        self.down = torch.nn.Parameter(torch.randn(rank, base.in_features) / 8)
        self.up = torch.nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Compute."""
        return self.base(data) + functional.linear(functional.linear(data, self.down), self.up)


def lora() -> None:
    """The base has no optimizer, the adapters have."""
    model = Network()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for block in model.blocks:
        block.inner = Adapted(block.inner)
        block.outer = Adapted(block.outer)
    model.to(DEVICE)
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)
    for step in range(STEPS):
        with Saved() as saved:
            loss = model(_batch()).square().mean()
        known = parts_of(model, optimizer)
        moment(f"forward {step}", **known, activation=saved, program=[loss])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        msmemscope.step()


def moving_average() -> None:
    """One average is a module, copied; another one is a dictionary that nothing but the program knows."""
    model = Network().to(DEVICE)
    average = copy.deepcopy(model).requires_grad_(False)
    by_name = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    for step in range(STEPS):
        loss = model(_batch()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, value in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(value, 0.1)
            for name, value in model.named_parameters():
                by_name[name].lerp_(value, 0.1)
        moment(
            f"step {step}",
            weight=weights_of(model, average),
            gradient=gradients_of(model),
            optimizer_state=states_of(optimizer),
            program=[*by_name.values(), loss],
        )
        msmemscope.step()


class Checkpointed(Network):
    """Each block is run again in the backward pass."""

    def __init__(self, *, reentrant: bool) -> None:
        """As asked for."""
        super().__init__()
        self.reentrant = reentrant
        self.inputs = Noted()

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Compute."""
        for block in self.blocks:
            self.inputs.note(data)
            data = checkpoint.checkpoint(block, data, use_reentrant=self.reentrant, preserve_rng_state=False)
        return self.head(data)


def _recomputed() -> list[Any]:
    """The tensors that checkpoints without reentrance hold after they ran again."""
    frames = [each for each in gc.get_objects() if type(each).__name__ == "_CheckpointFrame"]
    return [tensor for frame in frames for tensors in frame.recomputed.values() for tensor in tensors.values()]


def _checkpoints(*, reentrant: bool) -> None:
    model = Checkpointed(reentrant=reentrant).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(STEPS):
        data = _batch().requires_grad_()
        saved, held = Saved(), [data]

        def probe(_gradient: Any, step: int = step, saved: Saved = saved, held: list[Any] = held) -> None:
            known = parts_of(model)
            moment(f"backward {step}", **known, activation=[*model.inputs, *_recomputed(), *saved], program=held)

        model.blocks[1].probe = probe
        with saved:
            loss = model(data).square().mean()
            held.append(loss)
            known = parts_of(model)
            moment(f"forward {step}", **known, activation=[*model.inputs, *saved], program=held)
            loss.backward()
        held.clear()  # or it would be a cycle: the graph of the loss has the probe
        # The backward pass sums in the memory that is this gradient in the end. Kept over the step, it would be the
        # program's.
        data.grad = None
        optimizer.step()
        optimizer.zero_grad()
        msmemscope.step()


def checkpoints_reentrant() -> None:
    """A backward pass in the middle of another one."""
    _checkpoints(reentrant=True)


def checkpoints() -> None:
    """The newer kind, which puts what it made again in the place of what was saved."""
    _checkpoints(reentrant=False)


def _compiled(backend: str) -> None:
    model = Network(2).to(DEVICE)
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(STEPS):
        data = _batch()
        loss = compiled(data).square().mean()
        known = parts_of(model)
        moment(f"forward {step}", **known, activation=saved_by_graph(loss), program=[loss, data])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        msmemscope.step()


def compiled() -> None:
    """Compiled, and run operator by operator."""
    _compiled("aot_eager")


def compiled_by_inductor() -> None:
    """Compiled to machine code: no operator is seen."""
    _compiled("inductor")


def ddp() -> None:
    """Two processes; the buckets of gradients are known from a hook on their communication."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    with tempfile.TemporaryDirectory() as folder:
        other = os.fork()
        rank = 1 if other == 0 else 0
        if rank:
            sys.stdout = io.StringIO()  # the first one speaks
        try:
            dist.init_process_group(
                "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=timedelta(seconds=90)
            )
            model = Network()
            parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.2)
            buckets = Noted()

            def note(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
                buckets.note(bucket.buffer())
                return default_hooks.allreduce_hook(state, bucket)

            # Torch reads the annotations, which are texts here.
            note.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
            parallel.register_comm_hook(None, note)
            optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-3)
            for step in range(STEPS):
                with Saved() as saved:
                    loss = parallel(_batch()).square().mean()
                known = parts_of(model, optimizer)
                known["gradient"] += buckets
                if step == STEPS - 1:  # until then the buckets of the coming backward pass are not known
                    moment(f"forward {step}", **known, activation=saved, program=[loss])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                known = parts_of(model, optimizer)
                known["gradient"] += buckets
                moment(f"step {step}", **known, activation=saved, program=[loss])
                msmemscope.step()
            # Destroying a group holds the interpreter's lock and waits for threads of the group. Those threads need the
            # lock to forget the tensors of the last collective.
            time.sleep(0.3)
            dist.destroy_process_group()
        finally:
            if other == 0:
                os._exit(0)
        os.waitpid(other, 0)


def out_of_memory() -> None:
    """A batch that is too large, in the second step: the allocation fails in the middle of the forward pass."""
    model = Network(8).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ballast = [torch.empty(64 << 20, dtype=torch.uint8, device=DEVICE) for _ in range(11)]
    data = _batch()
    for rows in (BATCH, 8192):
        data = _batch(rows)
        saved = Saved()
        try:
            with saved:
                loss = model(data).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            msmemscope.step()
        except torch.OutOfMemoryError:
            known = parts_of(model, optimizer)
            moment("failure", marks=False, **known, activation=saved, program=[*ballast, loss])
            return
    message = "memory did not run out"
    raise RuntimeError(message)
