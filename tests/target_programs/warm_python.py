"""Imports modules once, then runs programs, each in a process forked after that. See tests/support/warm_process.py.

Usage: warm_python.py MODULE ... Each line of stdin is a program as JSON: the words behind `python`, the folder, the
whole environment or changes of it. It also has other files for stdout and stderr, if any, a limit in seconds, and
whether it ends as Python does. The answer has the number of the process and the status. This Python ends with stdin.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import sys
import threading
import traceback
import types
from pathlib import Path
from typing import Any


def run_in_child(program: dict[str, Any]) -> int:
    """Make this process one that runs a program, and run it; return its status."""
    signal.setitimer(signal.ITIMER_REAL, program["limit_s"])  # a program that hangs is ended, and found by its status
    os.chdir(program["folder"])
    if program["environment"]:
        os.environ.clear()
        os.environ.update(program["environment"])
        sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ.update(program["changes"])
    for descriptor, path in enumerate((os.devnull, program["stdout"], program["stderr"])):
        if path is None:
            continue
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    if program["settings"]:
        be_observed(program["settings"])
    try:
        run_words(program["words"])
    except SystemExit as end:
        if isinstance(end.code, int):
            return end.code
        if end.code is not None:
            sys.stderr.write(f"{end.code}\n")
        return int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def be_observed(settings: str) -> None:
    """Have the tool do what it would have done from the start, had the launcher passed these settings on."""
    passed_on = dict(line.partition("=")[::2] for line in os.environ["MSMEMSCOPE_SETTINGS"].split("\n"))
    wanted = dict(line.partition("=")[::2] for line in settings.split("\n"))
    of_the_launch = {name: passed_on[name] for name in ("launch_directory", "package", "native_directory")}
    os.environ["MSMEMSCOPE_SETTINGS"] = "\n".join(
        f"{name}={text}" for name, text in {**wanted, **of_the_launch}.items()
    )
    from msmemscope.capture.session import begin_launched

    begin_launched()


def run_words(words: list[str]) -> None:
    """Do what `python WORDS` does: `-c CODE`, `-m MODULE` or a file, and arguments."""
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if words[0] == "-c":
        sys.argv, sys.path[0], text, name = ["-c", *words[2:]], "", words[1], "<string>"
    else:
        sys.argv, sys.path[0], name = words, str(Path(words[0]).parent), words[0]
        text = Path(name).read_text(encoding="utf-8")
        main.__file__ = name
    exec(compile(text, name, "exec"), main.__dict__)  # noqa: S102 - this is what it is for


def main() -> None:
    """Import the modules, and run what comes."""
    # Half a million objects that stay: no collection looks at them, here or in a program, whose pages of them then stay shared.
    gc.disable()
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    answers = os.fdopen(os.dup(1), "w")
    commands = os.fdopen(os.dup(0))
    for line in commands:
        child = os.fork()
        if child == 0:
            if "polars" in sys.modules:
                # At exit polars 2.0 waits for a thread of its own, which a forked process does not have.
                atexit._clear()
            program = json.loads(line)
            status = run_in_child(program)
            if program["ends_wholly"]:
                raise SystemExit(status)
            # What is to be done at exit is done; taking the modules apart, which takes a second, is left out.
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        answers.write(json.dumps([child, os.waitstatus_to_exitcode(status)]) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
