# report: "https://github.com/Lightning-AI/torchmetrics/issues/1094"
# topic: "training"
# kind: "growth"
# symptom: "computing the structural similarity of each batch, allocated device memory rises with every batch until it runs out"
# cause: "the metric keeps the predictions and targets of all batches as states, to compute over all of them at the end; the functional form for one batch keeps none"
# devices: ["npu", "cpu"]
# memory: "1GiB"
# holder: ["preds", "ssim"]
# mebibytes: [40, 60]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
from torch import nn
from torchmetrics import Metric

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


def structural_similarity(preds, target, c1=0.01**2, c2=0.03**2):
    x, y = nn.functional.avg_pool2d(preds, 7, 4), nn.functional.avg_pool2d(target, 7, 4)
    xx = nn.functional.avg_pool2d(preds * preds, 7, 4) - x * x
    yy = nn.functional.avg_pool2d(target * target, 7, 4) - y * y
    xy = nn.functional.avg_pool2d(preds * target, 7, 4) - x * y
    return ((2 * x * y + c1) * (2 * xy + c2) / ((x * x + y * y + c1) * (xx + yy + c2))).mean()


class SSIM(Metric):
    full_state_update = False

    def __init__(self):
        super().__init__()
        self.add_state("preds", default=[], dist_reduce_fx="cat")
        self.add_state("target", default=[], dist_reduce_fx="cat")

    def update(self, preds, target):
        self.preds.append(preds)  # BLAME
        self.target.append(target)  # BLAME

    def compute(self):
        return structural_similarity(torch.cat(self.preds), torch.cat(self.target))


def main():
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)).to(DEV)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    ssim = SSIM().to(DEV)
    for step in range(16):
        clean = torch.rand(24, 1, 128, 128, device=DEV)  # BLAME
        noise = 0.1 * torch.randn_like(clean)
        denoised = model(clean + noise)  # BLAME
        loss = nn.functional.mse_loss(denoised, clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if "fixed" in sys.argv:
            value = structural_similarity(denoised.detach(), clean)
        else:
            value = ssim(denoised.detach(), clean)
        if step % 4 == 3:
            used = f", {torch.npu.memory_allocated() / 2**20:.0f} MiB in use" if DEV == "npu" else ""
            print(f"step {step}: mse {loss.item():.4f}, similarity {value.item():.3f}{used}", flush=True)


main()
