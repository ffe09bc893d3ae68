"""docs/images/summary.txt and summary.svg: how a leak on an NPU is found, recorded by running it on a virtual one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

COMMAND = "msmemscope --device=npu python examples/train_gpt.py --device=npu --steps=6 --leak"
STEPS_SHOWN = 2
"""Lines of losses that are kept at either end."""
ENDS_BEFORE = "====== "
"""How the list of single blocks begins, which is left out like what follows it."""


def record(repository: Path) -> str:
    """Run the program in a copy of the example's folder, and return what the terminal showed, a little shortened."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        (scratch / "examples").symlink_to(repository / "examples")
        scripts = Path(sys.executable).parent
        environment = os.environ | {
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "PYTHONPATH": str(scripts.parent / "torch_npu"),
            "TORCH_NPU_WARNING_DISABLE": "1",
            "COLUMNS": "96",
        }
        shown = subprocess.run(
            [str(scripts / "vnpu"), "run", "--", *COMMAND.split()],
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
    end = next(number for number, line in enumerate(lines) if line.startswith(ENDS_BEFORE))
    text = "\n".join(_without_places(line, repository) for line in lines[:end])
    return f"$ {COMMAND}\n{text.rstrip()}\n"


def picture(text: str) -> str:
    """The text as a terminal shows it, as SVG; rich is imported here, so that the other pages can be made without it."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=io.StringIO(), record=True, width=max(map(len, text.splitlines())) + 1, color_system="truecolor"
    )
    for line in text.splitlines():
        console.print(Text(line, style=_style(line)))
    return console.export_svg(title="a leak on an NPU", unique_id="summary")


def _style(line: str) -> str:
    """A command, the verdict, what to type next, and headings stand out."""
    if line.startswith("$ "):
        return "green"
    if line.startswith("msmemscope: "):
        return "bold red"
    return "bold" if line.startswith(("next:", "Peak ")) else ""


def _without_places(line: str, repository: Path) -> str:
    """Shorten paths of this machine."""
    for place in (str(Path(sys.prefix)), str(repository)):
        line = line.replace(f"{place}/", "")
    return line
