"""Jobs of eight ranks with torch.distributed on the CPU, each with faults that are known; and one without any.

Usage: ranks_with_faults.py FOLDER JOB ... The captures of a job are put into FOLDER/JOB. torch is imported once: ranks are forked after
that. A rank leaves by os._exit, so that its capture is what a killed one leaves: nothing is written when it ends.

Ranks 0 to 7 are data 2 x pipeline 2 x tensor 2 (rank = 4 * data + 2 * pipeline + tensor); in the job `expert`, expert 8.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import torch
from torch import distributed

import msmemscope
from msmemscope import _native
from msmemscope.model.place import Place

WORLD = 8
STEPS = 8
MIB = 1 << 20
FAULTS = {
    "none": set(),
    "leak_one": {"leak_one"},
    "leak_all": {"leak_all"},
    "batch": {"batch"},
    "stages": {"stages"},
    "expert": {"expert"},
    "killed": {"killed"},
    "several": {"leak_one", "leak_all", "batch", "stages"},
}
HISTORY: list[torch.Tensor] = []
CACHE: list[torch.Tensor] = []


class Scale(torch.nn.Module):
    """A layer with 1 MiB of weights, which keeps as much for each row of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(MIB // 4))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        return rows * self.weight


def note_place(rank: int, job: str) -> tuple[int, int]:
    """Note where a rank stands; return its stage and its expert."""
    if job == "expert":
        coordinates, sizes = {"expert": rank}, {"expert": WORLD}
    else:
        coordinates = {"data": rank // 4, "pipeline": rank // 2 % 2, "tensor": rank % 2}
        sizes = dict.fromkeys(coordinates, 2)
    place = Place(rank=rank, world_size=WORLD, coordinates=coordinates, axis_sizes=sizes)
    for key, text in place.to_facts().items():
        _native.note_fact(key, text)
    return coordinates.get("pipeline", 0), coordinates.get("expert", 0)


def leak_on_every_rank() -> None:
    """Keep 1 MiB."""
    CACHE.append(torch.ones(MIB // 4))


def leak_on_one_rank() -> None:
    """Keep 2 MiB."""
    HISTORY.append(torch.ones(2 * MIB // 4))


def route_tokens(expert: int, *, is_hot: bool) -> torch.Tensor:
    """The tokens that a router sends to an expert."""
    return torch.ones(16 * MIB // 4 if is_hot and expert == 6 else 2 * MIB // 4)


def train(rank: int, job: str) -> None:
    """Train for some steps."""
    faults = FAULTS[job]
    stage, expert = note_place(rank, job)
    layers = 12 if "stages" in faults and stage == 1 else 4
    model = torch.nn.Sequential(*(Scale() for _ in range(layers)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = 6 if "batch" in faults and rank == 5 else 2
    for step in range(1, STEPS + 1):
        if "killed" in faults and rank == 6 and step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        tokens = route_tokens(expert, is_hot="expert" in faults)
        output = model(torch.ones(batch, MIB // 4))
        loss = output.mean()
        loss.backward()
        # Ranks that nobody waits for go on without the one that is killed.
        for parameter in (
            () if "killed" in faults else model[0].parameters()
        ):  # stages differ in how many layers they have
            distributed.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        del tokens, output, loss
        if "leak_all" in faults:
            leak_on_every_rank()
        if "leak_one" in faults and rank == 3:
            leak_on_one_rank()
        msmemscope.step()


def run_rank(rank: int, folder: Path, job: str, meeting: str) -> int:
    """Be one rank of a job; return the status."""
    try:
        torch.set_num_threads(1)
        msmemscope.config(output=str(folder / job), device="cpu")
        msmemscope.start()
        distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=WORLD)
        train(rank, job)
        if "killed" not in FAULTS[job]:
            distributed.barrier()
        msmemscope.stop()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Run jobs, one after the other."""
    folder = Path(sys.argv[1])
    # Loaded by torch when an optimizer is made: once here, not in each rank.
    importlib.import_module("torch._dynamo")
    for job in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as meeting:
            children = []
            for rank in range(WORLD):
                child = os.fork()
                if child == 0:
                    os._exit(run_rank(rank, folder, job, f"{meeting}/meeting"))
                children.append(child)
            statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(f"job={job} statuses={','.join(map(str, statuses))}", flush=True)


if __name__ == "__main__":
    main()
