# report: "https://github.com/NVIDIA/Megatron-LM/pull/6885"
# topic: "training"
# kind: "reserved"
# symptom: "device memory in use is tens of gigabytes above what is allocated, though live tensors take the same as before"
# cause: "the wrapper is initialised once on a side stream of its own, and the large blocks cached for that stream serve no later allocation of the current stream"
# devices: ["npu"]
# memory: "1GiB"
# holder: []
# mebibytes: [150, 240]
# remedy: "release"
# options: []
# fixed: True
import contextlib
import sys

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)


class ShardedModel(nn.Module):
    """Keeps half of the flat parameters, as one of two ranks would."""

    def __init__(self, module, shards=2):
        super().__init__()
        self.module = module
        parameters = list(module.parameters())
        flat = torch.cat([p.detach().reshape(-1) for p in parameters])  # BLAME
        padding = -flat.numel() % (shards * 1024)
        padded = nn.functional.pad(flat, (0, padding))  # BLAME
        unscaled = padded * (1 / padded.abs().max().clamp(min=1))  # BLAME
        self.register_buffer("shard_checksum", unscaled.view(shards, -1).sum(1))

    def forward(self, x):
        return self.module(x)


def build(stream=None):
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(2048, 2048), nn.ReLU())]).to("npu")
    context = torch.npu.stream(stream) if stream else contextlib.nullcontext()
    with context:
        wrapped = ShardedModel(model)
    if stream:
        torch.npu.current_stream().wait_stream(stream)
    return wrapped


def main():
    stream = None if "fixed" in sys.argv else torch.npu.Stream()
    model = build(stream)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step in range(10):
        x = torch.randn(16, 2048, device="npu")
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        used, reserved = torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
        print(f"step {step}: {used:.0f} MiB in use, {reserved:.0f} MiB reserved", flush=True)
    idle = {}
    for segment in torch.npu.memory_snapshot():
        idle[segment["stream"]] = idle.get(segment["stream"], 0) + segment["total_size"] - segment["allocated_size"]
    print("not in use, by stream:", {stream: f"{size / 2**20:.0f} MiB" for stream, size in idle.items()})


main()
