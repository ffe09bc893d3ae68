"""Owners on the CPU against trainings with packages of others that know who owns each of their tensors.

Those of `make test` are run every day; the others where `make test-training` installed what they need.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.frameworks.catalogue import PROGRAMS, missing
from tests.frameworks.measure import LANE_VARIABLE, TIMEOUT_S, measure, report

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(2 * TIMEOUT_S)]


@pytest.mark.parametrize("identity", [name for name, program in PROGRAMS.items() if "cpu" in program.devices])
def test_every_block_has_its_owner(identity: str, tmp_path: Path) -> None:
    """At every moment that the program speaks of, in each of its processes."""
    program = PROGRAMS[identity]
    if absent := missing(program):
        pytest.skip(f"not installed in this environment: {absent} (make test-training installs it)")
    if not (program.is_of_every_day or LANE_VARIABLE in os.environ):
        pytest.skip("of make test-training")
    rows, differences = measure(identity, "cpu", tmp_path)
    report(identity, "cpu", rows, differences)
    assert {row.owner for row in rows if row.true_bytes} >= set(program.owners)
    assert differences == []
