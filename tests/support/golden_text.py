"""Texts that are kept to be looked at: what a verb or a report prints."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "terminal"
WRITE_GOLDEN = "MSMEMSCOPE_WRITE_GOLDEN"
"""After a change that is meant, write them anew: MSMEMSCOPE_WRITE_GOLDEN=1 pytest FILE, and read the difference."""


def check_golden(name: str, text: str, *, width: int = 80) -> None:
    """Compare a text with the one that is kept, and its lines with the width.

    Args:
        name: Of the file in tests/golden/terminal.
        text: The printed text.
        width: Columns that no line may exceed.
    """
    assert [line for line in text.splitlines() if len(line.rstrip()) > width] == []
    path = GOLDEN / name
    if os.environ.get(WRITE_GOLDEN):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
