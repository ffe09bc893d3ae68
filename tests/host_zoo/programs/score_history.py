# kind: "host memory"
# cause: "All scores are concatenated to one array, which grows with each request."
# what: "NumPy arrays"
# holder: ["history"]
# mebibytes: [62, 84]
import time

import numpy as np
import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Calibration:
    def __init__(self):
        self.history = np.zeros(0, dtype=np.float32)

    def add(self, scores):
        rows = np.tile(scores, 6000)
        self.history = np.concatenate([self.history, rows])  # BLAME


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    calibration = Calibration()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(200):
        scores = model(torch.full((1, 16), number / 200)).numpy()[0]
        calibration.add(scores)
        time.sleep(0.004)
    kept = calibration.history.nbytes / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
