"""The leak zoo on the CPU: small programs whose leaks are known, and what is found in their runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.leaks.step_leaks import Confidence, StepLeakOptions
from tests.leak_zoo import catalogue
from tests.leak_zoo.scoring import found_leaks, leaking_lines, process_ids, score
from tests.support import tool

if TYPE_CHECKING:
    from tests.leak_zoo.catalogue import Program

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RUNNER = Path(catalogue.__file__).with_name("run_programs.py")
PROGRAMS = catalogue.programs()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The captures of all programs, run once."""
    output = tmp_path_factory.mktemp("zoo") / "output"
    identities = [program.identity for program in PROGRAMS]
    options = ["--device=cpu", "--call-stack=python", f"--output={output}"]
    finished = tool.run([*tool.TOOL, *options, "--", sys.executable, RUNNER, *identities], output=output)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    processes = process_ids(finished.stdout)
    assert set(processes) == set(identities)
    return output, processes


def test_the_zoo_is_large_and_mixed() -> None:
    """At least 25 programs, of which many leak and many do not."""
    leaking = [program for program in PROGRAMS if program.leaking_lines]
    assert len(PROGRAMS) >= 25
    assert len(leaking) >= 10
    assert len(PROGRAMS) - len(leaking) >= 10


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.identity)
def test_the_leaking_lines_are_found(program: Program, runs: tuple[Path, dict[str, int]]) -> None:
    """Exactly the lines that are marked, with high confidence; nothing in a program that does not leak."""
    output, processes = runs
    found = found_leaks(output, processes[program.identity])
    assert found.remarks == ()
    assert leaking_lines(program, found) == program.leaking_lines
    assert set(found.leaking_sites["confidence"]) <= {Confidence.HIGH.value}


def test_precision_and_recall(runs: tuple[Path, dict[str, int]], capsys: pytest.CaptureFixture[str]) -> None:
    """Both are 1; by the definition alone, bounded caches would be called leaks."""
    output, processes = runs
    result = score(PROGRAMS, processes, output)
    alone = score(PROGRAMS, processes, output, StepLeakOptions(judges_sites=False))
    with capsys.disabled():
        sys.stdout.write(
            f"\n{result}\nby the definition alone: precision {alone.precision:.3f}, recall {alone.recall:.3f}\n"
        )
    assert (result.precision, result.recall) == (1.0, 1.0), (result.found_false, result.missed)
    assert alone.recall == 1.0
    assert alone.precision < 1.0
