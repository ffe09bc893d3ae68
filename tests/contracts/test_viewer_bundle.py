"""The built page of the viewer is what its sources make, and small."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "ui"
BUILT = ROOT / "src" / "msmemscope" / "view" / "static"
FILES = ("app.css", "app.js", "index.html")
MOST_BYTES = 250_000
"""Of all files together, as a server may compress them."""
OLDEST_NODE = 20


def test_the_page_is_small() -> None:
    """All that is served lies in the package, and nothing else does."""
    assert sorted(file.name for file in BUILT.iterdir()) == sorted(FILES)
    assert sum(len(gzip.compress((BUILT / name).read_bytes())) for name in FILES) < MOST_BYTES


def test_the_page_loads_nothing_from_elsewhere() -> None:
    """Every address in its markup is relative, and no script or style stands in it."""
    page = (BUILT / "index.html").read_text(encoding="utf-8")
    assert "//" not in page
    assert "<style" not in page
    assert page.count("<script") == page.count("src=") == 1


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here: the page of the viewer is not built again")
def test_the_page_is_what_its_sources_make(tmp_path: Path) -> None:
    """A fresh build, with what the lock file names, is byte for byte what is committed."""
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip("v\n").partition(".")[0]) < OLDEST_NODE:
        pytest.skip(f"Node {version.strip()} is older than {OLDEST_NODE}: the page of the viewer is not built again")
    # A folder as deep as in the project: paths of sources are part of nothing, but let the build see the same.
    copy = tmp_path / "ui"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("node_modules"))
    fetched = subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund", "--prefer-offline"],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode and any(word in fetched.stderr for word in ("ENOTFOUND", "ECONN", "ETIMEDOUT", "EAI_AGAIN")):
        pytest.skip("the registry of npm cannot be reached: the page of the viewer is not built again")
    assert fetched.returncode == 0, fetched.stderr
    out = tmp_path / "built"
    subprocess.run(["npx", "vite", "build", f"--outDir={out}"], cwd=copy, capture_output=True, check=True)
    for name in FILES:
        assert (out / name).read_bytes() == (BUILT / name).read_bytes(), f"{name} is older than ui/: make ui"
