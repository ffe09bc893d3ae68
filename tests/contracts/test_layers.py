"""Imports point downward: the layers of ARCHITECTURE.md, as a test."""

from __future__ import annotations

import ast
import graphlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.imports import ROOT, imported_files, imports_of

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "src" / "msmemscope"

BELOW_THE_EXTENSION = frozenset({"model", "configuration", "units", "errors"})
"""Layers that the extension is beside or above: they may not import it."""

STANDARD_LIBRARY_ONLY = frozenset({"configuration", "errors", "units"})
"""Layers that are imported inside the observed process, whatever that has installed."""


def layer_of(path: Path) -> str:
    """The folder or module directly below the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def modules() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def test_import_linter_keeps_the_layers() -> None:
    """The contracts of pyproject.toml hold, and every folder has its layer."""
    command = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_imports_go_round_in_a_circle() -> None:
    """Files that need each other are one file, or a third one has what they share; an import within a function is no way out."""
    graph = {path: imported_files(path) for path in sorted((ROOT / "src").rglob("*.py"))}
    assert sum(map(len, graph.values())) > len(graph), "the imports are not found"
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(str(path.relative_to(ROOT / "src")) for path in reversed(error.args[1]))
        pytest.fail(f"{circle}: move what they share below both, or let the caller pass what the lower one calls")


def test_imports_are_written_in_full() -> None:
    """So that layers can be read, and searched for."""
    relative = {path for path in modules() for module, _ in imports_of(path) if module.startswith(".")}
    assert not relative


def test_the_package_itself_imports_only_what_it_must() -> None:
    """`from msmemscope import _native` counts as an import of the package, and so of all that the package imports.

    The linter cannot see a compiled module. Every user of the extension seems to use each import of `__init__.py` as
    well. So public names are resolved when they are asked for. `__init__.py` imports only the module that must run at
    its import.
    """
    expected = {"msmemscope.capture.attach"}
    own = {module for module, _ in imports_of(PACKAGE / "__init__.py") if module.startswith("msmemscope")}
    assert own <= expected, f"__init__.py imports {sorted(own - expected)}; resolve them in __getattr__"


def test_only_higher_layers_use_the_extension() -> None:
    """`model` and the layers below do not import `_native`, which is beside `model`. The linter cannot check this."""
    users = {
        path
        for path in modules()
        for module, names in imports_of(path)
        if module == "msmemscope._native" or (module == "msmemscope" and "_native" in names)
    }
    wrong = sorted(str(path.relative_to(ROOT)) for path in users if layer_of(path) in BELOW_THE_EXTENSION)
    assert not wrong, f"{wrong} import msmemscope._native, which is not below them"


@pytest.mark.parametrize("layer", sorted(STANDARD_LIBRARY_ONLY))
def test_lowest_layers_need_the_standard_library_only(layer: str) -> None:
    """They are imported by the observed program's process, where nothing else of ours may be loaded."""
    foreign = {
        module
        for path in modules()
        if layer_of(path) == layer
        for module, _ in imports_of(path)
        if module.split(".")[0] not in {*sys.stdlib_module_names, "msmemscope"}
    }
    assert not foreign


def test_the_older_name_only_re_exports() -> None:
    """`msleaks` has no code of its own."""
    files = sorted((ROOT / "src" / "msleaks").rglob("*.py"))
    assert files, "src/msleaks is missing"
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        definitions = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        assert not definitions, f"{path} defines classes"


PRINTING = frozenset({"cli", "launch", "integrations", "analyzer", "__main__"})
"""Layers that may write to the user's terminal; the others get a stream, or raise."""


def test_the_library_never_prints() -> None:
    """`print` and the standard streams are for the commands, and for the calls that the owner's documents let print."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"
        for path in modules()
        if layer_of(path) not in PRINTING
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Name) and node.id == "print")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) in {"sys.stdout", "sys.stderr"})
    ]
    # Messages at the end of the observed program go to where its descriptor 2 led when we were loaded.
    assert [line for line in found if not line.startswith("capture/finish.py")] == []
