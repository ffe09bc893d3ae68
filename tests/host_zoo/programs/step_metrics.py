# kind: "host memory"
# cause: "A defaultdict of lists gets some hundred single figures per step, and nothing sums them up."
# what: "Python objects"
# holder: ["metrics"]
# mebibytes: [71, 96]
# fixed: "A defaultdict of lists gets some hundred figures per step, and is averaged and emptied after each 200 steps."
import sys
import time
from collections import defaultdict

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv
LAYERS = [f"layer.{number}" for number in range(40)]


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Monitor:
    def __init__(self):
        self.metrics = defaultdict(list)
        self.means = []

    def log(self, step, scores):
        for place, layer in enumerate(LAYERS):
            for score in scores:
                self.metrics[layer].append(score + step * place)  # BLAME

    def average(self):
        self.means.append({layer: sum(values) / len(values) for layer, values in self.metrics.items()})
        self.metrics.clear()

    def size(self):
        return sum(sys.getsizeof(values) + 32 * len(values) for values in self.metrics.values())


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    monitor = Monitor()
    model(torch.ones(1, 16))
    start = resident()
    for step in range(3400):
        scores = model(torch.full((1, 16), step / 3400)).tolist()[0]
        monitor.log(step, scores)
        if IS_FIXED and step % 200 == 199:
            monitor.average()
        time.sleep(0.0003)
    kept = len(monitor.means) * len(LAYERS) * 100 if IS_FIXED else monitor.size()
    print(f"truth: {kept / 2**20:.1f} resident: {resident() - start:.1f}")


main()
