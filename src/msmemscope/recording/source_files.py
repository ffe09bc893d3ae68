"""Files of source text, read for a person who looks at a recording.

A recording can come from anybody and name any file: only files whose names are those of source
text are opened, and only regular ones.
"""

from __future__ import annotations

import os
import stat
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOURCE_SUFFIXES: Final = frozenset({".py", ".pyx", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp"})
_MOST_BYTES: Final = 8 << 20
"""Of a file that is read: source text is no longer."""


class NoSourceError(Exception):
    """A file cannot be shown as source text; the message says why, for people."""


class SourceFile(NamedTuple):
    """A file of source text."""

    lines: Sequence[str]
    """Without line feeds; the first one is line 1."""
    changed_ns: int
    """CLOCK_REALTIME of its last change."""


def is_source_name(file: str) -> bool:
    """Whether a file is called as source text is."""
    return PurePath(file).suffix.lower() in _SOURCE_SUFFIXES


def read_source(file: str) -> SourceFile:
    """Read a file of source text.

    Raises:
        NoSourceError: It is none, or cannot be read.
    """
    if not is_source_name(file):
        message = "This is no file of source text that a report may show."
        raise NoSourceError(message)
    try:
        # A pipe of this name must not stop us.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            content = opened.read(_MOST_BYTES) if stat.S_ISREG(status.st_mode) else None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a path"
        message = f"The source could not be read where this report was written: {reason}."
        raise NoSourceError(message) from error
    if content is None:
        message = "This is no regular file, so it was not read."
        raise NoSourceError(message)
    return SourceFile(content.decode("utf-8", "replace").split("\n"), status.st_mtime_ns)
