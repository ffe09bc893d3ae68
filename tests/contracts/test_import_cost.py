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
"""What an import of the package must not load: dependencies, and the expensive parts of the standard library."""

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


def test_a_run_without_events_reads_no_tables(tmp_path: Path) -> None:
    """The launcher of a program that recorded nothing ends without what results are made with."""
    command = [sys.executable, "-X", "importtime", "-m", "msmemscope", "--device=cpu", "--", "/bin/true"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines() if line.startswith("import time:")}
    assert "msmemscope.launch.launch" in loaded
    assert not loaded & {"numpy", "polars", "elftools", "secrets", "ssl", "ctypes", "tempfile", "sqlite3"}


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
