"""Memory changes of operators and launches as a CSV file: one row each, in sequence order."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.capture.output_root import why_unwritable
from msmemscope.errors import DumpError
from msmemscope.formats.dump.csv_writer import cell_of
from msmemscope.formats.dump.output_files import OutputFolder
from msmemscope.formats.event_log.event_frame import device_text

if TYPE_CHECKING:
    from msmemscope.analysis.operators.memory_changes import MemoryChanges

_HINT: Final = "give the name of a new file with --csv"
HEADINGS: Final = (
    "ID", "Event", "Name", "Device Id", "Thread Id", "Net Memory(byte)", "Peak Memory(byte)", "Total Memory(byte)",
)  # fmt: skip
"""ID: of the row that begins the element in the dump. Net: allocated minus freed. Peak: the most that was in use while it
ran, above what was when it began. Total: in use on the device after it."""


def write_changes(changes: MemoryChanges, path: os.PathLike[str] | str) -> Path:
    """Write what each operator or launch changed.

    Args:
        changes: The changes to write.
        path: A file that does not exist, in a folder that does.

    Returns:
        The file.

    Raises:
        DumpError: It cannot be written, or is there already.
    """
    target = check_new(path)
    with OutputFolder(target.absolute().parent) as folder:
        file = folder.create(target.name)
        try:
            file.write((",".join(HEADINGS) + "\n").encode())
            file.write(_text(changes).encode())
            file.finish()
        finally:
            file.discard()
    return target


def check_new(path: os.PathLike[str] | str) -> Path:
    """Return the path that a file will have.

    Raises:
        DumpError: Something is there already, which is never overwritten, or its folder takes no files.
    """
    target = Path(path).expanduser()
    if os.path.lexists(target):
        message = f"{target} is there already"
        raise DumpError(message, hint=_HINT)
    folder = target.absolute().parent
    if not os.access(folder, os.W_OK | os.X_OK):
        reason = why_unwritable(str(folder))
        message = f"{target} cannot be written: {reason}"
        raise DumpError(message, hint=_HINT)
    return target


def _text(changes: MemoryChanges) -> str:
    buffer = io.StringIO()
    changes.rows.sort("sequence").select(
        "sequence",
        "event",
        cell_of(pl.col("name")),
        device_text(pl.col("device")),
        "thread_id",
        "net_bytes",
        "peak_bytes",
        "total_bytes",
    ).write_csv(buffer, include_header=False, quote_style="necessary")
    return buffer.getvalue()
