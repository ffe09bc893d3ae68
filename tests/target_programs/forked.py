"""Runs programs that use torch, each in a process forked after the import of torch, which takes longer than most.

Usage: forked.py FOLDER NAME ... The output of FOLDER/NAME.py goes to FOLDER/NAME.stdout and FOLDER/NAME.stderr; its end
is printed as `program=NAME pid=NUMBER status=NUMBER`. With LEAVES_NO_RESULTS in the environment it ends its parent, the
launcher, which would write dumps and summaries that nobody reads. See tests/support/forked.py.
"""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path

import torch

LIMIT_S = 120


def run_program(folder: Path, name: str) -> int:
    """Run one program in this process, which is a child; return its status."""
    for descriptor, stream in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / f"{name}.{stream}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    # A program that hangs writes where it does, is ended, and found by its status.
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(LIMIT_S)
    sys.argv = [f"{name}.py"]
    try:
        runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Run what is asked for, one after the other."""
    folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    # Loaded by torch when a first operator is dispatched, or an optimizer made: once here, not in each child.
    importlib.import_module("torch._dynamo")
    for name in names:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = run_program(Path(folder), name)
            # What is to be done at exit is done; taking torch apart, which takes a second, is left out.
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        print(f"program={name} pid={child} status={os.waitstatus_to_exitcode(status)}", flush=True)
    if "LEAVES_NO_RESULTS" in os.environ:
        os.kill(os.getppid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
