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


def imports_of(path: Path) -> list[tuple[str, list[str]]]:
    """The imports of a file that can run, as (module, names)."""
    found: list[tuple[str, list[str]]] = []
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found.extend((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name, so that the layers can be read"
            found.append((node.module or "", [alias.name for alias in node.names]))
        pending.extend(ast.iter_child_nodes(node))
    return found


@functools.cache
def imported_files(path: Path) -> frozenset[Path]:
    """The files of this repository that a file imports.

    The compiled extension is no file of Python. Importing it from the package counts for nothing, as the package itself
    imports next to nothing.
    """
    found: set[Path] = set()
    for module, names in imports_of(path):
        own = file_of(module)
        parts = {name: file_of(f"{module}.{name}") for name in names}
        found.update(part for part in parts.values() if part is not None)
        if own is not None and (not names or any(part is None and name != "_native" for name, part in parts.items())):
            found.add(own)
    return frozenset(found - {path})


@functools.cache
def file_of(module: str) -> Path | None:
    """The file that has a module of this repository, None for modules of others."""
    package, *parts = module.split(".")
    if package not in PACKAGES:
        return None
    place = PACKAGES[package].joinpath(*parts)
    candidates = (place / "__init__.py", place.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)
