# report: "https://github.com/huggingface/transformers/pull/45708"
# topic: "inference"
# kind: "leak"
# symptom: "the memory of a detection model is still held after del model, gc.collect() and empty_cache()"
# cause: "lru_cache on a method lives with the class and has self in its keys, so it keeps every model that was ever called; a cache per instance lets them go"
# devices: ["npu", "cpu"]
# memory: "1GiB"
# holder: ["lru_cache", "generate_anchors"]
# mebibytes: [50, 80]
# remedy: "release"
# options: []
# fixed: True
import gc
import os
import sys
from functools import lru_cache

import torch
from torch import nn

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)


class Detector(nn.Module):
    def __init__(self, width=256, queries=100):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 64, 8, stride=8), nn.ReLU(), nn.Conv2d(64, width, 2, stride=2))
        layer = nn.TransformerEncoderLayer(width, 8, 1024, batch_first=True)  # BLAME
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)  # BLAME
        self.boxes = nn.Linear(width, 4)
        self.queries = queries
        self.anchors_of = {}

    @lru_cache(maxsize=32)  # BLAME
    def generate_anchors(self, height, width, device):  # BLAME
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centres = torch.stack([(x + 0.5) / width, (y + 0.5) / height], dim=-1).view(1, -1, 2)
        return torch.cat([centres, torch.full_like(centres, 0.05)], dim=-1).to(device)

    def anchors(self, height, width, device):
        if "fixed" not in sys.argv:
            return self.generate_anchors(height, width, device)
        if (height, width) not in self.anchors_of:
            self.anchors_of[height, width] = Detector.generate_anchors.__wrapped__(self, height, width, device)
        return self.anchors_of[height, width]

    def forward(self, picture):
        features = self.backbone(picture)
        memory = self.encoder(features.flatten(2).transpose(1, 2))
        boxes = self.boxes(memory) + self.anchors(*features.shape[2:], picture.device)
        return boxes[:, : self.queries].sigmoid()


def evaluate(version, pictures):
    torch.manual_seed(version)
    model = Detector().to(DEV).eval()  # BLAME
    with torch.inference_mode():
        boxes = torch.cat([model(picture) for picture in pictures])
    return boxes.mean().item()


def main():
    pictures = [torch.rand(1, 3, 160, 192, device=DEV) for _ in range(2)]
    for version in range(12):
        score = evaluate(version, pictures)
        gc.collect()
        used = ""
        if DEV == "npu":
            torch.npu.empty_cache()
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use after the model was deleted"
        print(f"version {version}: {score:.4f}{used}", flush=True)


main()
