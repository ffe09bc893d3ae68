# report: "https://github.com/Lightning-AI/torchmetrics/pull/2093"
# topic: "training"
# kind: "leak"
# symptom: "training runs out of device memory after some batches once the perceptual similarity of images is logged"
# cause: "the metric adds scores with their graphs to its sum, so that the graph of every batch so far stays alive; detaching the score lets it go"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: ["sum_scores", "lpips"]
# mebibytes: [45, 65]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
from torch import nn

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


class LearnedPerceptualSimilarity(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU()
        )
        self.features.requires_grad_(False)
        self.sum_scores, self.total = 0.0, 0

    def update(self, img1, img2):
        distance = (self.features(img1) - self.features(img2)).square()  # BLAME
        loss = distance.mean(dim=(1, 2, 3))
        if "fixed" in sys.argv:
            loss = loss.detach()
        self.sum_scores = self.sum_scores + loss.sum()  # BLAME
        self.total += img1.shape[0]

    def compute(self):
        return self.sum_scores / self.total


class Restorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.GELU(), nn.Conv2d(16, 3, 3, padding=1))

    def forward(self, blurred):
        return blurred + self.inner(blurred)


def main():
    model, lpips = Restorer().to(DEV), LearnedPerceptualSimilarity().to(DEV)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    for step in range(16):
        sharp = torch.rand(8, 3, 64, 64, device=DEV)
        restored = model(nn.functional.avg_pool2d(sharp, 3, 1, 1))
        loss = nn.functional.l1_loss(restored, sharp)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lpips.update(restored, sharp)
        if step % 4 == 3:
            used = f", {torch.npu.memory_allocated() / 2**20:.0f} MiB in use" if DEV == "npu" else ""
            print(f"step {step}: l1 {loss.item():.4f}, lpips {lpips.compute().item():.4f}{used}", flush=True)
    print(f"over all batches: {lpips.compute().item():.4f}")


main()
