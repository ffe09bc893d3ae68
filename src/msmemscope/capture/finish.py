"""Writing the results of a process that no launcher waits for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from msmemscope import _native
from msmemscope.configuration import SETTINGS_VARIABLE

if TYPE_CHECKING:
    from msmemscope.configuration import Config


def write_results(config: Config) -> None:
    """Write dump files and print the summary, in a process of its own, and wait for it.

    In this process nothing is analysed: its memory is being measured, and its libraries are the program's. If something
    goes wrong, one line on stderr says so.
    """
    environment = {name: value for name, value in os.environ.items() if name not in {SETTINGS_VARIABLE, "LD_PRELOAD"}}
    source_root = os.path.dirname(config.package)  # noqa: PTH120 - pathlib is not loaded here
    inherited = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = source_root if not inherited else source_root + os.pathsep + inherited
    command = [sys.executable, "-m", "msmemscope", "recover", "--session", config.session, config.output]
    recover = f"msmemscope recover {config.output}"
    try:
        finished = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=_descriptor_for_words(), check=False
        )
    except (OSError, ValueError) as error:
        _native.report_error(f"the results were not written ({error}); {recover} writes them")
        return
    if finished.returncode != 0:
        _native.report_error(f"the results were not written; {recover} writes them")


def _descriptor_for_words() -> int:
    """Where the program's stderr goes; where that is no file, the one that the process began with."""
    descriptor = _STDERR
    with contextlib.suppress(AttributeError, OSError, ValueError):  # None, an object of the program, closed
        descriptor = sys.stderr.fileno()
    # A program that closed its stderr may have opened a file of its own under the same number.
    return subprocess.DEVNULL if descriptor == _STDERR and not _native.is_stderr_the_same() else descriptor


_STDERR = 2
