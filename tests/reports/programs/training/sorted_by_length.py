# report: "https://github.com/mozilla/DeepSpeech/issues/602"
# topic: "training"
# kind: "healthy"
# symptom: "memory grows during the first epoch with each batch, and each batch takes longer than the one before, which was reported as a leak"
# cause: "no leak: the samples are sorted by length for curriculum learning, so later batches are longer"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: False
import os
import random

import torch
from torch import nn

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


class SpeechModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.context = nn.Conv1d(26, 96, 9, padding=4)
        self.dense = nn.Sequential(nn.Linear(96, 192), nn.Hardtanh(0, 20), nn.Linear(192, 96), nn.ReLU())
        self.logits = nn.Linear(96, 29)

    def forward(self, features):
        return self.logits(self.dense(self.context(features).transpose(1, 2)))


class Utterances:
    """Seconds of speech; short ones first, so that the model learns the easy ones before the long ones."""

    def __init__(self, count, batch_size):
        frames = sorted(int(random.Random(index).lognormvariate(5.2, 0.7)) + 20 for index in range(count))
        self.batches = [frames[k : k + batch_size] for k in range(0, count, batch_size)]

    def __iter__(self):
        for lengths in self.batches:
            features = torch.zeros(len(lengths), 26, max(lengths))
            for row, length in enumerate(lengths):
                features[row, :, :length] = torch.randn(26, length)
            labels = torch.randint(0, 29, (len(lengths), max(lengths)))
            yield features.to(DEV), labels.to(DEV)


def main():
    model = SpeechModel().to(DEV)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1):
        for step, (features, labels) in enumerate(Utterances(24 * 12, batch_size=12)):
            logits = model(features)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 4 == 3:
                used = f", peak {torch.npu.max_memory_allocated() / 2**20:.0f} MiB" if DEV == "npu" else ""
                print(
                    f"epoch {epoch}, step {step}: {features.shape[2]} frames, loss {loss.item():.3f}{used}", flush=True
                )


main()
