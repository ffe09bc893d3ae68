# kind: "healthy"
# cause: "Each batch registers a closure that keeps the batch, and the closures run and go at the end of each epoch."
# what: "Python objects"
# holder: []
# mebibytes: []
import time

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(16, 16)
        self.after_epoch = []

    def report_later(self, rows):
        def report():
            return len(rows)

        self.after_epoch.append(report)

    def step(self, number):
        rows = [f"{number}:{place}".zfill(150) for place in range(220)]
        self.report_later(rows)
        return self.model(torch.full((1, 16), float(len(rows))))

    def end_epoch(self):
        rows = sum(report() for report in self.after_epoch)
        self.after_epoch.clear()
        return rows


@torch.no_grad()
def main():
    trainer = Trainer()
    trainer.model(torch.ones(1, 16))
    start = resident()
    for number in range(2000):
        trainer.step(number)
        if number % 100 == 99:
            trainer.end_epoch()
        time.sleep(0.0005)
    print(f"truth: {len(trainer.after_epoch):.1f} resident: {resident() - start:.1f}")


main()
