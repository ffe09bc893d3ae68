# report: "https://github.com/pnnl/neuromancer/pull/292"
# topic: "training"
# kind: "leak"
# symptom: "memory grows by hundreds of megabytes over a long training, a little with each epoch"
# cause: "the trainer stores the metrics of each epoch without detaching them, so that each of them keeps the graph it was computed with"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: ["history", "dev_loss"]
# mebibytes: [35, 55]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
from torch import nn

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


class Pendulum(nn.Module):
    """Predicts the next state; the loss penalises what violates the physics, for which it needs gradients of the state."""

    def __init__(self, width=256):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)
        )

    def forward(self, state):
        state = state.clone().requires_grad_()
        moved = self.net(state)  # BLAME
        (slope,) = torch.autograd.grad(moved.sum(), state, create_graph=True)  # BLAME
        data_loss = (moved - 0.99 * state.detach()).square().mean()  # BLAME
        return {"loss": data_loss + 0.01 * slope.square().mean(), "data_loss": data_loss}


class Trainer:
    def __init__(self, problem, optimizer, epochs):
        self.problem, self.optimizer, self.epochs = problem, optimizer, epochs
        self.history = []

    def train_epoch(self, batches):
        for batch in batches:
            output = self.problem(batch)
            self.optimizer.zero_grad()
            output["loss"].backward()
            self.optimizer.step()

    def evaluate(self, batch):
        output = self.problem(batch)  # BLAME
        if "fixed" in sys.argv:
            output = {name: value.detach() for name, value in output.items()}
        return {f"dev_{name}": value for name, value in output.items()}

    def train(self, batches, dev_batch):
        for epoch in range(self.epochs):
            self.train_epoch(batches)
            metrics = self.evaluate(dev_batch)
            self.history.append(metrics)  # BLAME
            if epoch % 4 == 3:
                print(f"epoch {epoch}: dev loss {metrics['dev_loss'].item():.4f}, {in_use():.0f} MiB", flush=True)
        return min(self.history, key=lambda metrics: metrics["dev_loss"].item())


def in_use():
    if DEV == "npu":
        return torch.npu.memory_allocated() / 2**20
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    problem = Pendulum().to(DEV)
    trainer = Trainer(problem, torch.optim.AdamW(problem.parameters(), lr=1e-3), epochs=16)
    batches = [torch.randn(64, 2, device=DEV) for _ in range(4)]
    best = trainer.train(batches, torch.randn(512, 2, device=DEV))
    print(f"the best dev loss was {best['dev_loss'].item():.4f}")


main()
