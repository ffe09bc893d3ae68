"""`make check` looks at the changed files, runs the nearest tests first, and takes no longer than the given time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.check.__main__ import changed_files
from tests.check.in_order import VARIABLE, left_tests, write_order
from tests.support.imports import ROOT

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
import pytest

@pytest.fixture
def costly():
    raise AssertionError("set up too late")

def test_one({fixture}):
    {body}
"""


def git(folder: Path, *words: str) -> None:
    """Run git as somebody."""
    somebody = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", *somebody, *words], cwd=folder, check=True, capture_output=True)


def test_changed_files_are_those_that_differ(tmp_path: Path) -> None:
    """Edited, added, renamed, removed and new ones; neither the same nor what git ignores."""
    git(tmp_path, "init", "--initial-branch=main")
    (tmp_path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    for name in ("same", "edited", "renamed", "removed"):
        (tmp_path / name).write_text(name * 20, encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message=first")
    git(tmp_path, "mv", "renamed", "new name")
    (tmp_path / "edited").write_text("otherwise", encoding="utf-8")
    (tmp_path / "removed").unlink()
    (tmp_path / "new").write_text("", encoding="utf-8")
    (tmp_path / "a.log").write_text("", encoding="utf-8")
    expected = ["edited", "new", "new name", "removed", "renamed"]
    assert changed_files("HEAD", tmp_path) == expected
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message=second")
    assert changed_files("HEAD", tmp_path) == []
    assert changed_files("HEAD~1", tmp_path) == expected


def run_in_order(folder: Path, *, until_s: float) -> subprocess.CompletedProcess[str]:
    """Run three modules of tests: the last of the alphabet first, and one that runs however late it is."""
    names = ["test_c.py", "test_b.py", "test_a.py"]
    for name in names:
        fixture = "costly" if name == "test_a.py" and until_s < time.time() else ""
        (folder / name).write_text(MODULE.format(fixture=fixture, body="pass"), encoding="utf-8")
    order = folder / "order.json"
    write_order(order, tests=names, always=["test_c.py"], until_s=until_s)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-c",
        os.devnull,
        f"--rootdir={folder}",
        "-p",
        "tests.check.in_order",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), VARIABLE: str(order)}
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "."],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_modules_run_in_the_order_that_was_given(tmp_path: Path) -> None:
    """Not in that of their names."""
    run = run_in_order(tmp_path, until_s=time.time() + 600)
    assert run.returncode == 0, run.stdout
    assert re.findall(r"^(test_.\.py)::test_one PASSED", run.stdout, re.MULTILINE) == [
        "test_c.py",
        "test_b.py",
        "test_a.py",
    ]
    assert left_tests(tmp_path / "order.json") == {}


def test_what_there_is_no_time_for_is_left_and_named(tmp_path: Path) -> None:
    """Before its fixtures are set up; what always runs does."""
    run = run_in_order(tmp_path, until_s=time.time() - 1)
    assert run.returncode == 0, run.stdout
    assert "1 passed, 2 skipped" in run.stdout
    assert left_tests(tmp_path / "order.json") == {"test_b.py": 1, "test_a.py": 1}
