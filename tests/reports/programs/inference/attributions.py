# report: "https://github.com/jmschrei/tangermeme/pull/84"
# topic: "inference"
# kind: "leak"
# symptom: "memory grows while the predictions of an ensemble are attributed to the sequence, one model after the other"
# cause: "_clear_hooks removes the hooks but not the module.input and module.output that they had stored, so each model keeps the activations of its last batch"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: [".input", ".output", "models", "ensemble"]
# mebibytes: [75, 110]
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

torch.set_num_threads(1)
torch.manual_seed(0)
LENGTH = 2000


def build():
    return nn.Sequential(
        nn.Conv1d(4, 32, 21, padding=10),
        nn.ReLU(),
        nn.Conv1d(32, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(8),
        nn.Flatten(),
        nn.Linear(128, 1),
    ).to(DEV)


def _f_hook(module, inputs, outputs):
    module.input = inputs[0].clone().detach()  # BLAME
    module.output = outputs.clone().detach()  # BLAME


def _b_hook(module, grad_input, grad_output):
    delta = (module.output / module.input.clamp(min=1e-6)).clamp(0, 1)
    return (grad_output[0] * delta,)


def _register_hooks(model):
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            yield module.register_forward_hook(_f_hook)
            yield module.register_full_backward_hook(_b_hook)


def _clear_hooks(model, handles):
    for handle in handles:
        handle.remove()
    if "fixed" in sys.argv:
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                del module.input, module.output


def deep_lift_shap(model, sequences, batch_size=8):
    attributions = []
    handles = list(_register_hooks(model))
    for batch in sequences.split(batch_size):
        batch = batch.to(DEV).requires_grad_()
        model(batch).sum().backward()
        attributions.append((batch.grad * batch).detach().sum(1).cpu())
    _clear_hooks(model, handles)
    model.zero_grad()
    return torch.cat(attributions)


def main():
    models = [build() for _ in range(18)]
    sequences = nn.functional.one_hot(torch.randint(0, 4, (24, LENGTH)), 4).float().transpose(1, 2)
    total = torch.zeros(24, LENGTH)
    for number, model in enumerate(models):
        total += deep_lift_shap(model, sequences)
        used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
        print(f"model {number}: {total.abs().mean() / (number + 1):.6f}{used}", flush=True)


main()
