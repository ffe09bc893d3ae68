# report: "https://github.com/bytedance/UNO/issues/64"
# topic: "data loading"
# kind: "leak"
# symptom: "memory grows from step to step in training with a small batch, until it runs out"
# cause: "itertools.cycle keeps every batch that the loader has yielded, to repeat it later; iterating over the loader itself keeps none"
# devices: ["npu", "cpu"]
# memory: "1GiB"
# holder: ["batches", "cycle"]
# mebibytes: [40, 80]
# remedy: "release"
# options: []
# fixed: True
import gc
import itertools
import os
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)


class Pictures(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {
            "picture": torch.randn(3, 256, 256, generator=generator),
            "target": torch.randn(16, generator=generator),
        }


def used():
    if DEV == "npu":
        return torch.npu.memory_allocated() / 2**20
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
        for t in gc.get_objects()
        if type(t) is torch.Tensor
    }
    return sum(storages.values()) / 2**20


def epochs(loader):
    while True:
        yield from loader


def main():
    accelerator = Accelerator(cpu=DEV == "cpu")
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 8, stride=8), torch.nn.Flatten(), torch.nn.Linear(8 * 32 * 32, 16)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(Pictures(), batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = epochs(loader) if "fixed" in sys.argv else itertools.cycle(loader)  # BLAME
    for step in range(20):
        batch = next(batches)  # BLAME
        loss = torch.nn.functional.mse_loss(model(batch["picture"]), batch["target"])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 3:
            print(f"step {step}: loss {loss.item():.3f}, {used():.1f} MiB in tensors", flush=True)


main()
