"""Which tests a changed file can break: by imports, by its name, and by the table of tests that start processes.

Imports are static and transitive. Python finds two kinds of modules by a text: the verbs of the command line, and the
public names of the package. Those imports are followed as well. Tests that start processes would reach everything. For
them each folder of the sources has a few that stand for the rest, see `processes`.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msmemscope
from tests.check.processes import THROUGH_PROCESSES
from tests.support.imports import ROOT, file_of, imported_files

IN_ONE_PROCESS = ("tests/unit", "tests/fuzzing")
"""Folders of tests that reach the sources by imports."""

STARTING_PROCESSES = ("tests/integration", "tests/ascend", "tests/battery")
"""Folders of tests that reach the sources by processes. Helpers of tests they reach by imports too."""

_VERBS = ROOT / "src" / "msmemscope" / "cli" / "commands"
_IMPORTS_THE_PACKAGE = re.compile(r"^ *import msmemscope$", re.MULTILINE)
_PUBLIC_NAME = re.compile(r"\bmsmemscope\.([A-Za-z]\w*)")


class Reached(NamedTuple):
    """The tests that one file reaches, each set by their names below the root of the repository."""

    itself: frozenset[str]
    """The file, if it is a test module, and test modules that are named after it."""
    by_imports: dict[str, int]
    """Test modules, and over how many imports they reach the file."""
    through_processes: tuple[str, ...]
    """Those of the table that stand for its folder, in the order of the table; they may be single tests."""

    def __bool__(self) -> bool:
        return bool(self.itself or self.by_imports or self.through_processes)


def reached_from(name: str) -> Reached:
    """Find the tests that a file reaches.

    Args:
        name: The file below the root of the repository; it may be gone.
    """
    path = PurePosixPath(name)
    is_code = path.suffix in {".py", ".cpp", ".h", ".c"}
    named = {test for test in _test_modules() if is_code and PurePosixPath(test).stem == f"test_{path.stem}"}
    if name in _test_modules():
        named.add(name)
    by_imports = _distances(name)
    if not by_imports and _is_read_by_tests(name):
        by_imports = dict.fromkeys(_mentioning(name), 1)
    return Reached(frozenset(named), by_imports, _standing_for(name))


@functools.cache
def _test_modules() -> frozenset[str]:
    folders = (*IN_ONE_PROCESS, *STARTING_PROCESSES)
    found = {_name(path) for folder in folders for path in (ROOT / folder).rglob("test_*.py")}
    return frozenset(found)


def _distances(name: str) -> dict[str, int]:
    """Over how many imports test modules reach a file, those that do."""
    found = _walk(name, within="")
    through_helpers = _walk(name, within="tests/")
    return {test: distance for test, distance in found.items() if test.startswith(IN_ONE_PROCESS)} | {
        test: distance for test, distance in through_helpers.items() if test.startswith(STARTING_PROCESSES)
    }


def _walk(name: str, *, within: str) -> dict[str, int]:
    """The test modules that reach a file, if every file on the way is within a folder."""
    distances = {name: 0}
    pending = [name] if name.startswith(within) else []
    for current in pending:  # it grows: the nearest first
        for importer in _importers().get(current, ()):
            if importer not in distances and importer.startswith(within):
                distances[importer] = distances[current] + 1
                pending.append(importer)
    return {test: distance for test, distance in distances.items() if distance and test in _test_modules()}


@functools.cache
def _importers() -> dict[str, set[str]]:
    """By each file those that import it."""
    importers: dict[str, set[str]] = {}
    files = [*(ROOT / "src").rglob("*.py"), *(path for path in (ROOT / "tests").rglob("*.py") if not _is_program(path))]
    for path in files:
        for imported in imported_files(path) | _found_by_text(path):
            importers.setdefault(_name(imported), set()).add(_name(path))
    return importers


def _found_by_text(path: Path) -> set[Path]:
    """The files that a file reaches without an import that names them."""
    found: set[Path] = set()
    if path == _VERBS / "__init__.py":
        found.update(_VERBS.glob("*.py"))
    # The fixtures beside a test. Those of tests/conftest.py are for all tests, and would reach everything.
    found.update(folder / "conftest.py" for folder in path.parents if folder.is_relative_to(ROOT / "tests" / "unit"))
    text = path.read_text(encoding="utf-8")
    if _IMPORTS_THE_PACKAGE.search(text):
        public = msmemscope._HOMES.keys() & set(_PUBLIC_NAME.findall(text))
        modules = {name: file_of(msmemscope._HOMES[name] or f"msmemscope.{name}") for name in public}
        found.update(module for module in modules.values() if module is not None)
    return {other for other in found if other != path and other.is_file()}


def _is_read_by_tests(name: str) -> bool:
    """Whether a file is a program of tests, or content that they compare with."""
    return name.startswith("tests/") and (_is_program(Path(name)) or not name.endswith(".py"))


def _mentioning(name: str) -> set[str]:
    """Test modules that name a file. Names of golden files are put together; their first word says which tests do it."""
    stem = PurePosixPath(name).stem
    is_golden = name.startswith("tests/golden/")
    words = ("golden", rf"\b{re.escape(stem.partition('_')[0])}") if is_golden else (rf"\b{re.escape(stem)}\b",)
    texts = {test: (ROOT / test).read_text(encoding="utf-8") for test in _test_modules()}
    return {test for test, text in texts.items() if all(re.search(word, text, re.IGNORECASE) for word in words)}


def _standing_for(name: str) -> tuple[str, ...]:
    """The tests of the longest folder in the table that a file lies in."""
    folders = [folder for folder in THROUGH_PROCESSES if name.startswith(folder)]
    return THROUGH_PROCESSES[max(folders, key=len)] if folders else ()


def _is_program(path: Path) -> bool:
    """Programs of tests are started, not imported; some are written to fail."""
    return bool({"programs", "target_programs", "framework_packages", "golden"} & set(path.parts[:-1]))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
