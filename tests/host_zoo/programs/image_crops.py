# kind: "healthy"
# cause: "Arrays of varying sizes are made for each image and freed at once."
# what: "NumPy arrays"
# holder: []
# mebibytes: []
import random
import time

import numpy as np
import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Cropper:
    def __init__(self):
        self.chooser = random.Random(3)

    def crop(self):
        height, width = self.chooser.randrange(40, 700), self.chooser.randrange(40, 700)
        image = np.full((height, width, 3), height % 256, dtype=np.uint8)
        return image[: height // 2, : width // 2].astype(np.float32) / 255


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    cropper = Cropper()
    model(torch.ones(1, 16))
    start = resident()
    brightness = 0.0
    for _ in range(2200):
        crops = [cropper.crop() for _ in range(2)]
        features = torch.tensor([float(crop.mean()) for crop in crops for _ in range(8)])
        brightness += model(features).sum().item()
        time.sleep(0.0004)
    print(f"brightness {brightness:.3f}")
    print(f"truth: 0.0 resident: {resident() - start:.1f}")


main()
