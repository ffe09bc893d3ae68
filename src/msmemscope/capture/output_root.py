"""The output root: made safely, and judged for who else could reach into it.

The path is walked component by component with open directories, so that no symbolic
link that somebody else planted is followed, and none can be swapped in meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import stat

from msmemscope.errors import UsageError

_DIRECTORY_MODE = 0o750
_MAXIMUM_LINKS = 40
_LONGEST_NAME_INSIDE = 160
"""Bytes that the names of our own folders and files add to the path of the root, at most."""
_MAXIMUM_PATH_BYTES = 4095 - _LONGEST_NAME_INSIDE

_ACCEPTED = "a directory that exists or can be created, and that you can write to"


@dataclasses.dataclass(frozen=True)
class OutputRoot:
    """The output root after it was made ready."""

    path: str
    was_created: bool
    warnings: tuple[str, ...]
    """What makes the path less than safe, one line each; the run goes on."""


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
        was_created, open_to_others = _walk(path)
        if not os.access(path, os.W_OK | os.X_OK):
            _refuse(path, "cannot be written")
        status = os.stat(path)  # noqa: PTH116 - the whole module works on descriptors and text
    except OSError as error:
        _refuse(path, f"cannot be created ({error.strerror})")
    return OutputRoot(path, was_created, _warnings(path, status, open_to_others))


def remove_if_empty(root: OutputRoot) -> None:
    """Take the root away again if this launch made it and nothing was put there."""
    if root.was_created:
        with contextlib.suppress(OSError):
            os.rmdir(root.path)  # noqa: PTH106


def _refuse(path: str, reason: str, hint: str | None = None) -> None:
    raise UsageError(reason, option="--output", value=path, accepted=_ACCEPTED, hint=hint)


def _walk(path: str) -> tuple[bool, str | None]:
    """Follow and create the components.

    Returns:
        Whether the last one was created, and the first directory that others can rename things in.
    """
    pending = [part for part in reversed(path.split("/")) if part]
    walked = ""
    links = 0
    created = False
    open_to_others: str | None = None
    directory = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        while pending:
            name = pending.pop()
            created = _create(name, directory)
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                target = os.readlink(name, dir_fd=directory)
                if status.st_uid not in {0, os.geteuid()}:
                    reason = f"leads through a symbolic link of another user, {walked}/{name}"
                    _refuse(path, reason, hint=f"name the directory itself: {target}")
                if links > _MAXIMUM_LINKS:
                    _refuse(path, "leads through too many symbolic links")
                pending.extend(part for part in reversed(target.split("/")) if part not in {"", "."})
                if not target.startswith("/"):
                    continue
                name, walked = "/", ""
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
            following = os.open(name, flags, dir_fd=directory)
            os.close(directory)
            directory = following
            walked = walked if name == "/" else f"{walked}/{name}"
            if open_to_others is None and pending and _others_can_rename_in(os.fstat(directory)):
                open_to_others = walked
    finally:
        os.close(directory)
    return created, open_to_others


def _create(name: str, directory: int) -> bool:
    try:
        os.mkdir(name, _DIRECTORY_MODE, dir_fd=directory)
    except FileExistsError:
        return False
    except OSError:
        # A read-only or foreign directory refuses even what exists; a missing one shows right after.
        os.stat(name, dir_fd=directory, follow_symlinks=False)
        return False
    return True


def _others_can_rename_in(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX


def _warnings(path: str, status: os.stat_result, open_to_others: str | None) -> tuple[str, ...]:
    warnings = []
    if os.geteuid() == 0:
        warnings.append(f"running as root: make sure that {path} and the program are to be trusted")
    elif status.st_uid != os.geteuid():
        warnings.append(f"{path} belongs to another user: make sure that it is to be trusted")
    # A group that is the user's own is as good as no group.
    by_group = bool(status.st_mode & stat.S_IWGRP) and status.st_gid != os.getegid()
    if status.st_mode & stat.S_IWOTH or by_group:
        warnings.append(f"other users can write to {path}: they could change the results")
    elif open_to_others is not None:
        warnings.append(
            f"other users can write to {open_to_others}, on the way to {path}: they could change the results"
        )
    return tuple(warnings)
