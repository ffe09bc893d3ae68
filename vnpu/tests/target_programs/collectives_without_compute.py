"""Collectives with compute=none: the ranks meet, small data and objects arrive, large data is not moved."""

from __future__ import annotations

import os
import resource
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
GIB = 1 << 30


def exchange_objects() -> None:
    """Collectives of Python objects compute with the sizes of pickles on the device, and move them: both are real."""
    large = bytes(range(256)) * (3 << 12)  # 3 MiB: more than what is moved of anything else
    mine = {"rank": RANK, "text": "y" * RANK * 10}
    everything = [{"rank": 0, "text": ""}, {"rank": 1, "text": "y" * 10}]
    gathered: list[object] = [None, None]
    dist.all_gather_object(gathered, mine)
    assert gathered == everything, gathered
    texts = [{"a": 1}, "two", large] if RANK == 0 else [None, None, None]
    dist.broadcast_object_list(texts, 0)
    assert texts == [{"a": 1}, "two", large]
    dist.gather_object(mine, gathered if RANK == 1 else None, 1)
    assert RANK == 0 or gathered == everything
    given: list[object] = [None]
    dist.scatter_object_list(given, everything if RANK == 0 else None, 0)
    assert given == [mine]
    if RANK == 0:
        dist.send_object_list([1, "two"], 1)
    else:
        received: list[object] = [None, None]
        dist.recv_object_list(received, 0)
        assert received == [1, "two"]
    dist.barrier()


def wrap_models() -> None:
    """A mesh is such bookkeeping too, and so are the comparisons of DistributedDataParallel across ranks."""
    assert init_device_mesh("npu", (1, 2), mesh_dim_names=("data", "model"))["model"].get_local_rank() == RANK
    model = DistributedDataParallel(torch.nn.Linear(8, 8).npu())
    model(torch.ones(2, 8, device="npu")).sum().backward()


def copy_what_was_written() -> None:
    """Of large memory what the host wrote is copied from device to device and back; the rest takes no pages."""
    counted = torch.arange(1 << 20, dtype=torch.int64)  # 8 MiB
    assert torch.equal(counted.npu().clone().cpu(), counted)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.empty(GIB, dtype=torch.uint8, device="npu").clone().cpu()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def main() -> None:
    """Exchange flags and objects, and pretend to exchange gradients."""
    torch.npu.set_device(RANK)
    dist.init_process_group("hccl")
    exchange_objects()
    wrap_models()
    copy_what_was_written()
    flag = torch.tensor([RANK + 10]).npu()
    dist.all_reduce(flag)
    assert flag.item() == 21
    dist.broadcast(flag, 1)
    assert flag.item() == 21
    gradients = torch.empty(8 * GIB, dtype=torch.uint8, device="npu").view(torch.bfloat16)
    shard = torch.empty(4 * GIB, dtype=torch.uint8, device="npu").view(torch.bfloat16)
    started = time.monotonic()
    for _ in range(10):
        dist.all_reduce(gradients)
        dist.reduce_scatter_tensor(shard, gradients)
        dist.all_gather_into_tensor(gradients, shard)
        if RANK == 0:
            dist.send(gradients, 1)
        else:
            dist.recv(gradients, 0)
    torch.npu.synchronize()
    assert time.monotonic() - started < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20  # KiB
    if RANK == 1:
        time.sleep(0.5)
    started = time.monotonic()
    dist.all_reduce(gradients)
    torch.npu.synchronize()
    assert RANK == 1 or time.monotonic() - started > 0.2  # it waited for the other
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
