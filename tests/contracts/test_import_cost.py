"""`import msmemscope` runs inside training processes, so it must be cheap and bring nothing along."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

FORBIDDEN = ("numpy", "polars", "rich", "click", "elftools", "torch", "sqlite3", "importlib.metadata", "logging")
"""Modules that an import of the package must not load: dependencies, and the expensive parts of the standard
library."""

ALLOWED = frozenset(
    {
        "msmemscope",
        "msmemscope._native",  # follows live blocks from the import on, so that start() knows what was there
        "msmemscope.capture",
        "msmemscope.capture.attach",
    }
)
"""The modules of our own that an import of the package may load."""

REPEATS = 7

LOADED_BY_IMPORT = """
import json, sys
before = set(sys.modules)
import {name}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def modules_loaded_by(name: str) -> list[str]:
    """The modules that an import adds to a fresh interpreter."""
    command = [sys.executable, "-c", LOADED_BY_IMPORT.format(name=name)]
    return list(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def start_seconds(code: str) -> float:
    """Wall time of a fresh interpreter that runs some code."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


@pytest.mark.parametrize("name", ["msmemscope", "msleaks"])
def test_import_loads_no_dependency(name: str) -> None:
    """Neither numpy nor polars nor anything else that the observed program did not ask for."""
    loaded = modules_loaded_by(name)
    wrong = [module for module in loaded if module.split(".")[0] in FORBIDDEN or module in FORBIDDEN]
    assert not wrong, f"import {name} loads {wrong}"


@pytest.mark.parametrize("name", ["msmemscope", "msleaks"])
def test_import_loads_few_modules_of_our_own(name: str) -> None:
    """Public names are resolved when they are used."""
    own = {module for module in modules_loaded_by(name) if module.split(".")[0] in {"msmemscope", "msleaks"}}
    assert own - ALLOWED - {"msleaks"} == set()


NOT_FOR_NOTHING = frozenset(
    {
        "numpy", "polars", "elftools", "rich", "tomllib", "tomli",
        "argparse", "ctypes", "datetime", "difflib", "json", "logging", "secrets", "sqlite3", "ssl", "subprocess", "tempfile",
    }
)  # fmt: skip
"""Modules that a command does not load if it has no results to show, and no mistake to explain."""

NOT_IN_EVERY_PROGRAM = frozenset(
    {
        "collections", "contextlib", "ctypes", "dataclasses", "enum", "functools", "importlib.abc", "importlib.util", "inspect",
        "pathlib", "re", "shutil", "subprocess", "tempfile", "threading", "typing", "weakref", *NOT_FOR_NOTHING,
    }
)  # fmt: skip
"""Modules that an observed Python without torch does not load: a training starts hundreds of such processes."""


LOADED_BY_COMMAND = """
import sys
from msmemscope.cli.main import main
status = main()
sys.stderr.write(" ".join(sys.modules))
sys.exit(status)
"""


def modules_of_command(folder: Path, *words: str) -> set[str]:
    """The modules that are there when a command line of the tool has ended."""
    command = [sys.executable, "-c", LOADED_BY_COMMAND, *words]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return set(run.stderr.splitlines()[-1].split())


def modules_imported_by(command: list[str], folder: Path) -> set[str]:
    """The modules that a command, which ends with a Python under `-X importtime`, imports."""
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in run.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize(
    "words",
    [
        ("--device=cpu", "--", "/bin/true"),
        ("--device=npu", "--", "/bin/true"),
        ("--log-level=error", "/bin/true"),
        ("--help",),
        ("--help-all",),
    ],
    ids=" ".join,
)
def test_a_command_without_results_loads_little(tmp_path: Path, words: tuple[str, ...]) -> None:
    """If the first word is no verb, neither the verbs nor the modules that make results are loaded."""
    loaded = modules_of_command(tmp_path, *words)
    assert "msmemscope.cli.main" in loaded
    assert {name.partition(".")[0] for name in loaded} & NOT_FOR_NOTHING == set()
    assert {name for name in loaded if name.startswith("msmemscope.cli.commands.")} == set()
    assert ("msmemscope.launch.launch" in loaded) == (not words[0].startswith("--help"))


def test_a_verb_loads_no_other_verb(tmp_path: Path) -> None:
    """Each is imported when it was typed."""
    loaded = modules_of_command(tmp_path, "env")
    assert {name for name in loaded if name.startswith("msmemscope.cli.commands.")} == {"msmemscope.cli.commands.env"}


def test_an_observed_python_loads_next_to_nothing(tmp_path: Path) -> None:
    """Besides the core, only what waits for torch: no module of the standard library that takes a while."""
    python = [sys.executable, "-X", "importtime", "-c", "pass"]
    # The finder of an editable install brings this module along. A wheel has no such finder.
    is_editable = any(type(finder).__module__.startswith("_editable_skbc_") for finder in sys.meta_path)
    brought = "import importlib.util" if is_editable else "pass"
    alone = modules_imported_by([*python[:-1], brought], tmp_path)
    loaded = modules_imported_by([sys.executable, "-m", "msmemscope", "--device=cpu", "--", *python], tmp_path) - alone
    assert "msmemscope._native" in loaded
    assert loaded & NOT_IN_EVERY_PROGRAM == set()
    own = {name for name in loaded if name.partition(".")[0] == "msmemscope"}
    assert own - ALLOWED == {"msmemscope.capture.launched", "msmemscope.capture.import_hook"}


def test_import_is_quick() -> None:
    """The median time added to an empty interpreter is less than that interpreter's own start, measured in turns.

    A loose bound that holds on any machine; the figure itself, in milliseconds, is in `make bench`.
    """
    empty = []
    importing = []
    for _ in range(REPEATS):
        empty.append(start_seconds("pass"))
        importing.append(start_seconds("import msmemscope"))
    added = statistics.median(importing) - statistics.median(empty)
    assert added < max(0.030, 2 * statistics.median(empty)), f"import msmemscope takes {added * 1000:.1f} ms"
