# kind: "host memory"
# cause: "The deque of recent prompts has no maxlen."
# what: "Python objects"
# holder: ["recent"]
# mebibytes: [74, 100]
# fixed: "The deque of recent prompts keeps the last two hundred of them."
import sys
import time
from collections import deque

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Recommender:
    def __init__(self):
        self.model = torch.nn.Linear(16, 16)
        self.recent = deque(maxlen=200 if IS_FIXED else None)

    def recommend(self, prompt):
        self.recent.append(prompt)  # BLAME
        features = torch.tensor([[float(len(prompt) % (place + 2)) for place in range(16)]])
        return self.model(features).argmax().item()


def prompts(count):
    for number in range(count):
        yield f"customer {number:06} looked at shoes, " * 1200  # BLAME


@torch.no_grad()
def main():
    recommender = Recommender()
    recommender.model(torch.ones(1, 16))
    start = resident()
    for prompt in prompts(2300):
        recommender.recommend(prompt)
        time.sleep(0.0006)
    kept = sum(map(len, recommender.recent)) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
