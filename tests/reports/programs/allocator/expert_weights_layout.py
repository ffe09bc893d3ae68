# report: "https://github.com/vllm-project/vllm/pull/41268"
# topic: "serving"
# kind: "fragmentation"
# symptom: "a mixture-of-experts model that fitted before runs out of device memory while its weights are post-processed at startup"
# cause: "the gate/up weights leave a cached segment behind, the smaller down weights are placed inside it, and the rest is too small for either and is pinned, once per layer"
# devices: ["npu"]
# memory: "1GiB"
# holder: []
# mebibytes: [150, 240]
# remedy: "setting"
# options: []
# fixed: True
import os
import sys

if "fixed" in sys.argv:
    os.environ["PYTORCH_NPU_ALLOC_CONF"] = "max_split_size_mb:20"

import torch
import torch_npu  # noqa: F401

torch.set_num_threads(1)
LAYERS, HIDDEN = 9, 1024
GATE_UP, DOWN = 13568, 6912  # rows: 53 MiB and 27 MiB of float32


def swizzle(weight):
    """The layout that the matrix unit wants: tiles of 16 rows."""
    return weight.view(-1, 16, HIDDEN).transpose(1, 2).contiguous().view(weight.shape)


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up = self.down = None

    def process_weights_after_loading(self):
        checkpoint = torch.zeros(GATE_UP, HIDDEN, device="npu")  # BLAME
        self.gate_up = swizzle(checkpoint)
        del checkpoint
        self.down = torch.zeros(DOWN, HIDDEN, device="npu")  # BLAME

    def forward(self, x):
        return x + (x @ self.gate_up[:HIDDEN].T) @ self.down[:HIDDEN]


def used():
    return torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20


@torch.inference_mode()
def main():
    model = torch.nn.Sequential(*[Experts() for _ in range(LAYERS)])
    for number, layer in enumerate(model):
        try:
            layer.process_weights_after_loading()
        except torch.OutOfMemoryError:
            print("layer %d does not fit: %.0f MiB in use, %.0f MiB reserved" % (number, *used()), flush=True)
            raise
        print("layer %d: %.0f MiB in use, %.0f MiB reserved" % (number, *used()), flush=True)
    print("ready:", model(torch.randn(4, HIDDEN, device="npu")).shape)


main()
