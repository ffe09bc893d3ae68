# kind: "healthy"
# cause: "A big data set is loaded once at the start, and the training only reads it."
# what: "Python objects"
# holder: []
# mebibytes: []
import random
import time

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def load(rows):
    """Makes up a table of numbers as a file would give it."""
    chooser = random.Random(1)
    return [[chooser.random() for _ in range(16)] for _ in range(rows)]


class Trainer:
    def __init__(self, rows):
        self.rows = rows
        self.model = torch.nn.Linear(16, 16)

    def step(self, number):
        row = self.rows[number % len(self.rows)]
        return self.model(torch.tensor([row])).square().mean().item()


@torch.no_grad()
def main():
    start = resident()
    trainer = Trainer(load(130_000))
    loss = 0.0
    for number in range(2400):
        loss += trainer.step(number)
        time.sleep(0.0006)
    kept = len(trainer.rows) * (16 * 32 + 184) / 2**20
    print(f"loss {loss / 2400:.3f}")
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
