# report: "https://github.com/pytorch/pytorch/issues/35901"
# topic: "training"
# kind: "fragmentation"
# symptom: "the second iteration runs out of memory at a tensor that was created in the first one without trouble, though about half of the card is in use"
# cause: "the large tensor's segment is cached after the first iteration, then smaller tensors that stay are placed inside it, so that it neither holds the large tensor again nor can be released"
# devices: ["npu"]
# memory: "1GiB"
# holder: []
# mebibytes: [230, 300]
# remedy: "setting"
# options: []
# fixed: True
import os
import sys

if "fixed" in sys.argv:
    os.environ["PYTORCH_NPU_ALLOC_CONF"] = "expandable_segments:True"

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
WIDTH, SYMBOLS = 1448, 32


class TransducerLoss(torch.autograd.Function):
    """Sums over all alignments of frames and labels; only the gradient by frame is kept."""

    @staticmethod
    def forward(ctx, frames, labels):
        lattice = torch.empty(100 * 2**20, device=frames.device)  # BLAME
        joint = lattice[: frames.shape[0] * labels.shape[0]].view(frames.shape[0], labels.shape[0])
        torch.mm(frames, labels.t(), out=joint)
        ctx.save_for_backward(joint.softmax(dim=1) @ labels / len(frames))
        return joint.logsumexp(dim=1).mean()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


class Encoder(nn.Module):
    def __init__(self, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def main():
    encoder = Encoder().to("npu")
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-4, foreach=False)
    symbols = torch.randn(SYMBOLS, WIDTH, device="npu") / WIDTH
    for step in range(6):
        features = torch.randn(64, WIDTH, device="npu")
        try:
            loss = TransducerLoss.apply(encoder(features), symbols)  # BLAME
        except torch.OutOfMemoryError:
            used, reserved = torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
            print(f"step {step}: failed with {used:.0f} MiB in use, {reserved:.0f} MiB reserved", flush=True)
            raise
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # BLAME
        used, reserved = torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
        print(f"step {step}: loss {loss.item():.3f}, {used:.0f} MiB in use, {reserved:.0f} MiB reserved", flush=True)


main()
