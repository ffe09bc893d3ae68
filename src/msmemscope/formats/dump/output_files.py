"""Creating folders and files where nobody else can redirect them.

Everything below the directory of the process is opened relative to its parent's descriptor. It is never opened through
a symbolic link. Above that directory, a symbolic link of another user is never followed. A file is written under a
temporary name. It gets its own name when it is complete, if no file has that name. So a finished file is never touched.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msmemscope.capture.output_root import open_directory
from msmemscope.errors import DumpError, PlantedLinkError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from typing_extensions import Self

FOLDER_MODE: Final = 0o750
FILE_MODE: Final = 0o640

PARTIAL_SUFFIX: Final = ".partial"
"""Ends the name of a file that is being written."""

_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES})


class OutputFolder:
    """A folder that files are created in.

    Args:
        base: The directory of the process; it must exist.
        parts: Names of folders from there on; created where missing.

    Raises:
        DumpError: one of them cannot be opened or created, or is a symbolic link.
    """

    def __init__(self, base: Path, *parts: str) -> None:
        """Open the folder, and create missing parts of it below the base."""
        self.path = base
        self._descriptor = self._opened(str(base), None)
        for part in parts:
            parent = self._descriptor
            self.path /= part
            try:
                self._create_folder(part, parent)
                self._descriptor = self._opened(part, parent)
            finally:
                os.close(parent)

    def __enter__(self) -> Self:
        """Return the open folder."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the folder."""
        os.close(self._descriptor)

    def names(self) -> list[str]:
        """Return the names of everything in the folder."""
        return os.listdir(self._descriptor)  # noqa: PTH208 - pathlib has no descriptors

    def remove_abandoned(self, names: Collection[str] | None = None) -> None:
        """Remove unfinished files whose writer is gone: each is locked for as long as it is written.

        Args:
            names: The names that they get when they are finished; None for all in the folder.
        """
        for name in self.names():
            is_meant = names is None or name.removesuffix(PARTIAL_SUFFIX) in names
            if is_meant and name.endswith(PARTIAL_SUFFIX):
                with suppress(OSError):
                    self._remove_unless_locked(name)

    def _remove_unless_locked(self, name: str) -> None:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=self._descriptor)
        finally:
            os.close(descriptor)

    def create(self, name: str) -> OutputFile:
        """Create a file that will have a name when it is finished.

        Raises:
            DumpError: it cannot be created.
        """
        return OutputFile(self, self._descriptor, name)

    def _create_folder(self, part: str, parent: int) -> None:
        try:
            os.mkdir(part, FOLDER_MODE, dir_fd=parent)
        except FileExistsError:
            pass
        except OSError as error:
            message = f"folder {self.path} cannot be created: {error.strerror}"
            raise DumpError(message, hint="name another place with --output") from error

    def _opened(self, name: str, parent: int | None) -> int:
        try:
            if parent is None:  # links of the user are the user's own business
                return open_directory(name)
            return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=parent)
        except PlantedLinkError as error:
            message = f"folder {self.path} cannot be used: it {error.message}"
            raise DumpError(message, hint=error.hint) from error
        except OSError as error:
            reason = error.strerror
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                reason = "it is a symbolic link or no folder"
            message = f"folder {self.path} cannot be used: {reason}"
            raise DumpError(message, hint="remove it, or name another place with --output") from error


class OutputFile:
    """A file under its temporary name: finish it or discard it.

    Args:
        folder: Where it is, which must stay open for as long.
        folder_descriptor: That folder.
        name: The name of the file in the end.

    Raises:
        DumpError: it cannot be created, or somebody else is writing it.
    """

    def __init__(self, folder: OutputFolder, folder_descriptor: int, name: str) -> None:
        self.path = folder.path / name
        self._name = name
        self._partial_name = f"{name}{PARTIAL_SUFFIX}"
        self._folder_descriptor = folder_descriptor
        self._is_open = True
        try:
            self._descriptor = self._opened(os.O_CREAT | os.O_EXCL)
            self._identity = _identity(os.fstat(self._descriptor))
        except OSError as error:
            raise self.failure(error) from error

    def write(self, content: bytes | memoryview) -> None:
        """Append bytes.

        Raises:
            DumpError: the disk is full, or gone.
        """
        rest = memoryview(content)
        try:
            self._resume()
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            raise self.failure(error) from error

    def overwrite_begin(self, content: bytes) -> None:
        """Write bytes over those at the begin of a file that was never suspended.

        Raises:
            DumpError: the disk is gone.
        """
        try:
            os.pwrite(self._descriptor, content, 0)
        except OSError as error:
            raise self.failure(error) from error

    def suspend(self) -> None:
        """Give the descriptor back until the next write, for those who write very many files."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def finish(self, *, replaces: bool = False) -> Path:
        """Give the file its name.

        Args:
            replaces: Whether it replaces a file that has the name already. A link is replaced itself, never its target.

        Returns:
            The finished file.

        Raises:
            DumpError: a file of that name appeared meanwhile.
        """
        folder = self._folder_descriptor
        try:
            self._resume()
            self._check_identity(os.stat(self._partial_name, dir_fd=folder, follow_symlinks=False))
            if replaces:
                os.replace(self._partial_name, self._name, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                self._take_name(folder)
        except OSError as error:
            raise self.failure(error) from error
        self._is_open = False
        self.suspend()
        return self.path

    def _take_name(self, folder: int) -> None:
        try:
            os.link(self._partial_name, self._name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(self._partial_name, dir_fd=folder)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # No hard links here: take the name first, which fails if it is taken.
            os.close(os.open(self._name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE, dir_fd=folder))
            os.replace(self._partial_name, self._name, src_dir_fd=folder, dst_dir_fd=folder)

    def discard(self) -> None:
        """Remove the file; do nothing if it was finished or discarded."""
        if self._is_open:
            with suppress(OSError):  # it is gone, which is what was wanted
                os.unlink(self._partial_name, dir_fd=self._folder_descriptor)
        self._is_open = False
        self.suspend()

    def failure(self, error: BaseException) -> DumpError:
        """Return the error to raise for a failure of writing this file."""
        return unwritable(self.path, error)

    def _resume(self) -> None:
        if self._descriptor < 0:
            self._descriptor = self._opened(os.O_APPEND)
            self._check_identity(os.fstat(self._descriptor))

    def _check_identity(self, status: os.stat_result) -> None:
        if _identity(status) != self._identity:
            raise OSError(errno.EEXIST, "it was replaced by another file")

    def _opened(self, flags: int) -> int:
        flags |= os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._partial_name, flags, FILE_MODE, dir_fd=self._folder_descriptor)
        with suppress(OSError):  # a file system without locks: nobody can tell, and nothing is lost
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor


def unwritable(path: Path, error: BaseException) -> DumpError:
    """Return the error to raise for a file or folder that cannot be written, with the reason and what helps."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    hint = "make room, or name another place with --output" if is_full else "name another place with --output"
    return DumpError(f"{path} cannot be written: {reason}", hint=hint)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
