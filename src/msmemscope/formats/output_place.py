"""The place where a verb writes its result: a free one, or one where the same verb wrote before.

Each format has a mark that shows that a file is ours. The mark is a field that other readers of the format ignore or
show as the name of the writer. A folder has a list of the files that we wrote into it. Everything else in it is
somebody's work.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.capture.output_root import why_unwritable
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_OUTPUT: Final = "--output"
_FORCE: Final = "--force"
_ENDS_BYTES: Final = 1 << 13
"""Of a file, what is searched for a mark at its begin and at its end."""
_LIST: Final = ".msmemscope-export.json"
_WRITER: Final = "msmemscope"
_ACCEPTED: Final = "a file in an existing folder"


@dataclasses.dataclass(frozen=True)
class Mark:
    """The content that each file of a format has if we wrote it. Without it, a file is not known to be ours."""

    begin: bytes = b""
    """First bytes of the file."""
    near_begin: bytes = b""
    """Somewhere behind them, in the first kilobytes."""
    near_end: bytes = b""
    """Somewhere in the last kilobytes of the file."""
    end: bytes = b""
    """Last bytes of the file."""
    is_folder: bool = False
    """Whether the format is a folder, whose mark is its list: see `mark_folder`."""

    def is_in(self, path: Path) -> bool:
        """Whether a path is a file, or a folder, that we wrote in this format. An unreadable file is not one."""
        try:
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                return self.is_folder and _holds_only_ours(path)
            return stat.S_ISREG(mode) and self._is_in_file(path)
        except (OSError, ValueError):
            return False

    def _is_in_file(self, path: Path) -> bool:
        if self.is_folder or self == UNMARKED:
            return False
        with path.open("rb") as file:
            head = file.read(_ENDS_BYTES)
            file.seek(max(os.fstat(file.fileno()).st_size - _ENDS_BYTES, 0))
            tail = file.read(_ENDS_BYTES)
        is_begun = head.startswith(self.begin) and self.near_begin in head
        return is_begun and self.near_end in tail and tail.endswith(self.end)


FOLDER_MARK: Final = Mark(is_folder=True)
UNMARKED: Final = Mark()


def mark_folder(folder: Path) -> None:
    """List what lies in a folder of ours, by which `Mark.is_in` knows it later.

    Args:
        folder: With everything that belongs into it.

    Raises:
        OSError: It cannot be written.
    """
    content = {"written_by": _WRITER, "files": sorted(_files_in(folder))}
    (folder / _LIST).write_text(f"{json.dumps(content)}\n", encoding="utf-8")


def _holds_only_ours(folder: Path) -> bool:
    content = json.loads((folder / _LIST).read_text(encoding="utf-8"))
    files = content.get("files") if isinstance(content, dict) and content.get("written_by") == _WRITER else None
    return isinstance(files, list) and _files_in(folder) - {_LIST} <= set(map(str, files))


def _files_in(folder: Path) -> set[str]:
    return {
        str(Path(parent, name).relative_to(folder))
        for parent, _, names in os.walk(folder, onerror=_raise)
        for name in names
    }


def _raise(error: OSError) -> None:
    raise error


def check_output(
    path: Path, mark: Mark, *, option: str = _OUTPUT, is_forced: bool = False, inputs: Iterable[Path] = ()
) -> bool:
    """Judge where a result is to go, before anything is read.

    Args:
        path: A file, or a folder if the format is a folder.
        mark: The mark of the format to write.
        option: The option that names the path on the command line.
        is_forced: Whether any file may be replaced. A folder that holds more than we wrote is never replaced.
        inputs: The files to read. They are never replaced.

    Returns:
        Whether the result replaces something.

    Raises:
        UsageError: Something else has the name, the path is an input, or nothing can be written there.
    """
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        _check_parent(path, option)
        return False
    except (OSError, ValueError) as error:
        message = f"cannot be written: {getattr(error, 'strerror', None) or error}"
        raise UsageError(message, option=option, value=str(path), accepted=_ACCEPTED) from error
    if any(_is_within(one, path) for one in inputs):
        message = "is what is read, and is not overwritten"
        raise UsageError(message, option=option, value=str(path), hint=f"name another with {option}")
    if not mark.is_in(path):
        _check_force(path, mode, option, is_forced=is_forced)
    _check_parent(path, option)
    return True


def _check_force(path: Path, mode: int, option: str, *, is_forced: bool) -> None:
    if stat.S_ISDIR(mode):
        message = "is a folder that msmemscope did not write, and is not overwritten"
        raise UsageError(message, option=option, value=str(path), hint=f"name another with {option}")
    if not (is_forced and (stat.S_ISREG(mode) or stat.S_ISLNK(mode))):
        message = "is there already, and msmemscope did not write it so"
        hint = f"name another with {option}, or write over it with {_FORCE}"
        raise UsageError(message, option=option, value=str(path), hint=hint)


def _is_within(path: Path, place: Path) -> bool:
    """Whether a path is another, or lies in it, however both are written."""
    with suppress(OSError, ValueError, RuntimeError):
        resolved, target = path.resolve(), place.resolve()
        return resolved == target or target in resolved.parents
    return False


def _check_parent(path: Path, option: str) -> None:
    if not path.parent.is_dir():
        message = "lies in a folder that is not there"
        raise UsageError(message, option=option, value=str(path), accepted=_ACCEPTED)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        reason = why_unwritable(str(path.parent))
        hint = f"name a file in another folder with {option}"
        message = f"lies in a folder that cannot be written to: {reason}"
        raise UsageError(message, option=option, value=str(path), hint=hint)


def put_in_place(unfinished: Path, path: Path, *, replaces: bool) -> None:
    """Give a finished folder its name.

    Args:
        unfinished: The folder, beside its place.
        path: The path that it is to have.
        replaces: Whether something has that name, which goes.

    Raises:
        OSError: It cannot get its name; the earlier content is there again.
    """
    if not replaces:
        unfinished.rename(path)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name[:64]}.", dir=path.absolute().parent))
    former = aside / "former"
    try:
        path.rename(former)
        try:
            unfinished.rename(path)
        except OSError:
            former.rename(path)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
