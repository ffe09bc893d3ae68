# report: "https://github.com/nanoporetech/dorado/issues/1358"
# topic: "inference"
# kind: "fragmentation"
# symptom: "a basecaller that runs the same model over and over with one batch size takes ever more of the card and then fails"
# cause: "a large cached allocation is partly reused for a smaller one, so the next large allocation that should have had it gets a new one; max_split_size_mb repairs it"
# devices: ["npu"]
# memory: "700MiB"
# holder: []
# mebibytes: [100, 165]
# remedy: "setting"
# options: []
# fixed: True
import os
import sys
from collections import deque

if "fixed" in sys.argv:
    os.environ["PYTORCH_NPU_ALLOC_CONF"] = "max_split_size_mb:25"

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
BATCH, STEPS, FEATURES, STATES = 196, 166, 32, 512


class Basecaller(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(1, FEATURES, 5, stride=6, padding=2)
        self.linear, self.gate = nn.Linear(FEATURES, STATES), nn.Linear(FEATURES, STATES)

    def forward(self, signal):
        features = self.convolution(signal).transpose(1, 2)
        scores = self.linear(features).tanh_()  # BLAME
        return features, self.gate(features).sigmoid_().mul_(scores)  # BLAME


class ModificationCaller:
    """Gets the context of each base; its answers wait for the chunks that finish the read."""

    def __init__(self, waiting=6):
        self.linear = nn.Linear(FEATURES, 320).to("npu").eval()
        self.pending = deque(maxlen=waiting)

    def submit(self, features):
        self.pending.append(self.linear(features))  # BLAME


def report(what):
    used, reserved = torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
    print(f"{what}: {used:.0f} MiB in use, {reserved:.0f} MiB reserved", flush=True)


@torch.inference_mode()
def main():
    model, modifications = Basecaller().to("npu").eval(), ModificationCaller()
    for number in range(9):
        signal = torch.randn(BATCH, 1, STEPS * 6, device="npu")
        try:
            features, scores = model(signal)
        except torch.OutOfMemoryError:
            report(f"batch {number} does not fit")
            raise
        moves = scores.view(BATCH, -1, 8, 64)[:, :, 0].argmax(-1)
        del scores
        modifications.submit(features)
        if number % 4 == 0:
            report(f"batch {number}: {moves.unique().numel()} bases")


main()
