"""Writing an export: under a temporary name, which becomes its own when everything is there, and never over another file."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.errors import DumpError, UsageError
from msmemscope.formats.dump.output_files import FOLDER_MODE, OutputFolder
from msmemscope.formats.export.export_formats import EXPORT_FORMATS, LOG_FORMATS
from msmemscope.formats.export.redaction import redacted_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from msmemscope.formats.event_log import Capture
    from msmemscope.formats.export.export_choice import ExportChoice
    from msmemscope.formats.export.export_formats import WriteFile, WriteFolder
    from msmemscope.recording import Recording

_OPTION: Final = "--output"
_BUFFER_BYTES: Final = 1 << 20


def check_output(path: Path) -> None:
    """Judge where an export is to go, before anything is read.

    Raises:
        UsageError: Something has the name already, or its folder is not there.
    """
    accepted = "a new file in an existing folder"
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        message = f"cannot be written: {getattr(error, 'strerror', None) or error}"
        raise UsageError(message, option=_OPTION, value=str(path), accepted=accepted) from error
    else:
        message = "is there already, and nothing is overwritten"
        raise UsageError(message, option=_OPTION, value=str(path), hint="remove it, or name another with -o")
    if not path.parent.is_dir():
        message = "lies in a folder that is not there"
        raise UsageError(message, option=_OPTION, value=str(path), accepted=accepted)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        message = "lies in a folder that you may not write to"
        raise UsageError(message, option=_OPTION, value=str(path), accepted=accepted)


def write_export(recording: Recording, format_name: str, path: Path, choice: ExportChoice) -> tuple[str, ...]:
    """Write a recording in one of `EXPORT_FORMATS`.

    Args:
        recording: Any.
        format_name: The format.
        path: A new file, or a new folder of formats that are one.
        choice: What is chosen beside the format.

    Returns:
        What is left out or not as it seems, one line each.

    Raises:
        DumpError: It cannot be written; then nothing of it is there.
        UsageError: As `check_output`.
    """
    check_output(path)
    chosen = EXPORT_FORMATS[format_name]
    if chosen.write is not None:
        return _write_file(recording, chosen.write, path, choice)
    if chosen.write_folder is not None:
        return _write_folder(recording, chosen.write_folder, path, choice)
    return ()


def write_log_export(
    capture: Capture, format_name: str, path: Path, progress: Callable[[int, int], None] | None = None
) -> None:
    """Write an event log in one of `LOG_FORMATS`.

    Args:
        capture: Any.
        format_name: The format.
        path: A new file.
        progress: Told how many events of how many are written.

    Raises:
        DumpError: It cannot be written; then nothing of it is there.
        EventLogError: The log cannot be read; likewise.
        UsageError: As `check_output`.
    """
    check_output(path)
    with _new_file(path) as write:
        LOG_FORMATS[format_name].write(capture, write, progress)


def _write_file(recording: Recording, writer: WriteFile, path: Path, choice: ExportChoice) -> tuple[str, ...]:
    if choice.redaction is not None:
        recording = redacted_recording(recording, choice.redaction)
    with _new_file(path) as write:
        return writer(recording, write, choice)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[Callable[[bytes | memoryview], None]]:
    """Yields what takes a file piece by piece; it has its name once all of it was taken, and is gone if something fails."""
    with OutputFolder(path.absolute().parent) as folder:
        folder.remove_abandoned([path.name])
        file = folder.create(path.name)
        pieces = bytearray()

        def write(content: bytes | memoryview) -> None:
            pieces.extend(content)
            if len(pieces) >= _BUFFER_BYTES:
                file.write(bytes(pieces))
                pieces.clear()

        try:
            yield write
            file.write(bytes(pieces))
            file.finish()
        finally:
            file.discard()


def _write_folder(recording: Recording, writer: WriteFolder, path: Path, choice: ExportChoice) -> tuple[str, ...]:
    unfinished: Path | None = None
    try:
        unfinished = Path(tempfile.mkdtemp(prefix=f".{path.name[:64]}.", dir=path.absolute().parent))
        notes = writer(recording, unfinished, redaction=choice.redaction)
        unfinished.chmod(FOLDER_MODE)
        check_output(path)
        unfinished.rename(path)
        unfinished = None
    except (OSError, pl.exceptions.ComputeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"{path} cannot be written: {reason}"
        raise DumpError(message, hint="make room or give another directory") from error
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
    return notes
