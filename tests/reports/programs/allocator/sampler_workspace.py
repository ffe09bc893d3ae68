# report: "https://github.com/dmlc/dgl/issues/3957"
# topic: "training"
# kind: "out of memory"
# symptom: "training on a graph runs out of memory while PyTorch's own numbers account for only about half of the card"
# cause: "the graph library has a memory pool of its own for workspaces, beside PyTorch's, which takes up to twice what is required and shares nothing; it was redirected to PyTorch's allocator"
# devices: ["npu"]
# memory: "1GiB"
# holder: []
# mebibytes: [370, 620]
# remedy: "free elsewhere"
# options: []
# fixed: True
import ctypes
import sys

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)
acl = ctypes.CDLL("libascendcl.so")


class WorkspacePool:
    """Workspaces from the driver, in powers of two, which are kept for the next request."""

    def __init__(self):
        self.free = {}

    def allocate(self, size):
        size = 1 << (size - 1).bit_length()
        if not self.free.get(size):
            address = ctypes.c_void_p()
            if acl.aclrtMalloc(ctypes.byref(address), ctypes.c_size_t(size), 0):  # BLAME
                raise MemoryError("no workspace")
            return address, size
        return self.free[size].pop(), size

    def release(self, workspace):
        address, size = workspace
        self.free.setdefault(size, []).append(address)


class TensorPool:
    """The same from PyTorch's allocator."""

    def allocate(self, size):
        return torch.empty(size, dtype=torch.uint8, device="npu")

    def release(self, workspace):
        del workspace


class NeighbourSampler:
    def __init__(self, edges, pool):
        self.edges, self.pool = edges, pool

    def sample(self, nodes):
        sort = self.pool.allocate(130 << 20)  # BLAME
        degrees = self.pool.allocate(70 << 20)  # BLAME
        block = self.edges[torch.randint(len(self.edges), (nodes,), device="npu")]
        self.pool.release(sort)
        self.pool.release(degrees)
        return block


def main():
    pool = TensorPool() if "fixed" in sys.argv else WorkspacePool()
    sampler = NeighbourSampler(torch.randint(0, 4096, (1 << 20, 2), device="npu"), pool)
    features = nn.Embedding(4096, 512).to("npu")
    layer = nn.Sequential(nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 1)).to("npu")
    optimizer = torch.optim.SGD([*features.parameters(), *layer.parameters()], lr=1e-2)
    for step, nodes in enumerate([1000, 2000, 4000, 8000, 16000, 32000, 45000]):
        block = sampler.sample(nodes)
        try:
            layer(features(block).flatten(1)).square().mean().backward()
        except torch.OutOfMemoryError:
            free, total = torch.npu.mem_get_info()
            outside = (total - free - torch.npu.memory_reserved()) / 2**20
            print(f"step {step}: {nodes} nodes do not fit, {outside:.0f} MiB are not PyTorch's", flush=True)
            raise
        optimizer.step()
        optimizer.zero_grad()
        free, total = torch.npu.mem_get_info()
        reserved = torch.npu.memory_reserved() / 2**20
        print(f"step {step}: {reserved:.0f} MiB reserved, {(total - free) / 2**20:.0f} of the card used", flush=True)


main()
