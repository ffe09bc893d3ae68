"""Where captures are gathered: a folder of this machine, or any place with a file system of fsspec."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from msmemscope.errors import DumpError, MsmemscopeError, UsageError
from msmemscope.formats.dump.output_files import FOLDER_MODE, PARTIAL_SUFFIX, OutputFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Write = Callable[[bytes], object]

_OPTION = "--gather"
_ACCEPTED = "a folder, or a URL that fsspec knows: file:///captures, s3://bucket/captures, hdfs://host/captures"


class Destination(Protocol):
    """Takes files; one that is not complete is never seen under its name."""

    def put(self, name: str, content: Callable[[Write], object]) -> None:
        """Write a file, and give it its name when all of it is there.

        Args:
            name: Of the file; a file of this name stays as it is.
            content: Calls its argument with piece after piece.

        Raises:
            DumpError: It cannot be written, or something has the name; nothing of it is left.
        """


def destination_of(text: str) -> Destination:
    """Return the destination that a user named; nothing is created or asked over a network.

    Args:
        text: A path or a URL.

    Raises:
        UsageError: It names nothing that can be written to, or fsspec or its file system is not installed.
    """
    if not text.strip() or not text.isprintable():
        message = "names no place"
        raise UsageError(message, option=_OPTION, value=text, accepted=_ACCEPTED)
    if "://" not in text:
        return _Folder(Path(os.path.abspath(os.path.expanduser(text))))  # noqa: PTH100, PTH111 - as --output
    parts = urlsplit(text)
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
            message = "names another host, or no path"
            raise UsageError(message, option=_OPTION, value=text, accepted=_ACCEPTED)
        return _Folder(Path(unquote(parts.path)))
    try:
        import fsspec
    except ImportError as error:
        message = "needs fsspec, which is not installed"
        hint = "pip install 'msmemscope[cluster]', or name a folder"
        raise UsageError(message, option=_OPTION, value=text, hint=hint) from error
    try:
        system, path = fsspec.core.url_to_fs(text)
    except ImportError as error:
        message = f"needs a package that is not installed: {error}"
        raise UsageError(message, option=_OPTION, value=text) from error
    except Exception as error:
        # Each file system judges its URLs in its own way.
        message = f"cannot be used: {error}"
        raise UsageError(message, option=_OPTION, value=text, accepted=_ACCEPTED) from error
    return _FileSystem(system, path.rstrip("/"), parts.scheme)


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, name: str, content: Callable[[Write], object]) -> None:
        """Write a file; see `Destination`."""
        try:
            self._path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            message = f"folder {self._path} cannot be created: {error.strerror}"
            raise DumpError(message) from error
        with OutputFolder(self._path) as folder:
            folder.remove_abandoned([name])
            file = folder.create(name)
            try:
                content(file.write)
                file.finish()
            finally:
                file.discard()


class _FileSystem:
    """A file system of fsspec.

    Args:
        system: fsspec's.
        path: The folder, as that file system writes it.
        scheme: Of the URL, for messages.
    """

    def __init__(self, system: Any, path: str, scheme: str) -> None:
        self._system = system
        self._path = path
        self._scheme = scheme

    def put(self, name: str, content: Callable[[Write], object]) -> None:
        """Write a file; see `Destination`."""
        final = f"{self._path}/{name}"
        partial = f"{final}{PARTIAL_SUFFIX}"
        try:
            self._check_free(final)
            self._system.makedirs(self._path, exist_ok=True)
            with self._removed_after_failure(partial):
                with self._system.open(partial, "wb") as file:
                    content(file.write)
                self._system.mv(partial, final)
        except MsmemscopeError:
            raise
        except Exception as error:
            # Each file system has errors of its own.
            message = f"{self._scheme}://{final} cannot be written: {type(error).__name__}: {error}"
            raise DumpError(message) from error

    def _check_free(self, path: str) -> None:
        if self._system.exists(path):
            message = f"{self._scheme}://{path} is there already, and nothing is overwritten"
            raise DumpError(message)

    @contextlib.contextmanager
    def _removed_after_failure(self, path: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # what has failed once may fail again; no reader takes the name
                self._system.rm(path)
            raise
