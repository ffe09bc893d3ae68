# report: "https://github.com/pytorch/pytorch/issues/9439"
# topic: "training"
# kind: "out of memory"
# symptom: "with the same batch size, training fits with SGD and runs out of memory with Adam"
# cause: "Adam keeps two states as large as the parameters, which it allocates in its first step"
# devices: ["npu"]
# memory: "1GiB"
# holder: ["optimizer.state", "optimizer"]
# mebibytes: [250, 400]
# remedy: "limit"
# options: []
# fixed: True
import sys

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
CLASSES = 40


class VGG(nn.Module):
    def __init__(self, width=2160, depth=11):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 15, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(12),
        )
        layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width, bias=False), nn.ReLU())]
        self.classifier = nn.Sequential(*layers, nn.Linear(width, CLASSES))

    def forward(self, pictures):
        return self.classifier(self.features(pictures).flatten(1))


def batches(count, batch_size=6):
    for _ in range(count):
        labels = torch.randint(0, CLASSES, (batch_size,), device="npu")
        yield torch.randn(batch_size, 3, 224, 224, device="npu"), labels


def main():
    model = VGG().to("npu")
    criterion = nn.CrossEntropyLoss()
    if "fixed" in sys.argv:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    else:
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for step, (pictures, labels) in enumerate(batches(5)):
        optimizer.zero_grad()
        output = model(pictures)
        loss = criterion(output, labels)
        print(f"step {step}: loss {loss.item():.3f}, {torch.npu.memory_allocated() / 2**20:.0f} MiB in use", flush=True)
        loss.backward()
        optimizer.step()  # BLAME


main()
