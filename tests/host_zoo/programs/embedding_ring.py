# kind: "healthy"
# cause: "Embeddings go into one array that was made at the start and is written over in turn."
# what: "NumPy arrays"
# holder: []
# mebibytes: []
import time

import numpy as np
import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Evaluation:
    def __init__(self, places=1000):
        self.embeddings = np.zeros((places, 16, 1000), dtype=np.float32)
        self.embeddings[:] = -1.0
        self.added = 0

    def add(self, scores):
        self.embeddings[self.added % len(self.embeddings)] = np.repeat(scores, 1000).reshape(16, 1000)
        self.added += 1


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    evaluation = Evaluation()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(2400):
        evaluation.add(model(torch.full((1, 16), number / 2400)).numpy()[0])
        time.sleep(0.0006)
    print(f"{evaluation.added} embeddings, mean {evaluation.embeddings.mean():.3f}")
    print(f"truth: 0.0 resident: {resident() - start:.1f}")


main()
