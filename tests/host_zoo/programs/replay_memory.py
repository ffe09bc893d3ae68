# kind: "healthy"
# cause: "A buffer for experience fills in the first tenth of the run, and each new entry replaces an old one then."
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


class ReplayMemory:
    def __init__(self, places):
        self.places = places
        self.entries = []
        self.added = 0

    def add(self, entry):
        if len(self.entries) < self.places:
            self.entries.append(entry)
        else:
            self.entries[self.added % self.places] = entry
        self.added += 1


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    memory = ReplayMemory(240)
    chooser = random.Random(0)
    model(torch.ones(1, 16))
    start = resident()
    for step in range(2400):
        memory.add(np.full(90_000, step % 17, dtype=np.float32))
        sample = chooser.choice(memory.entries)[:16]
        model(torch.from_numpy(sample))
        time.sleep(0.0006)
    kept = sum(entry.nbytes for entry in memory.entries) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
