# report: "https://github.com/RosettaCommons/RFdiffusion/pull/451"
# topic: "inference"
# kind: "reserved"
# symptom: "device memory of a worker climbs from design to design, so that fewer workers fit on a card than should"
# cause: "designs of varied lengths ask for tensors of ever other sizes, and freed blocks stay cached though they fit nothing later; emptying the cache after each design keeps a worker small"
# devices: ["npu"]
# memory: "1GiB"
# holder: []
# mebibytes: [150, 260]
# remedy: "release"
# options: []
# fixed: True
import random
import sys

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
PAIR = 32


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.single, self.pair = nn.Linear(3, PAIR), nn.Linear(PAIR, PAIR)
        self.coordinates = nn.Linear(PAIR, 3)

    def forward(self, xyz):
        single = self.single(xyz)
        pair = single[:, None] + single[None]  # BLAME
        pair = pair + torch.relu(self.pair(pair))  # BLAME
        attention = torch.softmax(pair.mean(-1), dim=-1)
        return xyz + 0.1 * self.coordinates(attention @ single)


@torch.inference_mode()
def sample(model, length, steps=3):
    xyz = torch.randn(length, 3, device="npu")
    for _ in range(steps):
        xyz = model(xyz)
    return xyz.cpu()


def main():
    model = Denoiser().to("npu").eval()
    contigs = random.Random(1)
    for design in range(24):
        length = contigs.randint(150, 469) + contigs.randint(1, 50)
        structure = sample(model, length)
        if "fixed" in sys.argv:
            torch.npu.empty_cache()
        used, reserved = torch.npu.max_memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
        print(
            f"design {design}: {len(structure)} residues, {used:.0f} MiB at most, {reserved:.0f} MiB reserved",
            flush=True,
        )


main()
