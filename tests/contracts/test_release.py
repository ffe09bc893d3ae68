"""What the release workflow asks before it builds anything is true of the repository now, and wrong tags are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import msmemscope

ROOT = Path(__file__).parents[2]


def check(tag: str, repository: str) -> subprocess.CompletedProcess[str]:
    """What packaging/check_release.py says."""
    command = [sys.executable, "packaging/check_release.py", f"--tag={tag}", f"--repository={repository}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def repository() -> str:
    """The address of the repository, as the package has it."""
    found = re.search(r'^Repository = "([^"]+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def test_this_version_can_be_released() -> None:
    """Both distributions have one version, the changelog has its section, addresses lead to one repository."""
    said = check(f"v{msmemscope.__version__}", repository())
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize(
    ("tag", "where", "words"),
    [
        ("v999.0", repository(), "the tag is v999.0"),
        (f"v{msmemscope.__version__}", "https://example.com/somebody/fork", "the repository is https://example.com"),
    ],
    ids=["another version", "another repository"],
)
def test_what_does_not_fit_is_said(tag: str, where: str, words: str) -> None:
    """And nothing is built."""
    said = check(tag, where)
    assert said.returncode != 0
    assert words in said.stderr
