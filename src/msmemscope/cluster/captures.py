"""Finding the captures of a job: in folders however deep, by patterns, and in object stores."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import hashlib
import os
import re
from typing import TYPE_CHECKING, Any, Final

from msmemscope.errors import InputError, MissingInputError, MsmemscopeError, UsageError
from msmemscope.formats.event_log.archive.contents import ARCHIVE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_EVENT_LOG: Final = "event_log"
_CAPTURE_NAME: Final = re.compile(r"msmemscope_.+_ascend")
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_PATTERN: Final = re.compile(r"[*?\[]")
_EDGE_BYTES: Final = 1 << 16
ACCEPTED: Final = "folders, archives, dumps, patterns (runs/*/rank*), or URLs that fsspec knows (s3://bucket/runs)"


@dataclasses.dataclass(frozen=True)
class FoundCaptures:
    """The captures at some paths."""

    locations: tuple[str, ...]
    """Paths and URLs of captures, ascending, each once."""
    failures: tuple[tuple[str, str], ...]
    """Folders that could not be looked into, and why."""


def find_captures(paths: Iterable[str]) -> FoundCaptures:
    """Find the captures at some paths.

    Args:
        paths: Folders, whose folders are searched too; files; patterns; URLs.

    Raises:
        UsageError: A path names nothing, or nothing is there.
        InputError: A URL cannot be read.
    """
    locations: dict[str, str] = {}
    failures: list[tuple[str, str]] = []
    for path in paths:
        found = _at_url(path) if is_url(path) else _at_path(path, failures)
        for location in found:
            locations.setdefault(location if is_url(location) else os.path.realpath(location), location)
    return FoundCaptures(tuple(sorted(locations.values())), tuple(sorted(failures)))


def is_url(location: str) -> bool:
    """Whether a location is a URL and no path."""
    return _URL.match(location) is not None


def _at_path(given: str, failures: list[tuple[str, str]]) -> Iterator[str]:
    path = os.path.expanduser(given)  # noqa: PTH111 - patterns are texts
    if not os.path.lexists(path):
        named = sorted(glob.glob(path, recursive=True)) if _PATTERN.search(path) else []  # noqa: PTH207 - likewise
        if not given or not named:
            message = "names nothing"
            raise UsageError(message, option="PATH", value=given, accepted=ACCEPTED)
        for one in named:
            yield from _below(one, failures)
    else:
        yield from _below(path, failures)


def _below(path: str, failures: list[tuple[str, str]]) -> Iterator[str]:
    if not os.path.isdir(path) or _is_capture(path):  # noqa: PTH112 - an unreadable folder is none, and no exception
        yield path
        return
    found = False

    def note(error: OSError) -> None:
        failures.append((str(error.filename), f"cannot be read: {error.strerror}"))

    for folder, folders, files in os.walk(path, onerror=note):
        captures = [name for name in folders if _is_capture(f"{folder}/{name}")]
        names = set(captures)
        archives = [name for name in files if name.endswith(ARCHIVE_SUFFIX)]
        for name in (*captures, *(one for one in archives if one.removesuffix(ARCHIVE_SUFFIX) not in names)):
            found = True
            yield f"{folder}/{name}"
        folders[:] = [name for name in folders if name not in names]
    if not found:
        yield path  # dumps, or nothing: whoever reads it says so


def _is_capture(folder: str) -> bool:
    name = os.path.basename(folder.rstrip("/"))  # noqa: PTH119 - of a text
    return _CAPTURE_NAME.fullmatch(name) is not None or os.path.isdir(f"{folder}/{_EVENT_LOG}")  # noqa: PTH112 - as above


def fingerprint(path: Path) -> str:
    """Return the marks of the files at a path: their names below it, sizes, times of change, beginnings and ends.

    Raises:
        InputError: They cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for file in files:
            with file.open("rb") as content:
                status = os.fstat(content.fileno())
                name = str(file.relative_to(path)) if file != path else ""
                digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode(errors="surrogateescape"))
                digest.update(content.read(_EDGE_BYTES))
                content.seek(max(status.st_size - _EDGE_BYTES, 0))
                digest.update(content.read(_EDGE_BYTES))
    except FileNotFoundError as error:
        message = f"{path} is not there any more"
        raise MissingInputError(message) from error
    except OSError as error:
        message = f"{error.filename or path} cannot be read: {error.strerror}"
        raise InputError(message) from error
    return digest.hexdigest()


# --- object stores -----------------------------------------------------------------------------------------------------


def _at_url(url: str) -> Iterator[str]:
    files, root = _file_system(url)
    with _store_errors(url):
        named = files.glob(root) if _PATTERN.search(root) else [root]
        if not named or not any(files.exists(one) for one in named):
            message = "names nothing"
            raise UsageError(message, option="PATH", value=url, accepted=ACCEPTED)
        found: dict[str, None] = {}
        for one in named:
            if files.isfile(one):
                found[one] = None
                continue
            for file in files.find(one):
                folder, is_log, _ = file.rpartition(f"/{_EVENT_LOG}/")
                if is_log:
                    found[folder] = None
                elif file.endswith(ARCHIVE_SUFFIX):
                    found[file] = None
        captures = [
            one
            for one in found
            if one.removesuffix(ARCHIVE_SUFFIX) == one or one.removesuffix(ARCHIVE_SUFFIX) not in found
        ]
    if not captures:
        message = f"{url} holds no captures"
        raise InputError(message, hint=f"accepted: {ACCEPTED}")
    for one in captures:
        yield str(files.unstrip_protocol(one))


def remote_fingerprint(url: str) -> str:
    """Return the marks of the files at a URL: names, sizes, and the store's names of their versions.

    Raises:
        InputError: The store cannot be read.
    """
    files, root = _file_system(url)
    digest = hashlib.blake2b(digest_size=16)
    with _store_errors(url):
        names = [root] if files.isfile(root) else sorted(files.find(root))
        for name in names:
            digest.update(f"{name.removeprefix(root)}\0{files.size(name)}\0{files.ukey(name)}\0".encode())
    return digest.hexdigest()


def bring(url: str, folder: Path) -> Path:
    """Copy a capture from a store.

    Args:
        url: Of it.
        folder: Where to: an empty one.

    Returns:
        The copy.

    Raises:
        InputError: The store cannot be read.
    """
    files, root = _file_system(url)
    target = folder / root.rstrip("/").rpartition("/")[2]
    with _store_errors(url):
        files.get(root, str(target), recursive=not files.isfile(root))
    return target


def _file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        message = "needs fsspec, which is not installed"
        raise UsageError(
            message, option="PATH", value=url, accepted="paths", hint="pip install 'msmemscope[cluster]'"
        ) from error
    with _store_errors(url):
        files, root = url_to_fs(url)
    return files, str(root)


@contextlib.contextmanager
def _store_errors(url: str) -> Iterator[None]:
    """Turn any exception of a store into an InputError: each store has exceptions of its own."""
    try:
        yield
    except MsmemscopeError:
        raise
    except Exception as error:
        message = f"{url} cannot be read: {type(error).__name__}: {error}"
        raise InputError(message) from error
