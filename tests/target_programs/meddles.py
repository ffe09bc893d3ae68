"""Meddles with the output folder between two lots of allocations, as somebody else could who may write there.

Usage: meddles.py LIBRARY OUTPUT WHAT BLOCKS, the stand-in for libc10, the output folder, a function below, and how many
blocks are allocated afterwards.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

LIBRARY = ctypes.CDLL(sys.argv[1])
LIBRARY.fake_tensor_allocate.restype = ctypes.c_void_p
LIBRARY.fake_tensor_allocate.argtypes = [ctypes.c_size_t]
OUTPUT = Path(sys.argv[2])
VICTIM = OUTPUT.parent / "victim"


def capture() -> Path:
    """The folder of this process."""
    (found,) = OUTPUT.glob(f"msmemscope_{os.getpid()}_*_ascend")
    return found


def segments() -> list[Path]:
    """The files of the event log that grow."""
    return sorted(capture().glob("event_log/*.segment"))


def remove_root() -> None:
    """Delete everything."""
    shutil.rmtree(OUTPUT)


def move_root() -> None:
    """Put everything elsewhere."""
    OUTPUT.rename(OUTPUT.parent / "moved")


def replace_root() -> None:
    """Put everything elsewhere, and an empty folder into its place."""
    move_root()
    OUTPUT.mkdir()


def remove_capture() -> None:
    """Delete the folder of this process."""
    shutil.rmtree(capture())


def remove_log() -> None:
    """Delete what is being written."""
    shutil.rmtree(capture() / "event_log")


def remove_ledger() -> None:
    """Delete what the launcher needs."""
    for path in OUTPUT.glob(".launch_*"):
        shutil.rmtree(path)


def link_segments() -> None:
    """Put links to a file of the user into the place of the log's files."""
    for path in segments():
        path.unlink()
        path.symlink_to(VICTIM)


def hard_link_segments() -> None:
    """The same, with hard links."""
    for path in segments():
        path.unlink()
        path.hardlink_to(VICTIM)


def link_log() -> None:
    """Put a link to another folder, with files of the same names, into the place of the log."""
    log, elsewhere = capture() / "event_log", OUTPUT.parent / "elsewhere"
    elsewhere.mkdir()
    for path in segments():
        shutil.copy(VICTIM, elsewhere / path.name)
    log.rename(log.with_name("kept"))
    log.symlink_to(elsewhere)


def hard_link_ledger() -> None:
    """Put a file of the user into the place of the ledger, and start a process that has a line to add."""
    for path in OUTPUT.glob(".launch_*/processes"):
        path.unlink()
        path.hardlink_to(VICTIM)
    subprocess.run(["true"], check=True)


def link_ledger() -> None:
    """The same, by exchanging the folder."""
    elsewhere = OUTPUT.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(VICTIM, elsewhere / "processes")
    for path in OUTPUT.glob(".launch_*"):
        path.rename(OUTPUT / "launch_moved_away")
        path.symlink_to(elsewhere)
    subprocess.run(["true"], check=True)


def main() -> None:
    """Allocate, meddle, allocate."""
    for _ in range(10):
        LIBRARY.fake_tensor_allocate(4096)
    globals()[sys.argv[3]]()
    for _ in range(int(sys.argv[4])):
        LIBRARY.fake_tensor_allocate(4096)
    print("done=1")


main()
