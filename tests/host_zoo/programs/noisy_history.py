# kind: "host memory"
# cause: "Small arrays stay in a dict below large ones that come and go with each request."
# what: "NumPy arrays"
# holder: ["features"]
# mebibytes: [92, 124]
# fixed: "Large arrays of random sizes come and go with each request, and the features of only the last 20 stay."
import random
import sys
import time

import numpy as np
import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Extractor:
    def __init__(self):
        self.features = {}
        self.chooser = random.Random(5)

    def extract(self, number):
        size = self.chooser.randrange(200_000, 3_000_000)
        image = np.full(size, number % 250, dtype=np.uint8)
        place = number % 20 if IS_FIXED else number
        self.features[place] = image[: size // 100 * 100].reshape(100, -1)[:, ::50].astype(np.float32)  # BLAME
        return float(image[0])


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    extractor = Extractor()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(900):
        model(torch.full((1, 16), extractor.extract(number)))
        time.sleep(0.0010)
    kept = sum(array.nbytes for array in extractor.features.values()) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
