# kind: "host memory"
# cause: "NumPy arrays of all requests stay in a list for an evaluation at the end."
# what: "NumPy arrays"
# holder: ["embeddings"]
# mebibytes: [79, 107]
import time

import numpy as np
import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Evaluation:
    def __init__(self):
        self.embeddings = []

    def add(self, scores, number):
        embedding = np.repeat(scores, 700 + number % 300).astype(np.float32)  # BLAME
        self.embeddings.append(embedding)  # BLAME


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    evaluation = Evaluation()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(1800):
        scores = model(torch.full((1, 16), number / 1800)).numpy()[0]
        evaluation.add(scores, number)
        time.sleep(0.0008)
    kept = sum(embedding.nbytes for embedding in evaluation.embeddings) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
