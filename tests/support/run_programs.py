"""Runs functions of a package of programs, each in a process of its own that is forked after torch was imported.

Usage: run_programs.py PACKAGE MODULE.NAME ... Behind what each has printed, a line `program=MODULE.NAME pid=NUMBER status=NUMBER`. The package says
where its programs have their tensors: DEVICE. Forking saves the import of torch, which takes longer than a program; each
child has a capture and steps of its own. With LEAVES_NO_RESULTS in the environment it ends its parent, the launcher, which would
write dumps and summaries that nobody reads.
"""

from __future__ import annotations

import gc
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
    package, *identities = sys.argv[1:]
    if importlib.import_module(package).DEVICE == "npu":
        import torch_npu  # noqa: F401 - makes the device npu
    torch.set_num_threads(1)
    # Loaded by torch when a first operator is dispatched, or an optimizer made: once here, not in each child.
    importlib.import_module("torch._dynamo")
    # Half a million objects that stay: no collection looks at them in a program, whose pages of them then stay shared.
    gc.freeze()
    failures = 0
    for identity in identities:
        module, _, name = identity.partition(".")
        program = getattr(importlib.import_module(f"{package}.{module}"), name)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                torch.manual_seed(0)
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
