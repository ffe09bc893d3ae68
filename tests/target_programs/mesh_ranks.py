"""A rank of a job on a mesh of 2 x 2, under torchrun: three steps of training, the gradients summed along one axis.

Arguments: `gloo` or `hccl`, and the rank that ends with an error behind its last step, -1 for none. Prints whether
msmemscope is in the process.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def main() -> None:
    """Train, and say on one line what msmemscope has to do with it."""
    backend, failing = sys.argv[1], int(sys.argv[2])
    kind = {"gloo": "cpu", "hccl": "npu"}[backend]
    if kind == "npu":
        torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend)
    mesh = init_device_mesh(kind, (2, 2), mesh_dim_names=("dp", "tp"))
    model = torch.nn.Linear(64, 64).to(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(8, 64, device=kind)).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=mesh.get_group("dp"))
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    rank = dist.get_rank()
    os.write(1, f"rank={rank} loaded={'msmemscope' in sys.modules}\n".encode())
    dist.barrier()  # torchrun ends the others when one has failed
    # A group is destroyed with the interpreter's lock held, and waits for threads of its own, which need that lock to
    # forget the tensors of the last collective.
    time.sleep(0.3)
    dist.destroy_process_group()
    if rank == failing:
        message = "the rank that was to fail"
        raise RuntimeError(message)


if __name__ == "__main__":
    main()
