"""The built pages of the viewer and the report are what their sources make, and small."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from msmemscope.units import format_bytes

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "ui"
PACKAGE = ROOT / "src" / "msmemscope"
BUILT = {
    "view/static": ("app.css", "app.js", "index.html"),
    "reports/html/static": ("report.css", "report.js"),
}
"""Folders below the package, and the files that are built into them."""
VIEWER = PACKAGE / "view" / "static"
MOST_BYTES = 250_000
"""Of all files of the viewer together, as a server may compress them."""
OLDEST_NODE = 20


@pytest.mark.parametrize("folder", BUILT)
def test_nothing_but_what_is_built_lies_in_the_package(folder: str) -> None:
    """Nor less."""
    found = sorted(file.name for file in (PACKAGE / folder).iterdir())
    assert found == sorted(BUILT[folder]), f"what make ui writes into {folder} is listed in BUILT of this file"


def test_the_page_of_the_viewer_is_small() -> None:
    """All files that the viewer serves are small together."""
    assert sum(len(gzip.compress(file.read_bytes())) for file in VIEWER.iterdir()) < MOST_BYTES


def test_the_page_loads_nothing_from_elsewhere() -> None:
    """Every address in its markup is relative, and no script or style stands in it."""
    page = (VIEWER / "index.html").read_text(encoding="utf-8")
    assert "//" not in page
    assert "<style" not in page
    assert page.count("<script") == page.count("src=") == 1


def test_sizes_that_the_tests_of_the_pages_want_are_written_as_everywhere_else() -> None:
    """Also where a value lies in the middle between two texts; those tests hold the script against the same list."""
    sizes = json.loads((SOURCES / "tests" / "sizes.json").read_text(encoding="utf-8"))
    assert len(sizes) > 400
    different = [(size, text, format_bytes(size)) for size, text in sizes if text != format_bytes(size)]
    assert not different, f"ui/tests/sizes.json has the texts of units.format_bytes, write them anew: {different[:3]}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with what the lock file names, as deep in folders as in the project."""
    if shutil.which("npm") is None:
        pytest.skip("no npm here: the pages are not built again")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip("v\n").partition(".")[0]) < OLDEST_NODE:
        pytest.skip(f"Node {version.strip()} is older than {OLDEST_NODE}: the pages are not built again")
    copy = tmp_path_factory.mktemp("project") / "ui"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("node_modules"))
    command = ["npm", "ci", "--no-audit", "--no-fund", "--prefer-offline"]
    fetched = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if fetched.returncode and any(word in fetched.stderr for word in ("ENOTFOUND", "ECONN", "ETIMEDOUT", "EAI_AGAIN")):
        pytest.skip("the registry of npm cannot be reached: the pages are not built again")
    assert fetched.returncode == 0, fetched.stderr
    return copy


def test_the_pages_are_what_their_sources_make(project: Path) -> None:
    """A fresh build is byte for byte what is committed."""
    subprocess.run(["npm", "run", "build"], cwd=project, capture_output=True, check=True)
    fresh = project.parent / "src" / "msmemscope"
    for folder, names in BUILT.items():
        for name in names:
            assert (fresh / folder / name).read_bytes() == (PACKAGE / folder / name).read_bytes(), (
                f"{folder}/{name} is older than ui/: make ui"
            )


def test_types_and_unit_tests_of_the_pages_hold(project: Path) -> None:
    """The checks of `make test-ui` pass."""
    run = subprocess.run(["npm", "run", "check"], cwd=project, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
