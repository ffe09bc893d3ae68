"""Runs programs of the zoo, each in a process of its own that is forked after torch was imported.

Usage: run_programs.py FAMILY.NAME ... Prints a line `program=FAMILY.NAME pid=NUMBER status=NUMBER outcome=WORD` for each: `finished`, or
`exhausted` if memory ran out; what torch says is printed before it.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

import msmemscope  # noqa: F401 - begins to observe before the children are forked

EXHAUSTED = 3
"""Exit status of a child in which memory ran out."""
_WORDS = ("out of memory", "no memory for", "can't allocate memory", "pinned host memory")


def _is_shortage(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(word in text for word in _WORDS)


def _run(identity: str) -> int:
    family, _, name = identity.partition(".")
    try:
        getattr(importlib.import_module(f"tests.oom_zoo.{family}"), name)()
    except Exception as error:
        traceback.print_exc()
        if _is_shortage(error):
            return EXHAUSTED
        raise
    return 0


def main() -> int:
    """Run what is asked for, one after the other."""
    if os.environ.get("OOM_ZOO_DEVICE", "npu") == "npu":
        import torch_npu  # noqa: F401
    torch.set_num_threads(1)
    # Loaded by torch when a first operator is dispatched, or an optimizer made: once here, not in each child.
    importlib.import_module("torch._dynamo")
    # Half a million objects that stay: no collection looks at them in a program, whose pages of them then stay shared.
    gc.freeze()
    for identity in sys.argv[1:]:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = _run(identity)
            except BaseException:  # noqa: BLE001 - a child must never go on with the parent's loop
                status = 1
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, wait_status = os.waitpid(child, 0)
        status = os.waitstatus_to_exitcode(wait_status)
        outcome = {0: "finished", EXHAUSTED: "exhausted"}.get(status, "failed")
        sys.stdout.write(f"program={identity} pid={child} outcome={outcome}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
