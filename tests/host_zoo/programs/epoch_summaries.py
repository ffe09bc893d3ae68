# kind: "host memory"
# cause: "The end of each short epoch adds a summary of all its steps, in a burst, to a list for the report."
# what: "Python objects"
# holder: ["summaries"]
# mebibytes: [68, 92]
import time

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(16, 16)
        self.summaries = []

    def train_epoch(self, epoch, steps=50):
        losses = []
        for step in range(steps):
            losses.append(self.model(torch.full((1, 16), step / steps)).square().mean().item())
            time.sleep(0.0008)
        lines = [f"epoch {epoch:04} step {step:04} loss {loss:.6f}\n" for step, loss in enumerate(losses)]
        self.summaries.append("".join(lines) * 1000)  # BLAME


@torch.no_grad()
def main():
    trainer = Trainer()
    trainer.model(torch.ones(1, 16))
    start = resident()
    for epoch in range(48):
        trainer.train_epoch(epoch)
    kept = sum(map(len, trainer.summaries)) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
