# report: "https://github.com/yangluo7/CAME/issues/2"
# topic: "training"
# kind: "overwritten"
# symptom: "the optimizer converges more slowly than it should wherever a parameter is a vector"
# cause: "without factoring, update is exp_avg itself and not a copy, so multiplying it by the learning rate in place overwrites the momentum; exp_avg.clone() repairs it"
# devices: ["cpu", "npu"]
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: True
import os
import sys

import torch
from torch import nn

import msmemscope

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


class CAME(torch.optim.Optimizer):
    """Adafactor guided by confidence; matrices are factored, vectors are not."""

    def __init__(self, params, lr=1e-2, betas=(0.9, 0.999), eps=1e-16):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})
        self.watched = None

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                exp_avg = state["exp_avg"]
                exp_avg.mul_(beta1).add_(p.grad / (state["exp_avg_sq"].sqrt() + group["eps"]), alpha=1 - beta1)
                if p is self.watched:  # the momentum of this step is complete: nobody should change it now
                    msmemscope.watcher.watch(exp_avg, name="exp_avg")
                if p.dim() >= 2:
                    instability = (p.grad - exp_avg).square()
                    rows, columns = instability.mean(-1, keepdim=True), instability.mean(-2, keepdim=True)
                    update = exp_avg / (1 + (rows * columns).sqrt())
                elif "fixed" in sys.argv:
                    update = exp_avg.clone()
                else:
                    update = exp_avg
                update.mul_(group["lr"])  # BLAME
                p.sub_(update)
                if p is self.watched:
                    msmemscope.watcher.remove(exp_avg)


def main():
    model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 1)).to(DEV)
    optimizer = CAME(model.parameters())
    optimizer.watched = model[0].bias
    x = torch.randn(256, 32, device=DEV)
    target = x[:, :4].sum(1, keepdim=True)
    for step in range(20):
        loss = nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            moments = [optimizer.state[p]["exp_avg"].abs().mean().item() for p in (model[0].weight, model[0].bias)]
            print(
                f"step {step}: loss {loss.item():.3f}, momentum of weight {moments[0]:.5f}, of bias {moments[1]:.5f}",
                flush=True,
            )


main()
