"""Summaries of real programs, kept as files to be read: what users see at the end of runs, as a whole."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
GOLDEN: Final = REPOSITORY / "tests" / "golden" / "summaries"
"""After a change that is meant, write them anew: MSMEMSCOPE_WRITE_GOLDEN=1 pytest FILE, and read the difference."""

_WHAT_DIFFERS: Final = (
    (r"msmemscope_\d+_\d+_ascend", "msmemscope_PID_TIME_ascend"),
    (r"memscope_dump_\d+\.", "memscope_dump_TIME."),
    (r"0x[0-9a-f]+", "0xADDRESS"),
    (r"[▁▂▃▄▅▆▇█]+", "▁▂▃▄▅▆▇█"),
    (r"held by main\.history\[\d+\]", "held by main.history[N]"),
    (r"\['\d+'\]", "['N']"),
    (r"\d+\.\d\d s\b", "N s"),
    # How large libraries are, and which parts have room in a line, differs between machines.
    (r"(?m)^(Host memory: ).* at the peak, .*\n  .*$", r"\1PARTS"),
    (r"\([\d,]+ rows\)", "(N rows)"),
    (r"\([\d,]+\s+events\s+of", "(N events of"),
)
"""From run to run, or from machine to machine."""


def stable(text: str, folder: Path) -> str:
    """The summary without what differs from run to run."""
    text = text.replace(str(folder), "FOLDER")
    for pattern, replacement in _WHAT_DIFFERS:
        text = re.sub(pattern, replacement, text)
    return "".join(f"{line}\n" for line in text.splitlines() if "running as root" not in line)


def check(name: str, printed: str, folder: Path) -> str:
    """Compare what was printed at the end of a run with the file of that name."""
    text = stable(printed, folder)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("MSMEMSCOPE_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8")
    difference = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "printed", lineterm="")
    assert text == expected, "\n".join(difference)
    return text
