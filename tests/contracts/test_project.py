"""Facts of the project that stand in two places agree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

PROJECT: dict[str, Any] = {}
if sys.version_info >= (3, 11):
    import tomllib

    PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

needs_tomllib = pytest.mark.skipif(not PROJECT, reason="tomllib is in Python 3.11 and later")


@needs_tomllib
def test_build_requirements_are_the_same_with_and_without_isolation() -> None:
    """The group `build` has all of build-system.requires, in the same versions."""
    missing = set(PROJECT["build-system"]["requires"]) - set(PROJECT["dependency-groups"]["build"])
    assert not missing, f"add {sorted(missing)} to the group build in pyproject.toml"


@needs_tomllib
def test_every_dependency_is_used() -> None:
    """A dependency that nothing under src imports is a burden on every user."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    imported_as = {"pyelftools": "elftools"}
    for requirement in PROJECT["project"]["dependencies"]:
        name = re.split(r"[<>=!~ ]", requirement)[0]
        module = imported_as.get(name, name)
        pattern = rf"^\s*(import|from) {module}\b"
        assert re.search(pattern, sources, re.MULTILINE), f"{name} is a dependency, but nothing imports it"


def test_every_ignored_rule_has_its_reason() -> None:
    """In the lint configuration, each entry of an ignore list says why on its line."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    entries = re.findall(r'^ {4}"[A-Z]+[0-9]*",.*$', text, re.MULTILINE)
    assert len(entries) > 10
    unexplained = [entry for entry in entries if "#" not in entry]
    assert not unexplained, f"write the reason behind {unexplained} in pyproject.toml"


def test_both_distributions_have_the_same_licence() -> None:
    """As a file of its own: in a source distribution a link leads nowhere."""
    assert not (ROOT / "vnpu" / "LICENSE").is_symlink()
    assert (ROOT / "vnpu" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_only_the_binding_includes_python() -> None:
    """The core lives in programs without Python, so Python's and nanobind's headers are for native/bindings only."""
    pattern = re.compile(r'^\s*#\s*include\s*[<"](Python\.h|nanobind/|frameobject\.h|internal/pycore)', re.MULTILINE)
    wrong = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "native").rglob("*")
        if path.suffix in {".h", ".c", ".cpp"}
        and "bindings" not in path.parts
        and pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert not wrong


def test_event_log_headers_include_no_system_header() -> None:
    """native/core/format is the whole contract between the two sides: fixed-size integers and offsets, nothing else."""
    allowed = {"cstddef", "cstdint"}
    for path in (ROOT / "native" / "core" / "format").glob("*.h"):
        included = set(re.findall(r"#include <([^>]+)>", path.read_text(encoding="utf-8")))
        assert included <= allowed, f"{path.name} includes {included - allowed}"


def test_shell_scripts_parse() -> None:
    """Every script of the repository is valid bash."""
    scripts = [ROOT / ".ci" / "run", *(ROOT / ".ci").glob("*-tests")]
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)
