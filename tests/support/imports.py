"""Which Python file imports which, read from their text: nothing is imported for it.

Imports within functions count. Those for type checkers alone do not: they never run. A name that `importlib` is given as
text is not followed.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]

PACKAGES = {
    "msmemscope": ROOT / "src" / "msmemscope",
    "msleaks": ROOT / "src" / "msleaks",
    "pytest_msmemscope": ROOT / "src" / "pytest_msmemscope",
    "virtual_npu": ROOT / "vnpu" / "src" / "virtual_npu",
    "tests": ROOT / "tests",
}
"""Packages of this repository, and their folders."""


@functools.cache
def imports_of(path: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The imports of a file that can run, as (module, names); a relative module begins with its dots."""
    found: list[tuple[str, tuple[str, ...]]] = []
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found.extend((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.append(("." * node.level + (node.module or ""), tuple(alias.name for alias in node.names)))
        pending.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, _WITH_STATEMENTS))
    return tuple(found)


_WITH_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
"""Nodes that an import can stand in; expressions, which are most of a tree, have none."""


@functools.cache
def imported_files(path: Path) -> frozenset[Path]:
    """The files of this repository that a file imports.

    The compiled extension is no file of Python. Importing it from the package counts for nothing, as the package itself
    imports next to nothing.
    """
    found: set[Path] = set()
    for written, names in imports_of(path):
        module = _in_full(written, path)
        own = file_of(module)
        parts = {name: file_of(f"{module}.{name}") for name in names}
        found.update(part for part in parts.values() if part is not None)
        if own is not None and (not names or any(part is None and name != "_native" for name, part in parts.items())):
            found.add(own)
    return frozenset(found - {path})


def _in_full(module: str, path: Path) -> str:
    """A module as it is named everywhere; a relative one is looked for from the file that imports it."""
    name = module.lstrip(".")
    if name == module:
        return module
    package = path.parents[len(module) - len(name) - 1]
    for root, folder in PACKAGES.items():
        if package.is_relative_to(folder):
            return ".".join(filter(None, (root, *package.relative_to(folder).parts, name)))
    return name


@functools.cache
def file_of(module: str) -> Path | None:
    """The file that has a module of this repository, None for modules of others."""
    package, *parts = module.split(".")
    if package not in PACKAGES:
        return None
    place = PACKAGES[package].joinpath(*parts)
    candidates = (place / "__init__.py", place.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)
