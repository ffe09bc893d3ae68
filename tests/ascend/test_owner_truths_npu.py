"""Owners on the virtual NPU against programs that know who owns each of their tensors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.owner_truths.measure import NIGHTLY_PROGRAMS, NPU_PROGRAMS, score, table
from tests.support.nightly import NIGHT

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

pytestmark = pytest.mark.slow

RUNNER: Final = Path(__file__).parents[1] / "support" / "run_programs.py"
VARIABLES: Final = {"OWNER_TRUTHS_DEVICE": "npu", "VNPU_MEMORY": "1GiB", "VNPU_DEVICES": "1"}
AT_NIGHT: Final = ("training.lora", "inference.without_steps", *NIGHTLY_PROGRAMS["npu"])
"""By day the first two run on the CPU."""
PROGRAMS: Final = tuple(name for name in (*NPU_PROGRAMS, *NIGHTLY_PROGRAMS["npu"]) if NIGHT or name not in AT_NIGHT)


def test_every_block_has_its_owner(observe: Observe, capsys: pytest.CaptureFixture[str]) -> None:
    """At every moment that a program speaks of; also where memory ran out in the middle of a forward pass."""
    options = ["--device=npu", "--analysis=decompose", "--call-stack="]
    words = (str(RUNNER), "tests.owner_truths", *PROGRAMS)
    observation = observe(options, *words, variables=VARIABLES, timeout_s=600, log_alone=True)
    rows, differences = score(observation.run, "npu")
    with capsys.disabled():
        sys.stdout.write(f"\n{table(rows)}\n")
    assert {row.program for row in rows} == set(PROGRAMS)
    assert differences == []
