"""Where indexes are kept, and which one belongs to what lies at a path.

An index belongs to the files that it was made of: their names, sizes and times of change are part of its name. Of one path
the last index is kept, and of all together the ones that were used last, up to some size.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT: Final = 1
"""Of indexes; one of another format is not looked at."""
MOST_BYTES: Final = 32 << 30
"""Of all indexes together; those that were used longest ago are removed."""
_OWNER: Final = "made_of.json"
_PART: Final = ".part"


class IndexFolder:
    """Where the index of what lies at a path is, or shall be.

    Args:
        path: A capture folder, or a file.
        cache: Where indexes are kept; None for the folder of the user's cache.
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
            os.utime(self.folder / _OWNER)  # the last one that was used goes last
        except (OSError, ValueError, KeyError):
            return []
        return [self.folder / str(number) for number in range(count)]

    @contextlib.contextmanager
    def made(self) -> Iterator[Path]:
        """A new folder, in which each process has one; at the end it takes its place, if nothing went wrong."""
        try:
            self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            place = Path(tempfile.mkdtemp(prefix=f"{self._name}.", suffix=_PART, dir=self._cache))
        except OSError as error:
            message = f"no index can be kept in {self._cache}: {error.strerror}"
            raise InputError(message, hint="XDG_CACHE_HOME names another folder") from error
        try:
            yield place
            count = sum(1 for one in place.iterdir() if one.is_dir())
            owner = {"path": str(self._path), "processes": count}
            (place / _OWNER).write_text(json.dumps(owner), encoding="utf-8")
            self._remove_others()
            shutil.rmtree(self.folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # another viewer of the same path was faster: its index says the same
                place.rename(self.folder)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _remove_others(self) -> None:
        """Remove older indexes of the same path, those of paths that are gone, and what is too much."""
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


def _user_cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return base / "msmemscope" / "view"


def _signature(path: Path) -> list[str]:
    """What changes when the files at a path do."""
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
