"""The recordings that were read last: an agent asks many questions about one run, which is read once."""

from __future__ import annotations

import collections
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.errors import UsageError
from msmemscope.formats.reading import load_all
from msmemscope.launch.faults import faults_as_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msmemscope.recording import Recording

_MOST_KEPT: Final = 4
_MOST_KEPT_BYTES: Final = 2 << 30
"""Of tables; the one that was read last is kept however large it is."""
_MOST_FILES: Final = 10_000
"""Of a folder that are looked at for changes."""

Stamp = tuple[tuple[str, int, int], ...]
"""Path, time of the last change in nanoseconds, and size, of each file that a path stands for."""


@dataclasses.dataclass(frozen=True)
class _Kept:
    stamp: Stamp
    recordings: tuple[Recording, ...]
    size_bytes: int


class LoadedRecordings:
    """Reads recordings, and keeps the last few as long as their files do not change."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: collections.OrderedDict[Path, _Kept] = collections.OrderedDict()

    def at(self, path: str) -> tuple[Recording, ...]:
        """Return all processes at a path.

        Args:
            path: A path as `load_all` takes it; `~` is the home folder.

        Raises:
            UsageError: Nothing is named.
            InputError, EventLogError: As `load_all`.
        """
        if not path.strip():
            message = "names nothing"
            raise UsageError(message, option="path", value=path, accepted="a capture folder, or a dump file")
        given = Path(path).expanduser().absolute()
        # Before it is read: what is written meanwhile makes it new again.
        stamp = _stamp(given)
        kept = self._kept.get(given)
        if kept is None or kept.stamp != stamp:
            with faults_as_errors(during=str(given), send=str(given)):
                recordings = load_all(given)
            kept = _Kept(stamp, recordings, sum(map(_size_bytes, recordings)))
            self._kept[given] = kept
        self._kept.move_to_end(given)
        self._forget()
        return kept.recordings

    def chosen(self, path: str, process: int | None, *, option: str = "process") -> tuple[Recording, ...]:
        """Return the processes at a path, or the one that is named.

        Raises:
            UsageError: There is no such process. And as `at`.
        """
        recordings = self.at(path)
        if process is None:
            return recordings
        found = tuple(recording for recording in recordings if recording.process_id == process)
        if not found:
            message = "no such process lies there"
            raise UsageError(message, option=option, value=str(process), accepted=_process_ids(recordings))
        return found

    def one(self, path: str, process: int | None) -> Recording:
        """Return the one process that is meant.

        Raises:
            UsageError: Several lie there and none is named. And as `chosen`.
        """
        recordings = self.chosen(path, process)
        if len(recordings) > 1:
            message = f"{len(recordings)} processes lie at {path}, and one must be named"
            raise UsageError(message, option="process", accepted=_process_ids(recordings))
        return recordings[0]

    def _forget(self) -> None:
        while len(self._kept) > 1 and (
            len(self._kept) > _MOST_KEPT or sum(kept.size_bytes for kept in self._kept.values()) > _MOST_KEPT_BYTES
        ):
            self._kept.popitem(last=False)


def _process_ids(recordings: Sequence[Recording]) -> str:
    return ", ".join(str(recording.process_id) for recording in recordings)


def _size_bytes(recording: Recording) -> int:
    tables = (recording.events, recording.blocks, recording.strings, recording.python_stacks, recording.native_stacks)
    return sum(int(table.estimated_size()) for table in tables)


def _stamp(path: Path) -> Stamp:
    return tuple(_file_stamps(path))


def _file_stamps(path: Path) -> Iterator[tuple[str, int, int]]:
    """The marks that tell a changed input; of a folder, those of all its files, as a growing log does not change it."""
    if not path.is_dir():
        yield _file_stamp(str(path))
        return
    seen = 0
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            seen += 1
            if seen > _MOST_FILES:
                return
            yield _file_stamp(os.path.join(folder, name))  # noqa: PTH118 - names of files need not be text


def _file_stamp(path: str) -> tuple[str, int, int]:
    try:
        status = os.stat(path, follow_symlinks=True)  # noqa: PTH116 - likewise
    except (OSError, ValueError):
        return path, 0, 0  # gone meanwhile; that it cannot be read is found when it is
    return path, status.st_mtime_ns, status.st_size
