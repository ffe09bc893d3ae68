"""The memory that a communicator takes: twice HCCL_BUFFSIZE on the device, seen by nobody but the driver."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
BUFFERS = 2 * int(os.environ["HCCL_BUFFSIZE"]) << 20


def taken() -> int:
    """Bytes of the device that are neither free nor the caching allocator's."""
    torch.npu.synchronize()
    free, total = torch.npu.mem_get_info()
    return total - free - torch.npu.memory_reserved()


def main() -> None:
    """Make communicators and end them."""
    torch.npu.set_device(RANK)
    dist.init_process_group("hccl")
    tensor = torch.ones(3).npu()
    before = taken()
    dist.all_reduce(tensor)  # the framework makes a communicator when it is first used
    assert taken() - before == BUFFERS, (taken(), before)
    dist.all_reduce(tensor)
    assert taken() - before == BUFFERS, (taken(), before)
    group = dist.new_group([0, 1])
    dist.all_reduce(tensor, group=group)
    assert taken() - before == 2 * BUFFERS, (taken(), before)
    dist.destroy_process_group(group)
    assert taken() - before == BUFFERS, (taken(), before)
    options = torch_npu_options(buffer_mib=16)
    group = dist.new_group([0, 1], pg_options=options)
    dist.all_reduce(tensor, group=group)
    assert taken() - before == BUFFERS + (32 << 20), (taken(), before)
    dist.destroy_process_group()
    assert taken() == before, (taken(), before)


def torch_npu_options(buffer_mib: int) -> object:
    """Options of a group that choose the size of its buffers."""
    import torch_npu

    options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
    options.hccl_config = {"hccl_buffer_size": buffer_mib}
    return options


if __name__ == "__main__":
    main()
