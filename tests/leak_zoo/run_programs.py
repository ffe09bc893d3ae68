"""Runs programs of the zoo, each in a process of its own that is forked after torch was imported.

Usage: run_programs.py FAMILY.NAME ... Prints a line `program=FAMILY.NAME pid=NUMBER status=NUMBER` for each. Forking saves the
import of torch, which takes longer than a program; each child has a capture and steps of its own. With LEAVES_NO_RESULTS in the
environment it ends its parent, the launcher, which would write dumps and summaries that nobody reads.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

import msmemscope  # noqa: F401 - begins to observe before the children are forked


def main() -> int:
    """Run what is asked for, one after the other."""
    if os.environ.get("LEAK_ZOO_DEVICE") == "npu":
        import torch_npu  # noqa: F401
    torch.set_num_threads(1)
    # Loaded by torch when a first operator is dispatched, or an optimizer made: once here, not in each child.
    importlib.import_module("torch._dynamo")
    failures = 0
    for identity in sys.argv[1:]:
        family, _, name = identity.partition(".")
        program = getattr(importlib.import_module(f"tests.leak_zoo.{family}"), name)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                program()
                status = 0
            except BaseException:  # noqa: BLE001 - a child must never go on with the parent's loop
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        _, wait_status = os.waitpid(child, 0)
        status = os.waitstatus_to_exitcode(wait_status)
        failures += status != 0
        sys.stdout.write(f"program={identity} pid={child} status={status}\n")
        sys.stdout.flush()
    if "LEAVES_NO_RESULTS" in os.environ:
        os.kill(os.getppid(), signal.SIGKILL)
    return min(failures, 1)


if __name__ == "__main__":
    raise SystemExit(main())
