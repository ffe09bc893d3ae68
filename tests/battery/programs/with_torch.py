"""Runs programs that use torch, each in a process that is forked after the import of torch: the import takes long.

Usage: with_torch.py FOLDER DEVICE FAMILY.NAME ... The stdout and stderr of a program go to FOLDER/FAMILY.NAME.stdout
and .stderr. A line says how it ended: `program=FAMILY.NAME pid=NUMBER status=NUMBER`.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

LIMIT_S = 60


def run_in_child(identity: str, device: str, folder: Path) -> int:
    """Run one program in a child; return its process id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    os.setsid()
    signal.alarm(LIMIT_S)  # a program that hangs is ended, and found by its status
    for descriptor, name in ((0, None), (1, "stdout"), (2, "stderr")):
        path = folder / f"{identity}.{name}" if name else Path(os.devnull)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    scratch = folder / f"{identity}.folder"
    scratch.mkdir()
    os.chdir(scratch)
    family, _, name = identity.partition(".")
    sys.argv = [identity]
    getattr(importlib.import_module(f"torch_cases.{family}"), name)(device)
    if family != "ends":
        # An ordinary end of a process with torch takes a second: those programs make it that are about ends.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


def main() -> None:
    """Run what is asked for, one after the other."""
    folder, device, *identities = sys.argv[1:]
    import torch

    if device == "npu":
        import torch_npu  # noqa: F401
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Loaded by torch when a first operator is dispatched, or an optimizer made: once here, not in each child.
    importlib.import_module("torch._dynamo")
    # Half a million objects that stay: no collection looks at them in a program, whose pages of them then stay shared.
    gc.freeze()
    for identity in identities:
        child = run_in_child(identity, device, Path(folder))
        if child == 0:
            return  # the program's own end, with what it has left to be done at exit
        _, status = os.waitpid(child, 0)
        print(f"program={identity} pid={child} status={os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
