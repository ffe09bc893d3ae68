"""Trains the example's GPT and says what its tensors take: what a decomposition of the recording must find.

Usage: decompose_gpt.py DEVICE

Each training step is two steps of the recording, one that ends with the forward pass and one that ends with the
optimizer's. Sizes are bytes of storages, each storage once, joined by `+`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn import functional

import msmemscope

if TYPE_CHECKING:
    from collections.abc import Iterable

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from train_gpt import GPT

STEPS = 3
VOCABULARY = 24
CONTEXT = 32


def storages(tensors: Iterable[torch.Tensor], device: str) -> dict[int, int]:
    """Address to bytes of the storages of tensors on a device."""
    found = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if tensor.device.type == device and storage.nbytes():
            found[storage.data_ptr()] = storage.nbytes()
    return found


def written(sizes: Iterable[int]) -> str:
    """The sizes as the report has them."""
    return "+".join(map(str, sizes)) or "0"


def main() -> None:
    """Train."""
    device = sys.argv[1]
    if device == "npu":
        import torch_npu  # noqa: F401 - makes the device npu
    torch.manual_seed(0)
    model = GPT(VOCABULARY, CONTEXT, width=64, layers=2, heads=2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, STEPS + 1):
        codes = torch.randint(VOCABULARY, (4, CONTEXT)).to(device)
        saved: dict[int, int] = {}

        def save(tensor: torch.Tensor, saved: dict[int, int] = saved) -> torch.Tensor:
            saved.update(storages([tensor], device))
            return tensor

        tracker = MemTracker()
        tracker.track_external(model, optimizer, codes)
        with tracker, torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
            scores = model(codes)
            loss = functional.cross_entropy(scores.flatten(0, 1), codes.flatten())
            tracked = tracker.get_tracker_snapshot()[loss.device]
        weights = storages(model.parameters(), device)
        batch = storages([codes], device)
        activations = {address: size for address, size in saved.items() if address not in weights}
        results = {a: s for a, s in storages([scores, loss], device).items() if a not in activations}
        print(
            f"moment=forward step={step} activations={written(activations.values())} "
            f"batch={written(size for address, size in batch.items() if address in activations)} "
            f"results={written(results.values())} "
            + " ".join(f"tracked_{getattr(kind, 'name', kind).lower()}={size}" for kind, size in tracked.items())
        )
        msmemscope.step()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gradients = storages((p.grad for p in model.parameters() if p.grad is not None), device)
        states = (value for state in optimizer.state.values() for value in state.values())
        in_use = torch.npu.memory_allocated() if device == "npu" else 0
        print(
            f"moment=step step={step} weights={written(weights.values())} gradients={written(gradients.values())} "
            f"states={written(storages(states, device).values())} in_use={in_use}"
        )
        msmemscope.step()


if __name__ == "__main__":
    main()
