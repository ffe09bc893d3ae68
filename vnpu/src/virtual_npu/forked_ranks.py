"""All ranks of a job from one process that has imported torch: their common part is in memory once.

``python -m virtual_npu.forked_ranks COUNT FILE ARGUMENTS`` imports torch, and with it torch_npu. Then it becomes one
process per rank, and runs the file as ``python FILE`` would. Each rank has the variables that torchrun sets. Nothing of
torch_npu may have touched a device before: a process that has touched one cannot be forked.
"""

from __future__ import annotations

import contextlib
import gc
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

_GRACE_S = 5.0
MOST_DEVICES_OF_TORCH_NPU = 32
"""Of one machine: torch_npu refuses more."""


def devices_of_machine(count: int, devices: int) -> int:
    """Return how many ranks, each with a device, a machine of the job has: all, if torch_npu takes so many.

    Args:
        count: Ranks of the job.
        devices: Of a machine, as they were asked for.
    """
    if count <= MOST_DEVICES_OF_TORCH_NPU:
        return max(count, devices)
    return min(devices, MOST_DEVICES_OF_TORCH_NPU)


def job_variables(count: int) -> dict[str, str]:
    """Return the variables that all ranks share; an address that is set already is kept."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {
        "MASTER_ADDR": os.environ.get("MASTER_ADDR", "127.0.0.1"),
        "MASTER_PORT": os.environ.get("MASTER_PORT", str(port)),
        "WORLD_SIZE": str(count),
    }


def rank_variables(rank: int, count: int, of_machine: int) -> dict[str, str]:
    """Return the variables of one rank.

    Args:
        rank: In the job.
        count: Ranks of the job.
        of_machine: Ranks of each machine; the last one may have fewer.
    """
    machine, local = divmod(rank, of_machine)
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(min(of_machine, count - machine * of_machine)),
        "GROUP_RANK": str(machine),
    }


def run_rank(rank: int, shared: dict[str, str], file: str, arguments: list[str]) -> None:
    """Be one rank: run the file, and end as Python would."""
    count = int(shared["WORLD_SIZE"])
    of_machine = devices_of_machine(count, int(os.environ["VNPU_DEVICES"]))
    os.environ.update(shared | rank_variables(rank, count, of_machine))
    sys.argv = [file, *arguments]
    sys.path[0] = str(Path(file).resolve().parent)
    runpy.run_path(file, run_name="__main__")


def fork_rank(rank: int, shared: dict[str, str], file: str, arguments: list[str]) -> int:
    """Start one rank; returns its process."""
    process = os.fork()
    if process:
        return process
    try:
        run_rank(rank, shared, file, arguments)
    except SystemExit:
        raise  # the interpreter ends with its status, and runs what is registered for its end
    except BaseException:  # noqa: BLE001  # as the interpreter does; every other way out would go back to the caller's loop
        traceback.print_exc()
        raise SystemExit(1) from None
    raise SystemExit(0)


def wait_for(processes: set[int]) -> int:
    """Wait for all ranks; when one fails, the others are ended, as torchrun does. Returns the first failure's status."""
    first = 0
    alive = set(processes)
    while alive:
        process, status = os.wait()
        alive.discard(process)
        code = os.waitstatus_to_exitcode(status)
        if code == 0 or first:
            continue
        first = code if code > 0 else 128 - code
        end(alive, signal.SIGTERM)
        killer = threading.Timer(_GRACE_S, end, (alive, signal.SIGKILL))
        killer.daemon = True
        killer.start()
    return first


def end(processes: set[int], number: signal.Signals) -> None:
    """Send a signal to processes that may have ended."""
    for process in tuple(processes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def main() -> None:
    """Import, fork, wait."""
    count, file, *arguments = sys.argv[1:]
    import torch  # noqa: F401  # what all ranks share; torch_npu comes with it

    shared = job_variables(int(count))
    sys.stdout.flush()
    # Objects that nobody collects are not written to, so their pages stay shared.
    gc.collect()
    gc.freeze()
    processes: set[int] = set()
    for rank in range(int(count)):
        processes.add(fork_rank(rank, shared, file, arguments))
    raise SystemExit(wait_for(processes))


if __name__ == "__main__":
    main()
