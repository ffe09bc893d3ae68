# kind: "host memory"
# cause: "A trainer keeps a checkpoint in memory for each time that it might roll back to, and drops none."
# what: "Python objects"
# holder: ["checkpoints"]
# mebibytes: [95, 135]
# fixed: "A trainer keeps the latest three checkpoints in memory to roll back to."
import io
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(1100, 1100)
        self.checkpoints = []

    def keep(self):
        checkpoint = io.BytesIO()
        torch.save(self.model.state_dict(), checkpoint)  # BLAME
        self.checkpoints.append(checkpoint)
        if IS_FIXED:
            del self.checkpoints[:-3]


@torch.no_grad()
def main():
    trainer = Trainer()
    trainer.keep()
    start = resident()
    for step in range(240):
        trainer.model(torch.ones(4, 1100))
        if step % 10 == 0:
            trainer.keep()
        time.sleep(0.02)
    kept = sum(len(checkpoint.getbuffer()) for checkpoint in trainer.checkpoints[1:]) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
