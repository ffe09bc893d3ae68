"""Where captures lie. Cheap to import: most commands under a launch leave none, and then nothing else is loaded."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_CAPTURE_PATTERN = "msmemscope_*_ascend"
_EVENT_LOG = "event_log"
_DUMP_FOLDER = "dump"
_DUMP_DEPTH = 2
"""Folders between a dump file and its capture."""


def captures_under(root: Path) -> list[Path]:
    """The capture directories directly under an output root, in the order of their names."""
    return sorted(path for path in root.glob(_CAPTURE_PATTERN) if has_event_log(path))


def has_event_log(directory: Path) -> bool:
    """Whether a directory is a capture, and has not been taken away."""
    return (directory / _EVENT_LOG).is_dir()


def capture_of_dump(path: Path) -> Path | None:
    """Return the capture that a dump file lies in, `device_{id}/dump/` below it; None if it lies elsewhere, or is none."""
    folders = path.absolute().parents
    is_inside = path.is_file() and len(folders) > _DUMP_DEPTH and folders[0].name == _DUMP_FOLDER
    return folders[_DUMP_DEPTH] if is_inside and has_event_log(folders[_DUMP_DEPTH]) else None


def captures_since(root: Path, since_ns: int) -> list[Path]:
    """Those that were changed at this moment (CLOCK_REALTIME) or later."""
    found = []
    for directory in captures_under(root):
        with contextlib.suppress(OSError):
            if directory.stat().st_mtime_ns >= since_ns:
                found.append(directory)
    return found
