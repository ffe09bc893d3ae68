"""Programs built with a sanitizer start under the tool, find what they find without it, and are observed where that can be."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.nightly import nightly
from tests.support.recordings import events_of
from tests.support.targets import SOURCES
from tests.support.tool import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder

GCC, CLANG = "gcc", "clang"
REPORT = re.compile(r"(?:ERROR|WARNING|SUMMARY): \w+Sanitizer: [a-z- ]+")


@functools.cache
def built(compiler: str, sanitizer: str, folder: Path) -> Path | str:
    """Compile the program, or return why this machine cannot."""
    found = shutil.which(compiler) or next(
        (path for n in range(30, 10, -1) if (path := shutil.which(f"{compiler}-{n}"))), None
    )
    if found is None:
        return f"no {compiler} on PATH"
    program = folder / f"faulty_{compiler}_{sanitizer}"
    source = str(SOURCES / "faulty.c")
    command = [found, "-g", f"-fsanitize={sanitizer}", "-pthread", source, "-o", str(program), "-ldl"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode != 0:
        return f"{compiler} cannot build with -fsanitize={sanitizer} here: {compiled.stderr.splitlines()[0]}"
    if run([program, "none"], output=folder).returncode != 0:
        return f"a program with -fsanitize={sanitizer} does not run here"
    return program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs lie, each of them compiled once."""
    return tmp_path_factory.mktemp("sanitizers")


@pytest.mark.parametrize(
    ("compiler", "sanitizer", "fault"),
    [
        pytest.param(compiler, sanitizer, fault, marks=[] if fault in found else nightly)
        for compiler, sanitizer, found in (
            (GCC, "address", ("none", "overflow", "leak")),
            (GCC, "thread", ("none", "race")),
            (GCC, "undefined", ("none", "overflow")),
            (GCC, "leak", ("none", "leak")),
            (CLANG, "address", ("none", "overflow")),
            (CLANG, "thread", ("none", "race")),
            (CLANG, "memory", ("none", "uninitialised")),
        )
        for fault in ("none", "overflow", "leak", "race", "uninitialised")
    ],
)
def test_the_same_faults_are_found(
    target_builder: Builder,
    run_under_tool: RunUnderTool,
    run_alone: RunUnderTool,
    folder: Path,
    compiler: str,
    sanitizer: str,
    fault: str,
) -> None:
    """Same exit status, same output, same findings; and the allocations that happened before are recorded."""
    program = built(compiler, sanitizer, folder)
    if isinstance(program, str):
        pytest.skip(program)
    command = [program, fault, target_builder.library()]
    observed, alone = run_under_tool(command), run_alone(command)
    assert (observed.returncode, observed.stdout) == (alone.returncode, alone.stdout), observed.stderr
    assert REPORT.findall(observed.stderr) == REPORT.findall(alone.stderr)
    if sanitizer == "memory":
        assert "with MemorySanitizer cannot be observed" in observed.stderr
        assert observed.captures == []
    else:
        assert events_of(observed.capture).height == 200


def test_the_users_own_options_stay(run_under_tool: RunUnderTool) -> None:
    """Of AddressSanitizer's options only the missing one is added."""
    command = ["sh", "-c", 'echo "$ASAN_OPTIONS"']
    for before, after in (
        ("", "verify_asan_link_order=0"),
        ("detect_leaks=0:exitcode=7", "detect_leaks=0:exitcode=7:verify_asan_link_order=0"),
        ("verify_asan_link_order=1", "verify_asan_link_order=1"),
    ):
        assert run_under_tool(command, variables={"ASAN_OPTIONS": before}).stdout == f"{after}\n"


@pytest.mark.parametrize(("runtime", "is_observed"), [("__tsan_init", True), ("__msan_init", False)])
def test_a_program_that_brings_a_runtime(
    target_builder: Builder, run_under_tool: RunUnderTool, runtime: str, *, is_observed: bool
) -> None:
    """Its functions stand in front of the C library's, and are not called before it has set itself up."""
    program = target_builder.part("early_runtime.c", "early_runtime", "-pie", "-rdynamic", f"-DINIT={runtime}", "-ldl")
    result = run_under_tool([program, target_builder.library()])
    assert result.returncode == 0, result.stderr
    assert result.report["early_calls"] == "0"
    assert bool(result.captures) is is_observed
