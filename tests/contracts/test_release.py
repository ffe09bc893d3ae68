"""The conditions that the release workflow checks first hold for the repository now, and wrong tags are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import msmemscope

ROOT = Path(__file__).parents[2]
LINES_OF_SUMMARY = 5


def check(tag: str, repository: str) -> subprocess.CompletedProcess[str]:
    """The result of packaging/check_release.py."""
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


def test_the_changelog_has_versions_with_their_dates() -> None:
    """The newest is this one; each has a summary of a few lines, and then what was added, changed and fixed."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    headings, bodies = parts[::2], parts[1::2]
    found = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in headings]
    releases = [(one[4], *map(int, one.groups()[:3])) for one in found if one is not None]
    assert len(releases) == len(headings)
    assert releases == sorted(releases, reverse=True)
    assert headings[0].startswith(f"{msmemscope.__version__} ")
    for body in bodies:
        summary, *kinds = re.split(r"^### ", body, flags=re.MULTILINE)
        assert len(summary.strip().splitlines()) <= LINES_OF_SUMMARY
        assert [kind.splitlines()[0] for kind in kinds] == ["Added", "Changed", "Fixed"]


def section(text: str, name: str) -> set[str]:
    """The entries of a list of the conda recipe, without spaces; conditions as pyproject.toml has them."""
    text = re.sub(r'- if: match\(python, "<([\d.]+)"\)\n +then: (.*)', r"- \2; python_version < '\1'", text)
    body = re.search(rf"^  {name}:\n((?:    - .*\n)+)", text, re.MULTILINE)
    assert body is not None
    return {line.strip().removeprefix("- ").replace(" ", "") for line in body[1].splitlines()}


def listed(text: str, name: str) -> set[str]:
    """The entries of a list of pyproject.toml."""
    body = re.search(rf"^{name} = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert body is not None
    return {entry.replace(" ", "") for entry in re.findall(r'^    "([^"]+)"', body[1], re.MULTILINE)}


def test_the_conda_recipe_says_what_the_package_says() -> None:
    """Its version, what it is built with and what it needs, and where it comes from."""
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    remedy = "write into packaging/conda/recipe.yaml what pyproject.toml and src/msmemscope/__init__.py say"
    assert f"\n  version: {msmemscope.__version__}\n" in recipe, remedy
    assert f"\n  repository: {repository()}\n" in recipe, remedy
    assert section(recipe, "run") - {"python>=3.10"} == listed(project, "dependencies"), remedy
    assert 'requires-python = ">=3.10"' in project
    assert section(recipe, "host") - {"python", "pip"} == listed(project, "requires"), remedy
    assert {"cmake>=3.20", "ninja>=1.11"} <= section(recipe, "build") & listed(project, "build"), remedy


def test_images_are_made_from_what_there_is() -> None:
    """Files that are copied are not left out, extras that are installed exist, and the first stage builds both."""
    images = (ROOT / "packaging" / "docker" / "Dockerfile").read_text(encoding="utf-8")
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert not {"src", "native", "vnpu", "README.md", "LICENSE", "CMakeLists.txt"} & set(left_out)
    extras = {extra for group in re.findall(r"\.whl\)\[([a-z,]+)\]", images) for extra in group.split(",")}
    known = set()
    for path in (ROOT / "pyproject.toml", ROOT / "vnpu" / "pyproject.toml"):
        known |= set(re.findall(r"^([a-z]+) = \[", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert extras == {"view", "live", "torch"}
    assert extras <= known
    stages = re.findall(r"^FROM \S+ AS (\S+)$", images, re.MULTILINE)
    assert stages == ["build", "tool", "virtual-npu"]
    assert set(re.findall(r"^#.*--target (\S+)", images, re.MULTILINE)) == {"tool", "virtual-npu"}
