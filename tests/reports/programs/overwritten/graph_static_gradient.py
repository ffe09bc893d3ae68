# report: "https://github.com/NVIDIA/TransformerEngine/pull/2937"
# topic: "training"
# kind: "overwritten"
# symptom: "gradients kept from one replay of a captured graph change when a later microbatch is replayed, and accumulation goes wrong"
# cause: "the replay returns the graph's static gradient buffer itself, and the next replay writes into it; cloning the returned gradients repairs it"
# devices: ["npu", "cpu"]
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: True
import os
import sys

import torch

import msmemscope

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


class GraphedLinear:
    """A linear layer whose backward pass is replayed with buffers of fixed addresses."""

    def __init__(self, features, batch, clone_grads):
        self.weight = torch.randn(features, features).to(DEV) * 0.02
        self.static_input = torch.zeros(batch, features, device=DEV)
        self.static_grad_output = torch.zeros(batch, features, device=DEV)
        self.static_grad_weight = torch.zeros(features, features, device=DEV)
        self.clone_grads = clone_grads

    def forward(self, x):
        self.static_input.copy_(x)
        return self.static_input @ self.weight

    def backward(self, grad_output):
        self.static_grad_output.copy_(grad_output)
        torch.mm(self.static_input.T, self.static_grad_output, out=self.static_grad_weight)  # BLAME
        return self.static_grad_weight.clone() if self.clone_grads else self.static_grad_weight


def main():
    layer = GraphedLinear(256, 32, clone_grads="fixed" in sys.argv)
    gradients, norms = [], []
    for microbatch in range(4):
        x = torch.randn(32, 256).to(DEV)
        y = layer.forward(x)
        gradient = layer.backward(2 * (y - x) / y.numel())
        gradients.append(gradient)
        norms.append(gradient.norm().item())
        if microbatch == 0:
            msmemscope.watcher.watch(gradient, name="gradient_of_microbatch_0")
    for microbatch, (norm, gradient) in enumerate(zip(norms, gradients, strict=True)):
        print(f"microbatch {microbatch}: norm of the gradient was {norm:.6f} and is {gradient.norm().item():.6f}")
    msmemscope.watcher.remove(gradients[0])


main()
