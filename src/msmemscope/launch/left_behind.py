"""Processes that a program has left behind: daemons that go on when the started process has ended."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_PROCESSES = Path("/proc")


def left_behind(session: str) -> list[int]:
    """Return the processes that still run with the settings of a launch, whether they have recorded anything or not.

    Args:
        session: Of the launch: a text that the environment of no other process has.
    """
    found = []
    for folder in _PROCESSES.glob("[0-9]*"):
        # Those of other users cannot be read, and any can end meanwhile; of one that has ended nothing is left to read.
        with contextlib.suppress(OSError):
            if session.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return sorted(found)
