"""Files stay small enough to have one subject."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WARN_ABOVE = 300
"""Lines of a Python source file that should make its author think of splitting it."""

MOST_LINES = {"python": 500, "header": 250, "source": 500, "test": 600}
"""Lines that a file of each kind may have."""

EXCEPTIONS: dict[str, int] = {}
"""Files that are longer than their kind allows, with the lines that they had when they were listed. May only shrink: a
file may not grow, and leaves the list once it is within its limit."""


def files() -> dict[str, int]:
    """Every source file of the repository with its number of lines."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    found = {}
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if kind_of(name) and path.is_file():
            found[name] = len(path.read_text(encoding="utf-8").splitlines())
    return found


def kind_of(name: str) -> str:
    """The kind whose limit holds for a file; an empty text if none does."""
    suffix = Path(name).suffix
    if suffix not in {".py", ".h", ".c", ".cpp"}:
        return ""
    if name.startswith("tests/") or "/tests/" in name:
        return "test"
    return {".py": "python", ".h": "header"}.get(suffix, "source")


def test_no_file_is_longer_than_its_kind_allows() -> None:
    """A longer file is split, or listed above with the reason in its commit."""
    longer = {
        name: lines
        for name, lines in files().items()
        if lines > MOST_LINES[kind_of(name)] and lines > EXCEPTIONS.get(name, 0)
    }
    assert not longer, f"split these files, each by its subjects: {longer}; limits: {MOST_LINES}"


def test_the_list_of_exceptions_only_shrinks() -> None:
    """Whoever shortens a listed file lowers its number, or takes it off the list."""
    present = files()
    stale = {
        name: (listed, present.get(name))
        for name, listed in EXCEPTIONS.items()
        if present.get(name, 0) < listed or listed <= MOST_LINES[kind_of(name)]
    }
    assert not stale, f"lower these numbers in EXCEPTIONS, or take the files off: listed lines, lines now: {stale}"


@pytest.mark.filterwarnings("default:long files")
def test_long_files_are_named() -> None:
    """Not a failure: the warning appears in the summary of the run."""
    long = {name: lines for name, lines in files().items() if kind_of(name) == "python" and lines > WARN_ABOVE}
    if long:
        warnings.warn(f"long files, does each still have one subject? {long}", stacklevel=1)
