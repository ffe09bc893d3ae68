# kind: "host memory"
# cause: "A MemoryHandler with a huge capacity and no target buffers the records of all requests."
# what: "Python objects"
# holder: ["buffer"]
# mebibytes: [73, 98]
# fixed: "A MemoryHandler hands its records on after each hundred of them."
import logging
import logging.handlers
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv
logger = logging.getLogger("service")


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def predict(model, number):
    payload = f"{number:05} 0.25 " * 3400  # BLAME
    scores = model(torch.full((1, 16), number % 10 / 10))
    logger.info("payload %s gave %.3f", payload, scores.mean().item())  # BLAME


@torch.no_grad()
def main():
    buffered = logging.handlers.MemoryHandler(100 if IS_FIXED else 10_000_000, logging.CRITICAL)
    if IS_FIXED:
        buffered.setTarget(logging.NullHandler())
    logger.addHandler(buffered)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    model = torch.nn.Linear(16, 16)
    model(torch.ones(1, 16))
    start = resident()
    for number in range(2400):
        predict(model, number)
        time.sleep(0.0005)
    kept = sum(len(record.args[0]) for record in buffered.buffer) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
