"""Writing an export: under a temporary name, which becomes its own when everything is there."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.errors import EventLogError, UsageError
from msmemscope.formats.dump.output_files import FOLDER_MODE, OutputFolder, unwritable
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.archive.contents import is_archive
from msmemscope.formats.export.export_formats import EXPORT_FORMATS, LOG_FORMATS
from msmemscope.formats.export.redaction import redacted_recording
from msmemscope.formats.output_place import FOLDER_MARK, check_output, mark_folder, put_in_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from msmemscope.formats.export.export_choice import ExportChoice, Write
    from msmemscope.formats.output_place import Mark
    from msmemscope.recording import Recording

_BUFFER_BYTES: Final = 1 << 20


@dataclasses.dataclass(frozen=True)
class Place:
    """Where an export goes."""

    path: Path
    """A file, or a folder of formats that are one: a new one, or what was written so before."""
    is_forced: bool = False
    """Whether it takes the place of any file."""

    def check(self, mark: Mark, inputs: Iterable[Path] = ()) -> bool:
        """As `check_output`."""
        return check_output(self.path, mark, is_forced=self.is_forced, inputs=inputs)


def write_export(recording: Recording, format_name: str, place: Place, choice: ExportChoice) -> tuple[str, ...]:
    """Write a recording in one of `EXPORT_FORMATS`.

    Args:
        recording: Any.
        format_name: The format.
        place: Where to.
        choice: The choices beside the format.

    Returns:
        Notes on parts that are left out or not as they seem, one line each.

    Raises:
        DumpError: It cannot be written; then nothing of it is there.
        UsageError: As `check_output`.
    """
    chosen = EXPORT_FORMATS[format_name]
    place.check(chosen.mark)
    if chosen.write is not None:
        if choice.redaction is not None:
            recording = redacted_recording(recording, choice.redaction)
        with _new_file(place, chosen.mark) as write:
            return chosen.write(recording, write, choice)
    if chosen.write_folder is not None:
        with _new_folder(place) as folder:
            return chosen.write_folder(recording, folder, choice)
    return ()


def write_log_export(
    capture: Capture, format_name: str, place: Place, progress: Callable[[int, int], None] | None = None
) -> None:
    """Write an event log in one of `LOG_FORMATS`.

    Args:
        capture: Any.
        format_name: The format.
        place: Where to write. The archive of another process is not replaced, because it may be all that is left of it.
        progress: Told how many events of how many are written.

    Raises:
        DumpError: It cannot be written; then nothing of it is there.
        EventLogError: The log cannot be read; likewise.
        UsageError: As `check_output`.
    """
    mark, write_log = LOG_FORMATS[format_name].mark, LOG_FORMATS[format_name].write_log
    assert write_log is not None  # noqa: S101 - for the type checker
    if place.check(mark) and not place.is_forced and not _is_of_process(place.path, capture):
        message = "is the archive of another process, perhaps the only one"
        hint = "name another with --output, or write over it with --force"
        raise UsageError(message, option="--output", value=str(place.path), hint=hint)
    with _new_file(place, mark) as write:
        write_log(capture, write, progress)


def _is_of_process(path: Path, capture: Capture) -> bool:
    try:
        archived = Capture(path).header if is_archive(path) else None
    except EventLogError:
        return False
    known = capture.header
    return archived is not None and (archived.process_id, archived.start_ns) == (known.process_id, known.start_ns)


@contextlib.contextmanager
def _new_file(place: Place, mark: Mark) -> Iterator[Write]:
    """Yield the writer of a file, which takes it piece by piece.

    The file gets its name once all of it was taken, and is gone if something fails.
    """
    path = place.path
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
            file.finish(replaces=place.check(mark))
        finally:
            file.discard()


@contextlib.contextmanager
def _new_folder(place: Place) -> Iterator[Path]:
    """Yield an empty folder, likewise."""
    path = place.path
    unfinished: Path | None = None
    try:
        unfinished = Path(tempfile.mkdtemp(prefix=f".{path.name[:64]}.", dir=path.absolute().parent))
        yield unfinished
        mark_folder(unfinished)
        unfinished.chmod(FOLDER_MODE)
        put_in_place(unfinished, path, replaces=place.check(FOLDER_MARK))
        unfinished = None
    except (OSError, pl.exceptions.ComputeError) as error:
        raise unwritable(path, error) from error
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
