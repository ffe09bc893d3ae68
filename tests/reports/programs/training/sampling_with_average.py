# report: "https://github.com/huggingface/diffusers/issues/2321"
# topic: "training"
# kind: "overwritten"
# symptom: "since pictures are sampled during training without a copy of the model, training seems to go on from other weights than it had reached"
# cause: "unwrapping gives the very model that is trained, and copying the averaged weights into it for sampling overwrites the weights of training"
# devices: ["npu", "cpu"]
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: True
import copy
import os
import sys

import torch
from torch import nn

import msmemscope

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_in = nn.Conv2d(1, 16, 3, padding=1)
        self.conv_out = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x):
        return self.conv_out(torch.relu(self.conv_in(x)))


class EMAModel:
    def __init__(self, parameters, decay=0.9):
        self.decay = decay
        self.shadow_params = [p.detach().clone() for p in parameters]

    @torch.no_grad()
    def step(self, parameters):
        for shadow, param in zip(self.shadow_params, parameters, strict=True):
            shadow.sub_((1 - self.decay) * (shadow - param))

    @torch.no_grad()
    def copy_to(self, parameters):
        for shadow, param in zip(self.shadow_params, parameters, strict=True):
            param.copy_(shadow)  # BLAME


def unwrap_model(model):
    return copy.deepcopy(model) if "fixed" in sys.argv else model


@torch.no_grad()
def sample(unet, steps=4):
    picture = torch.randn(4, 1, 16, 16, device=DEV)
    for _ in range(steps):
        picture = picture - 0.25 * unet(picture)
    return picture


def main():
    model = UNet().to(DEV)
    ema = EMAModel(model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(4):
        for _ in range(5):
            clean = torch.rand(16, 1, 16, 16, device=DEV)
            noise = torch.randn_like(clean)
            loss = nn.functional.mse_loss(model(clean + noise), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.step(model.parameters())
        msmemscope.watcher.watch(model.conv_out.weight, name="conv_out.weight")  # sampling should leave it alone
        before = model.conv_out.weight.detach().norm().item()
        unet = unwrap_model(model)
        ema.copy_to(unet.parameters())
        pictures = sample(unet)
        after = model.conv_out.weight.detach().norm().item()
        msmemscope.watcher.remove(model.conv_out.weight)
        print(
            f"epoch {epoch}: loss {loss.item():.3f}, pictures {pictures.std().item():.3f}, weights {before:.4f}, "
            f"after sampling {after:.4f}",
            flush=True,
        )


main()
