# report: "https://github.com/turboderp-org/exllamav2/issues/100"
# topic: "serving"
# kind: "leak"
# symptom: "loading another LoRA takes additional device memory each time, although the one before was set to None"
# cause: "a LoRA is attached to the layers of the model when it is loaded, and the layers keep its tensors; unload() has to detach it from them"
# devices: ["npu", "cpu"]
# memory: "1GiB"
# holder: ["lora_a_tensors", "lora_b_tensors"]
# mebibytes: [60, 92]
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

torch.set_num_threads(1)
torch.manual_seed(0)
HIDDEN, RANK, LAYERS = 1024, 64, 6


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(HIDDEN, HIDDEN) / HIDDEN, requires_grad=False)
        self.lora_a_tensors, self.lora_b_tensors = {}, {}

    def forward(self, x, lora):
        y = x @ self.weight
        if lora is not None:
            y = y + (x @ self.lora_a_tensors[lora]) @ self.lora_b_tensors[lora]
        return y


class Lora:
    def __init__(self, model, config):
        self.model, self.config = model, config
        for layer, (a, b) in zip(model.layers, config["tensors"](), strict=True):
            layer.lora_a_tensors[self] = a.to(DEV)  # BLAME
            layer.lora_b_tensors[self] = b.to(DEV)  # BLAME

    def unload(self):
        for layer in self.model.layers:
            del layer.lora_a_tensors[self], layer.lora_b_tensors[self]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Linear() for _ in range(LAYERS))

    @torch.inference_mode()
    def forward(self, x, lora=None):
        for layer in self.layers:
            x = torch.tanh(layer(x, lora))
        return x


def checkpoint(seed):
    def tensors():
        generator = torch.Generator().manual_seed(seed)
        for _ in range(LAYERS):
            pair = torch.randn(2, HIDDEN, RANK, generator=generator) / HIDDEN  # BLAME
            yield pair[0].clone(), pair[1].T.contiguous()  # BLAME

    return {"name": f"customer-{seed}", "tensors": tensors}


class Worker:
    def __init__(self):
        self.model = Model().to(DEV).eval()
        self.lora = None

    def use(self, config):
        if self.lora is not None and self.lora.config["name"] == config["name"]:
            return
        if self.lora is not None and "fixed" in sys.argv:
            self.lora.unload()
        self.lora = None
        self.lora = Lora(self.model, config)  # BLAME


def main():
    worker = Worker()
    for number in range(30):
        worker.use(checkpoint(seed=number))
        for _ in range(3):
            answer = worker.model(torch.randn(8, HIDDEN, device=DEV), worker.lora)
        if number % 6 == 5:
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"{number + 1} customers: {answer.std():.4f}{used}", flush=True)


main()
