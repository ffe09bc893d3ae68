# kind: "host memory"
# cause: "The handler is a closure whose history of requests only grows."
# what: "Python objects"
# holder: ["history"]
# mebibytes: [66, 89]
# fixed: "The handler is a closure that remembers only the sizes of earlier requests: a few KiB of log."
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def make_handler(model):
    history = []

    def handle(body):
        history.append(len(body) if IS_FIXED else body)  # BLAME
        features = torch.tensor([[float(value) for value in body[:16]]])
        return model(features).max().item()

    def size():
        return 8 * len(history) if IS_FIXED else sum(len(body) for body in history)

    return handle, size


def receive(number):
    return bytes([number % 251]) * (30_000 + number % 9_000)  # BLAME


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    handle, size = make_handler(model)
    model(torch.ones(1, 16))
    start = resident()
    for number in range(2600):
        handle(receive(number))
        time.sleep(0.0005)
    print(f"truth: {size() / 2**20:.1f} resident: {resident() - start:.1f}")


main()
