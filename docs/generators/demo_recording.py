"""docs/images/summary.txt: what the demo prints, recorded by running it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

COMMAND = "msmemscope --call-stack=python python examples/train_gpt.py"
STEPS_SHOWN = 2
"""Lines of losses that are kept at either end."""


def record(repository: Path) -> str:
    """Run the demo in a copy of the example's folder, and return what the terminal showed, a little shortened."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        (scratch / "examples").symlink_to(repository / "examples")
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "96"}
        shown = subprocess.run(
            COMMAND.split(),
            cwd=scratch,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        ).stdout
    # Where the packages are and who ran it differ from machine to machine and say nothing about the program.
    lines = [line for line in shown.splitlines() if "running as root" not in line]
    losses = [number for number, line in enumerate(lines) if line.startswith("step ")]
    if len(losses) > 2 * STEPS_SHOWN:
        lines[losses[STEPS_SHOWN] : losses[-STEPS_SHOWN]] = ["..."]
    text = "\n".join(_without_places(line, repository) for line in lines)
    return f"$ {COMMAND}\n{text.rstrip()}\n"


def _without_places(line: str, repository: Path) -> str:
    """Shorten paths of this machine."""
    for place in (str(Path(sys.prefix)), str(repository)):
        line = line.replace(f"{place}/", "")
    return line
