"""Whether a program knows an option that could be ours as well: its own files are searched for the text of the option."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_MODULE: Final = "-m"
_INTERPRETER: Final = re.compile(r"(?:python|pypy|ba|da|z)[\d.]*t?|(?:ba|da|z|k)?sh")
_SCRIPTS: Final = frozenset({".py", ".sh", ".bash"})
_BESIDE: Final = ".py"
"""The suffix of files that take arguments apart for others. Shell scripts only print them, and call our command."""
_OURS: Final = re.compile(rb"msmemscope|msleaks")
_MOST_FILES: Final = 500
_MOST_BYTES: Final = 4 << 20
"""Of one file. Programs are smaller, and data are not worth the time."""


def knowing_file(program: Sequence[str], spellings: Collection[str]) -> str:
    """Return a file of a program that has the text of an option; empty if none has.

    The search covers the program, the scripts among its arguments, the package behind `-m`, and the Python files beside
    these. Lines that name msmemscope are passed over: they show how it is called.

    Args:
        program: The program and its arguments.
        spellings: Of options, `--steps`.
    """
    if not spellings:
        return ""
    words = "|".join(re.escape(spelling) for spelling in spellings)
    # The option alone, and no longer one that begins like it.
    pattern = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])".encode())
    searched: set[Path] = set()
    for path in _files_of(program):
        if path in searched:
            continue
        if len(searched) == _MOST_FILES:
            break
        searched.add(path)
        content = _content(path)
        if pattern.search(content) and any(
            pattern.search(line) and not _OURS.search(line) for line in content.splitlines()
        ):
            return str(path)
    return ""


def _files_of(program: Sequence[str]) -> Iterator[Path]:
    """The files of a program, those that are most likely to take its arguments apart first."""
    command = Path(program[0])
    if not _INTERPRETER.fullmatch(command.name):
        path = _executable(program[0])
        if path is not None:
            yield path
    roots = list(_named(program))
    for path in roots:
        if path.is_file():
            yield path
    for path in roots:
        yield from _sources_in(path if path.is_dir() else path.parent, is_deep=path.is_dir())


def _named(program: Sequence[str]) -> Iterator[Path]:
    """The scripts of a program, and the modules and packages that it runs."""
    for position, word in enumerate(program[1:], 1):
        if program[position - 1] == _MODULE:
            yield from _module(word)
        elif Path(word).suffix in _SCRIPTS and Path(word).is_file():
            yield Path(word)


def _executable(command: str) -> Path | None:
    """A program by its path, or one of the search path."""
    if os.sep in command:
        return Path(command)
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder or ".", command)
        if path.is_file():
            return path
    return None


def _module(name: str) -> Iterator[Path]:
    """Yield the file of a module by its dotted name, without importing its packages."""
    parts = name.split(".")
    folders = ["", *os.environ.get("PYTHONPATH", "").split(os.pathsep), *sys.path]
    for folder in folders:
        path = Path(folder or ".", *parts)
        if path.with_suffix(".py").is_file():
            yield path.with_suffix(".py")
            return
        if (path / "__main__.py").is_file():
            yield path / "__main__.py"
            yield path
            return


def _sources_in(folder: Path, *, is_deep: bool) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(folders) if is_deep else []
        for name in sorted(names):
            if Path(name).suffix == _BESIDE:
                yield Path(parent, name)


def _content(path: Path) -> bytes:
    try:
        # Not blocking: it may be a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    with os.fdopen(descriptor, "rb") as file:
        try:
            return file.read(_MOST_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        except OSError:
            return b""
