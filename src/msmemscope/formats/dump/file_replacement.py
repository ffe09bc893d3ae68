"""Replacing a file by a changed copy, all or nothing."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.capture.output_root import open_parent
from msmemscope.errors import DumpError, PlantedLinkError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_PART = 200
"""Of the name of a file in that of its copy."""
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Replacement:
    """The changed copy of a file, empty at first."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.is_wanted = True
        """Set to False, the file stays as it is."""

    @property
    def path(self) -> Path:
        """Leads to the copy itself, whatever its name leads to."""
        return Path(f"/proc/self/fd/{self.descriptor}")

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        return _identity(os.fstat(self.descriptor))


@contextmanager
def replacement_of(path: Path) -> Iterator[Replacement]:
    """Make the changed copy of a file in the block of a `with`.

    The copy is written beside the file. It gets the permissions of the file and, where that is allowed, its owner. At
    the end of the block the copy is brought to the disk and takes the place of the file. A failure before that leaves
    the file as it was, and no copy behind. A symbolic link stays one: the file that it leads to is replaced. Links of
    other users are not followed. No other file is written, whatever takes the name of the copy meanwhile.

    Args:
        path: A regular file.

    Yields:
        The replacement to write the copy into.

    Raises:
        DumpError: the file is no regular one, changed meanwhile, or the copy cannot be written; also for any OSError in
            the block.
    """
    with place_of(path) as (folder, name):
        yield from _replaced(path, folder, name)


@contextmanager
def place_of(path: Path) -> Iterator[tuple[int, str]]:
    """Open the folder of a file that is to be changed, behind all links of its path.

    Args:
        path: The file.

    Yields:
        A descriptor of the folder, and the name of the file in it.

    Raises:
        DumpError: the path leads through a link of another user; also for any OSError in the block.
    """
    try:
        folder, name = open_parent(str(path))
        try:
            yield folder, name
        finally:
            os.close(folder)
    except PlantedLinkError as error:
        message = f"{path} cannot be changed: it {error.message}"
        raise DumpError(message, hint=error.hint) from error
    except OSError as error:
        message = f"{path} cannot be changed: {error.strerror or error}"
        raise DumpError(message, hint="the file is as it was; its folder needs room and must be writable") from error


def _replaced(path: Path, folder: int, name: str) -> Iterator[Replacement]:
    """Yield the copy of a file of an open folder, and put it into the file's place."""
    before = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(before.st_mode):
        message = f"{path} cannot be changed: it is not a regular file"
        raise DumpError(message)
    # Refused here rather than by replacing a file that its owner has protected.
    os.close(os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder))
    temporary = f".{name[:_LONGEST_PART]}.{secrets.token_hex(8)}.partial"
    copy = Replacement(os.open(temporary, _NEW_FILE, 0o600, dir_fd=folder))
    try:
        yield copy
        if not copy.is_wanted:
            return
        _finish(copy.descriptor, before)
        if _version(os.stat(name, dir_fd=folder, follow_symlinks=False)) != _version(before):
            message = f"{path} cannot be changed: another program wrote to it meanwhile"
            raise DumpError(message, hint="wait until that program has ended, and try again")
        if _identity(os.stat(temporary, dir_fd=folder, follow_symlinks=False)) != copy.identity:
            message = f"{path} cannot be changed: the changed copy of it was replaced by another file"
            raise DumpError(message, hint="other users can write to its folder; copy it to one of your own")
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        temporary = ""
        os.fsync(folder)
    finally:
        os.close(copy.descriptor)
        if temporary:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)


def _finish(descriptor: int, status: os.stat_result) -> None:
    """Give a file the owner and the permissions of another, and bring it to the disk."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        with suppress(PermissionError):  # only root may give files away; the permissions stay
            os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    os.fsync(descriptor)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _version(status: os.stat_result) -> tuple[int, ...]:
    return *_identity(status), status.st_size, status.st_mtime_ns
