"""Owners on the virtual NPU against programs that know who owns each of their tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.owner_truths.measure import NIGHTLY_PROGRAMS, NPU_PROGRAMS, run, score, table
from tests.support.nightly import NIGHT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("vnpu_environment")
def test_every_block_has_its_owner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At every moment that a program speaks of; also where memory ran out in the middle of a forward pass."""
    programs = (*NPU_PROGRAMS, *(NIGHTLY_PROGRAMS["npu"] if NIGHT else ()))
    rows, differences = score(run("npu", programs, tmp_path), "npu")
    with capsys.disabled():
        sys.stdout.write(f"\n{table(rows)}\n")
    assert {row.program for row in rows} == set(programs)
    assert differences == []
