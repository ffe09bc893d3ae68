"""Runs a program, in processes that are forked after torch was imported: one, or its ranks.

Usage: run_program.py MODULE.NAME. Prints what each process has printed, and `program=MODULE.NAME pid=NUMBER status=NUMBER`
behind it.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

import msmemscope  # noqa: F401 - begins to observe before the children are forked
from tests.frameworks.catalogue import PROGRAMS


def _run_rank(identity: str, rank: int, ranks: int, said: Path) -> None:
    """Run in a child; never returns."""
    status = 1
    try:
        os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 1)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        if ranks > 1:
            places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
            os.environ.update({name: str(value) for name, value in places.items()})
            os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        torch.manual_seed(0)
        module, _, name = identity.partition(".")
        getattr(importlib.import_module(f"tests.frameworks.{module}"), name)()
        status = 0
    except BaseException:  # noqa: BLE001 - a child must never go on with the parent's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def main() -> int:
    """Run what is asked for."""
    identity = sys.argv[1]
    ranks = PROGRAMS[identity].ranks
    if os.environ.get("OWNER_TRUTHS_DEVICE") == "npu":
        import torch_npu  # noqa: F401 - makes the device npu
    torch.set_num_threads(1)
    # Loaded by torch when a first operator is dispatched, or an optimizer made.
    importlib.import_module("torch._dynamo")
    # Half a million objects that stay: no collection looks at them in a program, whose pages of them then stay shared.
    gc.freeze()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(ranks):
            said = Path(folder) / str(rank)
            child = os.fork()
            if child == 0:
                _run_rank(identity, rank, ranks, said)
            children.append((child, said))
        for child, said in children:
            _, wait_status = os.waitpid(child, 0)
            status = os.waitstatus_to_exitcode(wait_status)
            failures += status != 0
            sys.stdout.write(f"{said.read_text()}\nprogram={identity} pid={child} status={status}\n")
            sys.stdout.flush()
    return min(failures, 1)


if __name__ == "__main__":
    raise SystemExit(main())
