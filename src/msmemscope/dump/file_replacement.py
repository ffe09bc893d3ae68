"""Replacing a file by a changed copy, all or nothing."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.errors import DumpError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replacement_of(path: Path) -> Iterator[Path]:
    """Make the changed copy of a file in the block of a `with`.

    The copy is written beside the file, gets its permissions and, where that is allowed, its owner, is brought to the
    disk and takes the place of the file at the end of the block. Whatever fails before that leaves the file as it was
    and no copy behind. A symbolic link stays one: the file that it leads to is replaced.

    Args:
        path: A regular file.

    Yields:
        An empty file to write the copy to. If the block removes it, the file stays as it is.

    Raises:
        DumpError: the file is no regular one, changed meanwhile, or the copy cannot be written; also for any OSError in
            the block.
    """
    temporary = None
    try:
        target = path.resolve(strict=True)
        before = target.stat()
        if not stat.S_ISREG(before.st_mode):
            message = f"{path} cannot be changed: it is not a regular file"
            raise DumpError(message)
        # Refused here rather than by replacing a file that its owner has protected.
        os.close(os.open(target, os.O_RDWR | os.O_CLOEXEC))
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
        temporary = Path(name)
        os.close(descriptor)
        yield temporary
        if not temporary.exists():
            return
        _finish(temporary, before)
        if _version(target.stat()) != _version(before):
            message = f"{path} cannot be changed: another program wrote to it meanwhile"
            raise DumpError(message, hint="wait until that program has ended, and try again")
        temporary.replace(target)
        temporary = None
        _bring_to_disk(target.parent)
    except OSError as error:
        message = f"{path} cannot be changed: {error.strerror or error}"
        raise DumpError(message, hint="the file is as it was; its folder needs room and must be writable") from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                temporary.unlink()


def _finish(temporary: Path, status: os.stat_result) -> None:
    """Gives a file the owner and the permissions of another, and brings it to the disk."""
    with temporary.open("rb+") as file:
        if (os.fstat(file.fileno()).st_uid, os.fstat(file.fileno()).st_gid) != (status.st_uid, status.st_gid):
            with suppress(PermissionError):  # only root may give files away; the permissions stay
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
        os.fsync(file.fileno())


def _bring_to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
