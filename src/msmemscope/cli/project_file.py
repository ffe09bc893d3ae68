"""The project file: options of the launcher that hold for a project, unless the command line says otherwise.

`msmemscope.toml`, or the table `[tool.msmemscope]` of pyproject.toml. Only the launcher looks for it: an observed process
gets its settings from the launcher, and verbs about results have nothing to take from it.
"""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, Final

from msmemscope.configuration import OPTION_BY_SPELLING, GivenOption, Option, OptionGroup, option_text
from msmemscope.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# tomllib is imported when there is something to read with it: most runs have no project file.

OWN_FILE: Final = "msmemscope.toml"
SHARED_FILE: Final = "pyproject.toml"
_TABLE: Final = "tool.msmemscope"
_NOT_IN_FILES: Final = frozenset({"help", "version", "no-project-file"})
_IGNORE_HINT: Final = "msmemscope --no-project-file ... runs without it"


@dataclasses.dataclass(frozen=True)
class ProjectFile:
    """A file with options of this project."""

    path: Path
    given: tuple[GivenOption, ...]
    """In the order of the file."""


def read_project_file(folder: Path) -> ProjectFile | None:
    """Find the file for programs that are started in a folder, and read it; None if there is none.

    Only the nearest file holds. It is in the folder itself, else in one of its parents. The search ends at the first
    folder with `.git`, at the home folder, or at the root.

    Raises:
        UsageError: The file cannot be read, has a key that is no option, or a value that is not accepted.
    """
    for place in _searched(folder):
        for name in (OWN_FILE, SHARED_FILE):
            path = place / name
            if not os.path.isfile(path) or _may_be_planted(path):  # noqa: PTH113 - False, whatever the error
                continue
            table = _table_of(path)
            if table is not None:
                return ProjectFile(path, tuple(_given(path, table)))
    return None


def _searched(folder: Path) -> Iterator[Path]:
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - pathlib's raises where no home is known
    for place in (folder, *folder.parents):
        yield place
        if os.path.lexists(place / ".git") or str(place) == home:
            return


def _may_be_planted(path: Path) -> bool:
    """Whether another user may have put a file into a folder of all users, such as /tmp."""
    try:
        return bool(path.parent.stat().st_mode & stat.S_IWOTH) and path.stat().st_uid not in {0, os.geteuid()}
    except OSError:
        return True  # it went away


def _table_of(path: Path) -> dict[str, Any] | None:
    """Return our keys; None if the file is not about us."""
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise UsageError(message, option=str(path), hint=_IGNORE_HINT) from error
    if path.name == SHARED_FILE and b"msmemscope" not in content:
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        if path.name == SHARED_FILE and _TABLE.encode() not in content:
            return None  # it names us, as a dependency for example, and what is wrong with it is of no concern here
        message = f"is not valid TOML: {error}"
        raise UsageError(message, option=str(path), hint=_IGNORE_HINT) from error
    if path.name == OWN_FILE:
        return table
    tools = table.get("tool")
    ours = tools.get("msmemscope") if isinstance(tools, dict) else None
    if ours is None:
        return None
    if isinstance(ours, dict):
        return ours
    message = "is not a table"
    raise UsageError(message, option=f"{path}: {_TABLE}", value=repr(ours), accepted=f"[{_TABLE}] and keys below it")


def _given(path: Path, table: dict[str, Any]) -> Iterator[GivenOption]:
    place = str(path) if path.name == OWN_FILE else f"{path}: [{_TABLE}]"
    for key, value in table.items():
        option = _OPTION_OF_KEY.get(key)
        if option is None:
            message = "unknown key"
            import difflib

            near = difflib.get_close_matches(key.replace("_", "-").lower(), _OPTION_OF_KEY, n=1)
            hint = f"did you mean {near[0]}?" if near else _IGNORE_HINT
            raise UsageError(message, option=place, value=key, accepted=", ".join(_OPTION_OF_KEY), hint=hint)
        spelling = f"{place} {key}"
        text = _text(path, option, spelling, value)
        if text is None:
            continue
        if option.parse is not None:
            option.parse(option.accepted, spelling, text)  # judged also where the command line says otherwise
        yield GivenOption(option, spelling, text)


def _text(path: Path, option: Option, spelling: str, value: object) -> str | None:
    """Return a value as it is typed on the command line; None for a switch that is off."""
    if not option.metavar:
        if isinstance(value, bool):
            return "" if value else None
        message = "is a switch"
        raise UsageError(message, option=spelling, value=str(value), accepted="true or false")
    try:
        text = option_text(option, spelling, value)
    except ConfigurationError as error:
        raise UsageError(error.reason, option=spelling, value=error.value, accepted=error.accepted) from error
    if option.name == "output" and text.strip() and not text.startswith("~"):
        return str(path.parent / text)  # the same folder, wherever in the project a program is started
    return text


_OPTION_OF_KEY: Final = {
    spelling.removeprefix("--"): option
    for spelling, option in OPTION_BY_SPELLING.items()
    if spelling.startswith("--") and option.group is not OptionGroup.COMPARE and option.name not in _NOT_IN_FILES
}
"""The options that a file may set: the long spellings of the launcher's options, without their dashes."""
