"""The output root: made safely, and judged for who else could reach into it.

Paths are walked component by component with open directories. So no symbolic link that somebody else planted is
followed, and none can be swapped in meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import pwd
import stat
from typing import TYPE_CHECKING

from msmemscope.errors import PlantedLinkError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY_MODE = 0o750
_MAXIMUM_LINKS = 40
_LONGEST_NAME_INSIDE = 160
"""Bytes that the names of our own folders and files add to the path of the root, at most."""
_MAXIMUM_PATH_BYTES = 4095 - _LONGEST_NAME_INSIDE

_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ACCEPTED = "a directory that exists or can be created, and that you can write to"


@dataclasses.dataclass(frozen=True)
class OutputRoot:
    """The output root after it was made ready."""

    path: str
    was_created: bool
    warnings: tuple[str, ...]
    """Reasons why the path is less than safe, one line each; the run goes on."""
    identity: tuple[int, int]
    """Device and inode: which directory it is, whatever its path leads to later."""

    def is_in_place(self) -> bool:
        """Whether the path still leads to this directory."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 - the whole module works on descriptors and text
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity


def prepare_output_root(path: str) -> OutputRoot:
    """Create the output root where it is missing, and judge it.

    Args:
        path: Absolute path without `.` and `..`.

    Raises:
        UsageError: If it cannot be created or written, or leads through a link that another user planted.
    """
    if len(os.fsencode(path)) > _MAXIMUM_PATH_BYTES:
        message = f"too long for the files inside it; at most {_MAXIMUM_PATH_BYTES} bytes are possible"
        raise UsageError(message, option="--output", value=f"{path[:40]}…")
    try:
        walk = _Walk(creates=True)
        with walk.to(path) as directory:
            status = os.fstat(directory)
        if not os.access(path, os.W_OK | os.X_OK):
            _refuse(path, f"cannot be written ({why_unwritable(path)})")
    except PlantedLinkError as error:
        _refuse(path, error.message, *filter(None, [error.hint]))
    except OSError as error:
        _refuse(path, f"cannot be created ({error.strerror})")
    warnings = tuple(_warnings(path, status, walk.reachable))
    return OutputRoot(path, walk.was_created, warnings, (status.st_dev, status.st_ino))


def remove_if_empty(root: OutputRoot) -> None:
    """Take the root away again if this launch made it and nothing was put there."""
    if root.was_created and root.is_in_place():
        with contextlib.suppress(OSError):
            os.rmdir(root.path)  # noqa: PTH106


def open_directory(path: str) -> int:
    """Open a directory for whatever is done inside it.

    Args:
        path: Of a directory that exists.

    Returns:
        A descriptor, which does not go to other programs.

    Raises:
        PlantedLinkError: If the path leads through a link of another user, or through too many.
        OSError: If it cannot be opened.
    """
    with _Walk().to(_absolute(path)) as directory:
        return os.open(".", _READABLE, dir_fd=directory)


def open_parent(path: str) -> tuple[int, str]:
    """Open the directory that a file lies in, behind all links of its path.

    Args:
        path: Of a file that exists.

    Returns:
        A descriptor as of `open_directory`, and the name of the file there, which is no link.

    Raises:
        PlantedLinkError: If the path leads through a link of another user, or through too many.
        OSError: If the file or the directory is missing, or cannot be opened.
    """
    walk = _Walk(to_parent=True)
    with walk.to(_absolute(path)) as directory:
        return os.open(".", _READABLE, dir_fd=directory), walk.name


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"{os.getcwd()}/{path}"  # noqa: PTH109 - text


def why_unwritable(path: str) -> str:
    """Return the system's reason why nothing can be made in a directory that exists."""
    try:
        is_read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError as error:
        return error.strerror or str(error)
    return os.strerror(errno.EROFS if is_read_only else errno.EACCES)


def _refuse(path: str, reason: str, hint: str = "name another directory with --output") -> None:
    raise UsageError(reason, option="--output", value=path, accepted=_ACCEPTED, hint=hint)


class _Walk:
    """Follows the components of a path.

    Args:
        creates: Whether components that are missing are created.
        to_parent: Whether to stop before the last component, which may be a file.
    """

    def __init__(self, *, creates: bool = False, to_parent: bool = False) -> None:
        self._creates = creates
        self._to_parent = to_parent
        self.name = ""
        """The last component, where it was stopped before it."""
        self.was_created = False
        """Whether the last component was created."""
        self.reachable: tuple[str, str] | None = None
        """The first directory on the way in which other users can rename what we go through, and who they are."""

    @contextlib.contextmanager
    def to(self, path: str) -> Iterator[int]:
        """Open the directory at an absolute path, as a place to start from."""
        pending = [part for part in reversed(path.split("/")) if part not in {"", "."}]
        walked = ""
        links = 0
        directory = os.open("/", os.O_PATH | os.O_DIRECTORY)
        try:
            while pending:
                name = pending.pop()
                self.was_created = self._creates and _create(name, directory)
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    links += 1
                    target = os.readlink(name, dir_fd=directory)
                    if status.st_uid not in {0, os.geteuid()}:
                        message = f"leads through a symbolic link of another user, {walked}/{name}"
                        raise PlantedLinkError(message, hint=f"name the directory itself: {target}")
                    if links > _MAXIMUM_LINKS:
                        message = "leads through too many symbolic links"
                        raise PlantedLinkError(message)
                    pending.extend(part for part in reversed(target.split("/")) if part not in {"", "."})
                    if not target.startswith("/"):
                        continue
                    name, walked = "/", ""
                elif self._to_parent and not pending:
                    self.name = name
                    break
                flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
                following = os.open(name, flags, dir_fd=directory)
                os.close(directory)
                directory = following
                walked = walked if name == "/" else f"{walked}/{name}"
                if self.reachable is None and pending:
                    others = _who_can_rename_in(os.fstat(directory))
                    self.reachable = (walked, others) if others else None
            yield directory
        finally:
            os.close(directory)


def _create(name: str, directory: int) -> bool:
    try:
        os.mkdir(name, _DIRECTORY_MODE, dir_fd=directory)
    except FileExistsError:
        return False
    except OSError as error:
        # A read-only or foreign directory refuses even what exists.
        try:
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            raise error from None
        return False
    return True


def _who_can_rename_in(status: os.stat_result) -> str:
    """Who else can put other directories into the place of those that a path leads through; empty if nobody can."""
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        return "other users"
    return "" if status.st_uid in {0, os.geteuid()} else _user_name(status.st_uid)


def _user_name(user_id: int) -> str:
    try:
        return f"the user {pwd.getpwuid(user_id).pw_name}"
    except KeyError:
        return f"the user {user_id}"


def _is_first_run() -> bool:
    """Whether root has not been warned here before: a file among the user's own says that it was."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - pathlib is not loaded here
    folder = os.path.join(state, "msmemscope")  # noqa: PTH118 - likewise
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - likewise
        os.close(os.open(os.path.join(folder, "warned_root"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # noqa: PTH118 - likewise
    except FileExistsError:
        return False
    except OSError:
        return True  # it cannot be noted here: said each time
    return True


def _warnings(path: str, status: os.stat_result, reachable: tuple[str, str] | None) -> Iterator[str]:
    if os.geteuid() == 0 and _is_first_run():
        yield f"running as root: make sure that {path} and the program are to be trusted"
    if status.st_uid != os.geteuid():
        yield f"{path} belongs to {_user_name(status.st_uid)}: make sure that it is to be trusted"
    # A group that is the user's own is as good as no group.
    by_group = bool(status.st_mode & stat.S_IWGRP) and status.st_gid != os.getegid()
    if status.st_mode & stat.S_IWOTH or by_group:
        yield f"other users can write to {path}: they could change the results"
    elif reachable is not None:
        place, others = reachable
        yield f"{others} can write to {place}, on the way to {path}, and could change the results"
