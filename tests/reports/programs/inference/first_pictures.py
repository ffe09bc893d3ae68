# report: "https://github.com/modelscope/modelscope/issues/867"
# topic: "inference"
# kind: "healthy"
# symptom: "calling the skin retouching pipeline takes about 100 MB more each time, which was taken for a leak on the CPU"
# cause: "no leak: memory increases in the early stage of inference, over about the first 8 of 2000 pictures, and then remains stable"
# devices: ["cpu"]
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: False
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down = nn.ModuleList(
            nn.Conv2d(3 if level == 0 else width << (level - 1), width << level, 3, stride=2, padding=1)
            for level in range(3)
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(width << level, width << (level - 1) if level else 3, 2, stride=2)
            for level in reversed(range(3))
        )

    def forward(self, x):
        skips = []
        for layer in self.down:
            skips.append(x)
            x = torch.relu(layer(x))
        for layer in self.up:
            skip = skips.pop()
            x = layer(x)[..., : skip.shape[2], : skip.shape[3]] + skip
        return x


class SkinRetouching:
    def __init__(self):
        self.net = UNet().eval()

    def preprocess(self, picture):
        x = picture.permute(2, 0, 1).float().div(255)
        height, width = x.shape[1:]
        return nn.functional.pad(x[None], (0, -width % 8, 0, -height % 8)), (height, width)

    @torch.inference_mode()
    def __call__(self, picture):
        x, (height, width) = self.preprocess(picture)
        y = self.net(x)[0, :, :height, :width]
        return y.clamp(0, 1).mul(255).byte().permute(1, 2, 0).contiguous()


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    retouch = SkinRetouching()
    start = resident()
    sizes = [(480, 640), (600, 800), (768, 576), (720, 960), (1024, 768), (900, 1200), (640, 480), (1080, 1440)]
    for number in range(48):
        height, width = sizes[number % len(sizes)]
        picture = torch.randint(0, 256, (height, width, 3), dtype=torch.uint8)
        result = retouch(picture)
        if number < 10 or number % 8 == 7:
            print(f"picture {number}: {tuple(result.shape)}, grown by {resident() - start:.0f} MiB", flush=True)


main()
