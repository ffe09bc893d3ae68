# report: "https://github.com/pytorch/pytorch/issues/128910"
# topic: "distributed"
# kind: "peak"
# symptom: "a pipeline stage takes extra memory that grows with the number of microbatches, although what it sent on is no longer needed"
# cause: "the stage keeps the outputs of all microbatches in fwd_cache until the end of the schedule's step, instead of letting them go once they are sent"
# devices: ["cpu"]
# holder: ["fwd_cache"]
# mebibytes: []
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

torch.set_num_threads(1)
MICROBATCHES, TOKENS, WIDTH = 16, 2048, 512


class PipelineStage:
    def __init__(self, module, rank):
        self.module, self.rank = module, rank
        self.fwd_cache = {}

    def forward_one_chunk(self, index, tokens):
        output = self.module(tokens)  # BLAME
        self.fwd_cache[index] = output  # BLAME
        return dist.isend(output, dst=self.rank + 1), output

    def step(self, microbatches):
        """Forward passes of the frozen first stage: it has no backward pass to wait for."""
        pending = []
        for index, tokens in enumerate(microbatches):
            work, output = self.forward_one_chunk(index, tokens)
            if "fixed" in sys.argv:
                work.wait()
                del self.fwd_cache[index], output
            else:
                pending.append(work)
        for work in pending:
            work.wait()
        self.fwd_cache.clear()


def join(rank):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29644"}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(rank)


def last_stage(steps):
    join(rank=1)
    head = nn.Linear(WIDTH, 8)
    optimizer = torch.optim.SGD(head.parameters(), lr=1e-2)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(MICROBATCHES):
            received = torch.empty(TOKENS, WIDTH)
            dist.recv(received, src=0)
            loss = nn.functional.cross_entropy(head(received), received[:, 0].gt(0).long()) / MICROBATCHES
            loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item() * MICROBATCHES:.3f}", flush=True)
    dist.destroy_process_group()


@torch.no_grad()
def first_stage(steps):
    join(rank=0)
    stage = PipelineStage(nn.Sequential(nn.Embedding(1000, WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()), rank=0)
    for _ in range(steps):
        stage.step([torch.randint(0, 1000, (TOKENS,)) for _ in range(MICROBATCHES)])
    dist.destroy_process_group()


if __name__ == "__main__":
    worker = mp.get_context("spawn").Process(target=last_stage, args=(6,))
    worker.start()
    first_stage(6)
    worker.join()
    peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
    print(f"peak of the first stage's process: {peak:.0f} MiB")
