"""Programs that know the truth about themselves, with the real torch for CUDA: leaks, inefficiencies, owners, failures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.leak_zoo import catalogue as leaks
from tests.leak_zoo.scoring import run_zoo, score
from tests.oom_zoo import catalogue as failures
from tests.oom_zoo.measure import measure as measure_failures
from tests.owner_truths.measure import CUDA_PROGRAMS, run, table
from tests.owner_truths.measure import score as score_owners
from tests.support.ascend import NotInstalledError
from tests.support.cuda import cuda_python
from tests.support.inefficiency_measure import found, planted, run_planted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _has_torch() -> None:
    try:
        cuda_python()
    except NotInstalledError as missing:
        pytest.skip(str(missing))


def test_lines_that_leak(tmp_path: Path, output: Path) -> None:
    """Each of them, and no other."""
    del tmp_path
    programs = leaks.programs_of("cuda")
    result = score(programs, run_zoo(output, programs, "cuda"), output)
    assert (result.found_false, result.missed) == ([], [])


def test_inefficient_blocks(output: Path) -> None:
    """Each block in its way, and no other block of a planted size."""
    observed = run_planted("cuda", output)
    assert found(observed) == {size: () if kind == "none" else (kind,) for size, kind in planted(observed).items()}


def test_owners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To the byte."""
    rows, differences = score_owners(run("cuda", CUDA_PROGRAMS, tmp_path), "cuda")
    with capsys.disabled():
        sys.stdout.write(f"\n{table(rows)}\n")
    assert differences == []


def test_reasons_to_run_out_of_memory(tmp_path: Path) -> None:
    """Cause, line and remedy of each."""
    programs = failures.programs_of("cuda")
    rows = measure_failures(tmp_path, programs, "cuda")
    assert [row for row in rows if not row.right] == []
