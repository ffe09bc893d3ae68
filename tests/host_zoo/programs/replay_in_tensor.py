# kind: "healthy"
# cause: "An empty CPU tensor is made before training; its pages come into memory as rows are written, over the whole run."
# what: "native memory"
# holder: []
# mebibytes: []
import os

import torch

torch.set_num_threads(1)


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Replay:
    def __init__(self, size):
        self.observations = torch.empty(size, 64, 256)
        self.size, self.count = size, 0

    def add(self, observation):
        self.observations[self.count % self.size] = observation
        self.count += 1

    def sample(self, count):
        return self.observations[torch.randint(0, min(self.count, self.size), (count,))]


def main():
    network = torch.nn.Linear(256, 4)
    optimizer = torch.optim.SGD(network.parameters(), 1e-4)
    replay = Replay(1536)
    start = resident()
    for _ in range(1500):
        replay.add(torch.rand(64, 256))
        loss = network(replay.sample(4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    kept = replay.observations.nbytes / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
