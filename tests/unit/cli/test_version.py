"""`msmemscope --version` says what an answer to a question about it depends on, and is quick."""

from __future__ import annotations

import platform
import re
import subprocess
import sys

import pytest

import msmemscope
from msmemscope.cli import version_text
from msmemscope.cli.main import main


@pytest.mark.parametrize("spelling", ["-V", "-v", "--version"])
def test_version(spelling: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The version alone in the first line, the compiler and the Python that it was built for, what it runs with."""
    assert main([spelling]) == 0
    first, built, runs = capsys.readouterr().out.splitlines()
    assert first == f"msmemscope version {msmemscope.__version__}"
    minor = ".".join(platform.python_version_tuple()[:2])
    assert re.fullmatch(rf"built by (GCC|Clang) \d+\..* for Python {minor}\.\S+(, from commit [0-9a-f]+)?", built)
    assert f"with Python {platform.python_version()}, polars " in runs


def test_what_is_missing_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without its extension or what results are read with still has a version."""
    monkeypatch.setitem(sys.modules, "msmemscope._native", None)
    monkeypatch.delattr(msmemscope, "_native", raising=False)
    monkeypatch.setattr(version_text, "_READ_WITH", ("polars", "a_package_that_is_not_there"))
    assert main(["--version"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"msmemscope version {msmemscope.__version__}\nno native core: ")
    assert "no a_package_that_is_not_there" in said


def test_nothing_is_imported_for_it() -> None:
    """Versions of packages are read from their files."""
    command = [sys.executable, "-X", "importtime", "-m", "msmemscope", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    loaded = {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}
    assert "msmemscope._native" in loaded
    assert not loaded & {"numpy", "polars", "torch", "rich", "elftools"}
