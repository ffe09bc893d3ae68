"""Several programs with torch in one run: it is imported once, and each program runs in a process forked after that.

Importing torch takes longer than most programs of tests. So programs run like this if they need no process of their own
from the start. A module of tests does it once, in a fixture. Each program has its own output, status and captures. By
day there are no dumps.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import TYPE_CHECKING

from tests.support import tool
from tests.support.nightly import NIGHT
from tests.support.targets import SOURCES, parse_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.support.tool import ToolRun

TIMEOUT_S = 500.0


def run_forked(
    programs: Mapping[str, str],
    folder: Path,
    options: Sequence[str] | None = None,
    variables: Mapping[str, str] | None = None,
    device: str = "cpu",
) -> dict[str, ToolRun]:
    """Run programs, and return the outcome of each, by name.

    Args:
        programs: The text of each program, by its name, which is a file name without its suffix.
        folder: An empty folder. Programs are put into it, and results of the tool into `output` below it.
        options: Options of the tool. If None, the programs run without it.
        variables: Changes of the environment.
        device: The device that the tool observes.
    """
    output = folder / "output"
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    command: list[object] = [sys.executable, SOURCES / "forked.py", folder, *programs]
    if options is not None:
        command = [*tool.TOOL, f"--device={device}", f"--output={output}", *options, "--", *command]
    if options is not None and not NIGHT:
        variables = {**(variables or {}), "LEAVES_NO_RESULTS": "1"}
    whole = tool.run(command, output=output, variables=variables, timeout_s=TIMEOUT_S)
    ended = re.findall(r"^program=(\S+) pid=(\d+) status=(-?\d+)$", whole.stdout, re.MULTILINE)
    assert [name for name, _, _ in ended] == list(programs), f"{whole.stdout}\n{whole.stderr}"
    return {
        name: dataclasses.replace(
            whole,
            returncode=int(status),
            stdout=(folder / f"{name}.stdout").read_text(encoding="utf-8"),
            stderr=(folder / f"{name}.stderr").read_text(encoding="utf-8"),
            process_id=int(process_id),
            reports=parse_report((folder / f"{name}.stdout").read_text(encoding="utf-8")),
        )
        for name, process_id, status in ended
    }
