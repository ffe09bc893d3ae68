# kind: "host memory"
# cause: "Each batch registers a closure that is called at shutdown and keeps the whole batch until then."
# what: "Python objects"
# holder: ["on_shutdown"]
# mebibytes: [77, 104]
# fixed: "Each batch registers a closure that keeps the batch, and the closures run and go at the end of each epoch."
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(16, 16)
        self.on_shutdown = []

    def report_later(self, rows):
        def report():
            return len(rows)

        self.on_shutdown.append(report)  # BLAME

    def step(self, number):
        rows = [f"{number}:{place}".zfill(150) for place in range(220)]  # BLAME
        self.report_later(rows)
        return self.model(torch.full((1, 16), float(len(rows))))

    def end_epoch(self):
        rows = sum(report() for report in self.on_shutdown)
        self.on_shutdown.clear()
        return rows


@torch.no_grad()
def main():
    trainer = Trainer()
    trainer.model(torch.ones(1, 16))
    start = resident()
    for number in range(2000):
        trainer.step(number)
        if IS_FIXED and number % 100 == 99:
            trainer.end_epoch()
        time.sleep(0.0005)
    rows = sum(report() for report in trainer.on_shutdown)
    kept = rows * (150 + 49 + 9 + 8) / 2**20  # characters, header, rounding, place in the list
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
