"""Which tests a changed file can reach."""

from __future__ import annotations

import re

import pytest

from tests.check.processes import COSTLY_CONTRACTS, THROUGH_PROCESSES
from tests.check.reach import reached_from
from tests.support.imports import ROOT


def test_a_file_reaches_what_is_named_after_it_and_what_imports_it() -> None:
    """Over how many imports is known, so that the nearest run first."""
    reached = reached_from("src/msmemscope/analysis/leaks/growth.py")
    assert reached.itself == {"tests/unit/analysis/test_growth.py"}
    assert reached.by_imports["tests/unit/analysis/test_growth_outside_steps.py"] == 1
    assert reached.by_imports["tests/unit/test_questions.py"] == 2
    assert "tests/unit/view/test_index_parts.py" not in reached.by_imports
    assert reached.through_processes == THROUGH_PROCESSES["src/msmemscope/analysis/"]


def test_the_nearest_tests_of_a_file_are_those_of_its_folder() -> None:
    """The search of the viewer's index is reached by all that has the command line, over more imports."""
    by_imports = reached_from("src/msmemscope/view/index/range_extremes.py").by_imports
    near = {test for test, distance in by_imports.items() if distance <= 2}
    assert near
    assert all(test.startswith("tests/unit/view/") for test in near)
    assert by_imports.keys() > near


def test_verbs_are_reached_over_the_command_line() -> None:
    """They are imported when they were typed, by a name that is put together."""
    reached = reached_from("src/msmemscope/cli/commands/export.py")
    assert reached.itself == {"tests/unit/cli/test_export.py"}
    assert "tests/unit/cli/test_verbs.py" in reached.by_imports


def test_public_names_are_reached_over_the_package() -> None:
    """They are resolved when they are used."""
    assert reached_from("src/msmemscope/formats/scanning.py").by_imports["tests/unit/formats/test_scanning.py"] == 1


def test_tests_that_start_processes_are_reached_by_their_helpers_alone() -> None:
    """The sources they would all reach."""
    helper = reached_from("tests/support/watching.py").by_imports
    assert helper["tests/integration/test_watch.py"] == 1
    assert not any(
        test.startswith("tests/integration/") for test in reached_from("src/msmemscope/errors.py").by_imports
    )


@pytest.mark.parametrize(
    ("name", "test"),
    [
        ("tests/target_programs/leaky_steps.py", "tests/integration/test_online_analyses.py"),
        ("tests/golden/terminal/top_allocated_80.txt", "tests/unit/cli/test_top.py"),
        ("tests/unit/formats/dump/conftest.py", "tests/unit/formats/dump/test_usual_rows.py"),
    ],
)
def test_what_a_test_reads_reaches_it(name: str, test: str) -> None:
    """Programs, golden files, and fixtures beside it."""
    assert test in reached_from(name).by_imports


def test_a_test_that_has_changed_is_reached() -> None:
    """By itself."""
    name = "tests/integration/test_steps.py"
    assert reached_from(name).itself == {name}


def test_a_page_reaches_no_test() -> None:
    """The contracts look at it."""
    assert not reached_from("docs/report.md")


def test_the_longest_folder_counts() -> None:
    """A folder within another one has tests of its own."""
    assert (
        reached_from("native/watch/watch.cpp").through_processes
        == THROUGH_PROCESSES["native/watch/"]
        != THROUGH_PROCESSES["native/"]
    )


def test_every_folder_has_tests_that_start_processes() -> None:
    """A new one gets a row in tests/check/processes.py; folders and tests that are gone leave it."""
    package = ROOT / "src" / "msmemscope"
    folders = {f"src/msmemscope/{path.name}/" for path in package.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= THROUGH_PROCESSES.keys(), f"no row for {sorted(folders - THROUGH_PROCESSES.keys())}"
    named = {test for tests in THROUGH_PROCESSES.values() for test in tests} | COSTLY_CONTRACTS.keys()
    gone = {
        name
        for name in (*THROUGH_PROCESSES, *(test.partition("::")[0] for test in named))
        if not (ROOT / name).exists()
    }
    assert not gone
    marks = re.compile(r"^pytestmark = .*\bmark\.slow\b", re.MULTILINE)
    slow = {test for test in named if marks.search((ROOT / test.partition("::")[0]).read_text(encoding="utf-8"))}
    assert not slow, f"make check leaves out what is slow: name others than {slow}"
