# report: "https://github.com/TorchSim/torch-sim/pull/559"
# topic: "training"
# kind: "growth"
# symptom: "allocated memory grows linearly with the steps of the optimizer while batches stay the same, until the card is full"
# cause: "the history of L-BFGS is concatenated from positions that require gradients and is never detached, so each step's history keeps all earlier ones and what was saved for them"
# devices: ["npu", "cpu"]
# memory: "1GiB"
# holder: ["s_history", "y_history", "state"]
# mebibytes: [35, 60]
# remedy: "release"
# options: []
# fixed: True
import os
import sys
from dataclasses import dataclass

import torch
from torch import nn

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)
MEMORY = 8


class ForceField(nn.Module):
    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, positions):
        energy = self.energy(positions).sum() + positions.square().sum()  # BLAME
        return -torch.autograd.grad(energy, positions, create_graph=True)[0]  # BLAME


@dataclass
class State:
    positions: torch.Tensor
    forces: torch.Tensor
    s_history: torch.Tensor
    y_history: torch.Tensor


def start(model, positions):
    positions = positions.requires_grad_()
    empty = torch.zeros(len(positions), 0, 3, device=DEV)
    return State(positions, model(positions), empty, empty)


def detached(tensor):
    return tensor.detach() if "fixed" in sys.argv else tensor


def step(model, state, length=0.02):
    direction = state.forces
    for k in range(state.s_history.shape[1]):
        s, y = state.s_history[:, k], state.y_history[:, k]
        direction = direction - 0.01 * s * (s * y).sum()  # BLAME
    moved = state.positions + length * direction.clamp(-1, 1)
    positions = moved.detach().requires_grad_()
    forces = model(positions)
    s_new, y_new = detached(moved - state.positions), detached(state.forces - forces)
    state.s_history = torch.cat([state.s_history, s_new.unsqueeze(1)], dim=1)[:, -MEMORY:]  # BLAME
    state.y_history = torch.cat([state.y_history, y_new.unsqueeze(1)], dim=1)[:, -MEMORY:]  # BLAME
    state.positions, state.forces = positions, detached(forces)


def main():
    model = ForceField().to(DEV)
    state = start(model, torch.randn(1024, 3, device=DEV))
    for number in range(40):
        step(model, state)
        if number % 8 == 7:
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"step {number}: largest force {state.forces.norm(dim=1).max().item():.3f}{used}", flush=True)


main()
