# kind: "host memory"
# cause: "The lru_cache of rendered prompts has no bound, and each user has a prompt of its own."
# what: "Python objects"
# holder: ["render"]
# mebibytes: [78, 106]
# fixed: "The lru_cache of rendered prompts reaches its bound within the first third of the requests."
import sys
import time
from functools import lru_cache

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv
EXAMPLES = "Question: how much is it? Answer: it depends. " * (1400 if IS_FIXED else 700)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


@lru_cache(maxsize=1000 if IS_FIXED else None)
def render(user, day):
    return f"You help user {user} on day {day}.\n{EXAMPLES}"  # BLAME


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    features = torch.ones(1, 16)
    model(features)
    start = resident()
    length = 0
    for number in range(3300 if IS_FIXED else 3000):
        prompt = render(number, number % 7)  # BLAME
        length += len(prompt)
        features[0, number % 16] = len(prompt) / 40_000
        model(features)
        time.sleep(0.0005)
    if IS_FIXED:
        length = render.cache_info().currsize * len(prompt)
    print(f"{render.cache_info().currsize} prompts in the cache")
    print(f"truth: {length / 2**20:.1f} resident: {resident() - start:.1f}")


main()
