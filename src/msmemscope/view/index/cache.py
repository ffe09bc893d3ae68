"""Where indexes are kept, and which one belongs to a path.

An index belongs to the files that it was made of: their names, sizes and times of change are part of its name. Of one path
the last index is kept, and of all together the ones that were used last, up to some size.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from msmemscope.errors import InputError
from msmemscope.view.index.store import cannot_be_kept

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT: Final = 3
"""Of indexes; one of another format is not looked at."""
MOST_BYTES: Final = 32 << 30
"""Of all indexes together; those that were used longest ago are removed."""
_OWNER: Final = "made_of.json"
_PART: Final = ".part"
_LOCK: Final = "builder.lock"
"""A file in the folder of an index in the making. Its maker holds a lock on it, until the maker ends."""
_ABANDONED_S: Final = 86_400
"""At this age, a folder without a lock counts as abandoned: where files cannot be locked, nothing else tells."""


class UnwritableCacheError(InputError):
    """The folder that indexes are kept in cannot be written: nothing has been made yet, and another folder may do."""


class IndexFolder:
    """Where the index of a path is, or shall be.

    Args:
        path: A capture folder, or a file.
        cache: Where indexes are kept; None for the folder of the user's cache.

    Raises:
        UnwritableCacheError: Nobody knows where the user's folders are.
    """

    def __init__(self, path: Path, cache: Path | None = None) -> None:
        """Look at the files of the path."""
        from msmemscope import __version__

        self._path = path.absolute()
        self._cache = _user_cache() if cache is None else cache
        lines = [f"{FORMAT} {__version__}", str(self._path), *_signature(self._path)]
        self._name = hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()[:32]

    @property
    def folder(self) -> Path:
        """The folder of the index, which has one of each process in it: `0`, `1` ..."""
        return self._cache / self._name

    def parts(self) -> list[Path]:
        """Return the folders of its processes; none if there is no index yet."""
        try:
            count = json.loads((self.folder / _OWNER).read_text(encoding="utf-8"))["processes"]
        except (OSError, ValueError, KeyError):
            return []
        with contextlib.suppress(OSError):  # of somebody else, who lets us read it
            os.utime(self.folder / _OWNER)  # the last one that was used goes last
        return [self.folder / str(number) for number in range(count)]

    @contextlib.contextmanager
    def made(self) -> Iterator[Path]:
        """A new folder, in which each process has one; at the end it takes its place, if nothing went wrong.

        Raises:
            UnwritableCacheError: No folder can be made.
            InputError: There is no room.
        """
        place, lock = self._new_place()
        try:
            self._remove_abandoned()
            yield place
            self._take_place(place)
        finally:
            shutil.rmtree(place, ignore_errors=True)
            lock.close()

    def _new_place(self) -> tuple[Path, IO[bytes]]:
        try:
            self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            place = Path(tempfile.mkdtemp(prefix=f"{self._name}.", suffix=_PART, dir=self._cache))
        except OSError as error:
            failure = cannot_be_kept(self._cache, error)
            raise UnwritableCacheError(failure.message, hint=failure.hint) from error
        try:
            return place, _locked(place)
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            raise cannot_be_kept(self._cache, error) from error

    def _take_place(self, place: Path) -> None:
        count = sum(1 for one in place.iterdir() if one.is_dir())
        owner = {"path": str(self._path), "processes": count}
        self._remove_others()
        try:
            (place / _OWNER).write_text(json.dumps(owner), encoding="utf-8")
            (place / _LOCK).unlink(missing_ok=True)
            if self.parts():
                return  # another viewer of the same path was faster, and reads it: it says the same
            shutil.rmtree(self.folder, ignore_errors=True)
            place.rename(self.folder)
        except OSError as error:
            if not self.parts():
                raise cannot_be_kept(self._cache, error) from error

    def _remove_abandoned(self) -> None:
        """Remove the folders of killed builders; live builders keep theirs."""
        for folder in self._cache.iterdir():
            if folder.suffix == _PART and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def _remove_others(self) -> None:
        """Remove older indexes of the same path, those of paths that are gone, and those beyond the limit of size."""
        kept: list[tuple[float, int, Path]] = []
        for folder in self._cache.iterdir():
            if folder.suffix == _PART or folder == self.folder:
                continue
            try:
                owner = json.loads((folder / _OWNER).read_text(encoding="utf-8"))["path"]
                used = (folder / _OWNER).stat().st_mtime
            except (OSError, ValueError, KeyError):
                continue  # not ours, or of another format
            if owner == str(self._path) or not Path(owner).exists():
                shutil.rmtree(folder, ignore_errors=True)
            else:
                kept.append((used, _size(folder), folder))
        total = 0
        for _, size, folder in sorted(kept, reverse=True):
            total += size
            if total > MOST_BYTES:
                shutil.rmtree(folder, ignore_errors=True)


def _locked(place: Path) -> IO[bytes]:
    """Lock a new folder: until the file is closed, in all processes that have it, it is not abandoned."""
    lock = (place / f"{_LOCK}.new").open("wb")
    # It gets its name when it is locked: nobody ever sees one that nobody holds yet.
    with contextlib.suppress(OSError):  # a file system without locks: the age of the folder has to do
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Path(lock.name).rename(place / _LOCK)
    return lock


def _is_abandoned(place: Path) -> bool:
    """Whether nobody makes an index in a folder any more."""
    try:
        with (place / _LOCK).open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            return time.time() - place.stat().st_mtime > _ABANDONED_S
        return False
    except OSError:
        return False
    return True


def _user_cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(given) if given.startswith("/") else Path.home() / ".cache"
    except RuntimeError as error:
        message = "no index can be kept: this user has no home folder"
        raise UnwritableCacheError(message, hint="set XDG_CACHE_HOME to a folder") from error
    return base / "msmemscope" / "view"


def _signature(path: Path) -> list[str]:
    """A value that changes when the files at a path do."""
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    lines = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        lines.append(f"{file} {status.st_size} {status.st_mtime_ns}")
    return lines


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
