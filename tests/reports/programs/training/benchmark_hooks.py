# report: "https://github.com/NeuroBench/neurobench/issues/184"
# topic: "training"
# kind: "leak"
# symptom: "memory leaks once the benchmark measures the accuracy of the model during training, and more so the more often it does"
# cause: "each benchmark adds hooks to the model that collect activations and are not removed at the end of its run, so they go on collecting while the model trains"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: ["activation_hooks", "activation_outputs", "_forward_hooks"]
# mebibytes: [60, 90]
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


class ActivationHook:
    """Collects the outputs of a layer, and computes their sparsity."""

    def __init__(self, layer):
        self.activation_outputs = []
        self.handle = layer.register_forward_hook(self.hook_fn)

    def hook_fn(self, layer, inputs, output):
        self.activation_outputs.append(output.detach())  # BLAME

    def sparsity(self):
        zeros = sum((output == 0).sum().item() for output in self.activation_outputs)
        return zeros / sum(output.numel() for output in self.activation_outputs)


class Benchmark:
    def __init__(self, model, batches):
        self.model, self.batches = model, batches
        self.activation_hooks = [ActivationHook(layer) for layer in model if isinstance(layer, nn.ReLU)]  # BLAME

    @torch.no_grad()
    def run(self):
        right = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.batches)  # BLAME
        sparsity = sum(hook.sparsity() for hook in self.activation_hooks) / len(self.activation_hooks)
        if "fixed" in sys.argv:
            for hook in self.activation_hooks:
                hook.handle.remove()
        return right / sum(len(y) for _, y in self.batches), sparsity


def keywords(batches, size):
    return [(torch.randn(size, 320, device=DEV), torch.randint(0, 20, (size,), device=DEV)) for _ in range(batches)]


def main():
    model = nn.Sequential(nn.Linear(320, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 20)).to(DEV)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train, test = keywords(4, 256), keywords(2, 512)
    for epoch in range(12):
        for x, y in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)  # BLAME
            loss.backward()
            optimizer.step()
        accuracy, sparsity = Benchmark(model, test).run()
        if epoch % 3 == 2:
            used = f", {torch.npu.memory_allocated() / 2**20:.0f} MiB in use" if DEV == "npu" else ""
            print(f"epoch {epoch}: accuracy {accuracy:.3f}, sparsity {sparsity:.2f}{used}", flush=True)


main()
