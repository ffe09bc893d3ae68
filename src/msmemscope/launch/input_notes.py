"""Notes on an input that users should see beside the answer."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from msmemscope.launch import messages

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def note_problems(source: str, problems: Iterable[str]) -> None:
    """Warn of the parts of an input that were skipped."""
    for problem in problems:
        messages.warning(f"{source}: {problem}")


def note_foreign_owner(path: Path) -> None:
    """Note an input of another user, who may have written anything into it."""
    with contextlib.suppress(OSError):  # it was read a moment ago
        if path.stat().st_uid != os.geteuid():
            messages.note(f"{path} belongs to another user: make sure that you trust it")
