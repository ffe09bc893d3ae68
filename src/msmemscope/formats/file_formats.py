"""The formats that are files: how each begins, and what reads it. Event logs are folders, see `formats.recognise`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from msmemscope.formats.dump.csv_reader import csv_pieces, read_header
from msmemscope.formats.dump.naming import SQLITE_MAGIC
from msmemscope.formats.dump.reading import recordings_of_dumps
from msmemscope.formats.dump.sqlite_reader import database_pieces
from msmemscope.formats.torch_snapshot.plain_pickle import begins_like_pickle
from msmemscope.formats.torch_snapshot.reader import recording_of_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from msmemscope.recording import Recording


@dataclass(frozen=True)
class FileFormat:
    """One format."""

    begins: Callable[[bytes], bool]
    """Whether a file with this beginning, of 64 KiB or all that it has, is one."""
    read: Callable[[Sequence[Path], Path, str | None], tuple[Recording, ...]]
    """Reads the files of one export.

    Its arguments:

    - the files, more than one only of dumps;
    - the path that was asked for;
    - the reason why they are read instead of an event log, for the problems of the recordings.

    Raises InputError if nothing can be read.
    """
    is_dump: bool = False
    """Whether a folder can hold one file of it per device."""


FILE_FORMATS: Final[list[FileFormat]] = [
    FileFormat(
        lambda start: start.startswith(SQLITE_MAGIC), partial(recordings_of_dumps, "db", database_pieces), is_dump=True
    ),
    FileFormat(begins_like_pickle, lambda files, _given, _reason: (recording_of_snapshot(files[0]),)),
    FileFormat(
        lambda start: read_header(start) is not None, partial(recordings_of_dumps, "csv", csv_pieces), is_dump=True
    ),
]
"""In the order in which they are tried."""
