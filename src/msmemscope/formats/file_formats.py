"""The formats that are files: how each begins, and what reads it. Event logs are folders, see `formats.recognise`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from msmemscope.formats.dump.csv_reader import read_header
from msmemscope.formats.dump.reading import recordings_of_csv, recordings_of_databases
from msmemscope.formats.dump.sqlite_reader import SQLITE_MAGIC
from msmemscope.formats.torch_snapshot.plain_pickle import begins_like_pickle
from msmemscope.formats.torch_snapshot.reader import recording_of_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from msmemscope.recording import Recording


class ReadFiles(Protocol):
    """Reads the files of one export."""

    def __call__(self, files: Sequence[Path], given: Path, reason: str | None = None) -> tuple[Recording, ...]:
        """Read them.

        Args:
            files: Of this format; more than one only of dumps.
            given: The path that was asked for.
            reason: Why they are read instead of an event log, for the problems of the recordings.

        Raises:
            InputError: If nothing can be read.
        """


@dataclass(frozen=True)
class FileFormat:
    """One format."""

    begins: Callable[[bytes], bool]
    """Whether a file with this beginning, of 64 KiB or all that it has, is one."""
    read: ReadFiles
    is_dump: bool = False
    """Whether a folder can hold one file of it per device."""


def _snapshot(files: Sequence[Path], given: Path, reason: str | None = None) -> tuple[Recording, ...]:
    del given, reason
    return (recording_of_snapshot(files[0]),)


FILE_FORMATS: Final[list[FileFormat]] = [
    FileFormat(lambda start: start.startswith(SQLITE_MAGIC), recordings_of_databases, is_dump=True),
    FileFormat(begins_like_pickle, _snapshot),
    FileFormat(lambda start: read_header(start) is not None, recordings_of_csv, is_dump=True),
]
"""In the order in which they are tried."""
