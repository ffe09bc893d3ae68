# report: "https://github.com/meta-pytorch/opacus/issues/176"
# topic: "training"
# kind: "leak"
# symptom: "memory climbs with each batch that is evaluated under torch.no_grad(), while training alone stays flat"
# cause: "the forward hooks for gradients per sample save the activations of each layer and only the backward pass takes them out again; under no_grad() nothing does, unless the model is in eval mode"
# devices: ["npu", "cpu"]
# memory: "1GiB"
# holder: ["activations"]
# mebibytes: [55, 85]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
from torch import nn

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


class GradSampleModule(nn.Module):
    """Computes the gradient of each sample, for training with differential privacy."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        for layer in module.modules():
            if isinstance(layer, nn.Linear):
                layer.activations = []
                layer.register_forward_hook(self.capture_activations)
                layer.register_full_backward_hook(self.capture_backprops)

    def forward(self, x):
        return self.module(x)  # BLAME

    def capture_activations(self, layer, inputs, output):
        if layer.training:
            layer.activations.append(inputs[0].detach())  # BLAME

    def capture_backprops(self, layer, grad_inputs, grad_outputs):
        activation, backprop = layer.activations.pop(), grad_outputs[0].detach()
        layer.weight.grad_norms = activation.norm(dim=1) * backprop.norm(dim=1)


def evaluate(model, batches):
    if "fixed" in sys.argv:
        model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in batches:
            right += (model(images).argmax(dim=1) == labels).sum().item()  # BLAME
    model.train()
    return right / sum(len(labels) for _, labels in batches)


def main():
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    model = GradSampleModule(net.to(DEV))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    train = [(torch.randn(64, 784, device=DEV), torch.randint(0, 10, (64,), device=DEV)) for _ in range(6)]
    held_out = [(torch.randn(512, 784, device=DEV), torch.randint(0, 10, (512,), device=DEV)) for _ in range(4)]
    for epoch in range(12):
        for images, labels in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        accuracy = evaluate(model, held_out)
        if epoch % 3 == 2:
            waiting = sum(len(layer.activations) for layer in net if isinstance(layer, nn.Linear))
            print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {accuracy:.2f}, {waiting} activations", flush=True)
            if DEV == "npu":
                print(f"    {torch.npu.memory_allocated() / 2**20:.1f} MiB in use", flush=True)


main()
