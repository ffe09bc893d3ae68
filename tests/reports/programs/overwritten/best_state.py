# report: "https://github.com/WenjieDu/PyPOTS/issues/667"
# topic: "training"
# kind: "overwritten"
# symptom: "the model restored after early stopping is not the best one, whatever epoch was the best"
# cause: "state_dict() returns references, so the optimizer goes on writing into the weights that were meant to be kept as the best ones"
# devices: ["npu", "cpu"]
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: True
import copy
import os
import sys

import torch

import msmemscope

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


class Imputer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(48, 128)
        self.decoder = torch.nn.Linear(128, 48)

    def forward(self, x):
        return self.decoder(torch.relu(self.encoder(x)))


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
        self.best_loss = float("inf")
        self.best_state = None

    def train_epoch(self, batches):
        for batch in batches:
            self.optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(batch), batch).backward()
            self.optimizer.step()  # BLAME

    @torch.no_grad()
    def validate(self, batch):
        return torch.nn.functional.mse_loss(self.model(batch), batch).item()

    def fit(self, batches, held_out, epochs):
        for epoch in range(epochs):
            self.train_epoch(batches)
            loss = self.validate(held_out)
            if epoch == 3:  # the best so far: whoever doubts it wants to know who changes it from here on
                self.best_loss, self.best_state = loss, self.model.state_dict()
                if "fixed" in sys.argv:
                    self.best_state = copy.deepcopy(self.best_state)
                self.checksum = self.best_state["decoder.weight"].double().sum().item()
                msmemscope.watcher.watch(self.best_state["decoder.weight"], name="best_state")
            print(f"epoch {epoch}: validation loss {loss:.4f}")


def main():
    batches = [torch.randn(32, 48).to(DEV) for _ in range(4)]
    trainer = Trainer(Imputer().to(DEV))
    trainer.fit(batches, torch.randn(64, 48).to(DEV), epochs=6)
    weight = trainer.best_state["decoder.weight"]
    print(f"the sum of the best weights was {trainer.checksum:.4f} and is {weight.double().sum().item():.4f}")
    msmemscope.watcher.remove(weight)


main()
