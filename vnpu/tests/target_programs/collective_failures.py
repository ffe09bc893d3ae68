"""A rank sees an error when another one dies, does not come, calls something else or has no memory.

Prints the error that ended the first collective after the trouble, its type, and how long it took to come.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
# Else the watchdog of the group ends the process, perhaps before it has printed.
os.environ["TORCH_HCCL_ASYNC_ERROR_HANDLING"] = "0"


def collective() -> None:
    """A collective, with its result on the host."""
    tensor = torch.ones(4).npu()
    dist.all_reduce(tensor)
    tensor.cpu()


def main() -> int:
    """Bring the trouble about on rank 1, and say what the others get."""
    trouble = sys.argv[1]
    torch.npu.set_device(RANK)
    dist.init_process_group("hccl")
    if trouble != "memory":
        collective()
    if RANK == 1 and trouble == "death":
        os.kill(os.getpid(), signal.SIGKILL)
    if RANK == 1 and trouble == "absence":
        time.sleep(6)
        return 0
    failed = False
    started = time.monotonic()
    try:
        if RANK == 1 and trouble == "mismatch":
            dist.broadcast(torch.ones(4).npu(), 0)
            torch.npu.synchronize()
        elif RANK == 1 and trouble == "memory":
            kept = torch.empty(700 << 20, dtype=torch.uint8, device="npu")
            collective()
            del kept
        else:
            collective()
    except Exception as error:
        failed = True
        print(f"{type(error).__name__} after {time.monotonic() - started:.1f} s: {error}", flush=True)
    else:
        print("no error", flush=True)
    if failed:
        # As on hardware a group on a device that has failed cannot be taken down: that waits for the device.
        os._exit(0)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
