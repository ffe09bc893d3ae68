"""Owners on the virtual NPU against trainings with packages of others, as on the CPU; `make test-training` runs them."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import polars as pl
import pytest

import msmemscope
from msmemscope.model.events import EventKind
from tests.frameworks.catalogue import PROGRAMS, missing
from tests.frameworks.measure import LANE_VARIABLE, TIMEOUT_S, measure, report

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2 * TIMEOUT_S),
    pytest.mark.skipif(LANE_VARIABLE not in os.environ, reason="of make test-training"),
]


@pytest.mark.usefixtures("vnpu_environment")
@pytest.mark.parametrize("identity", [name for name, program in PROGRAMS.items() if "npu" in program.devices])
def test_every_block_has_its_owner(identity: str, tmp_path: Path) -> None:
    """At every moment that the program speaks of, in each of its processes."""
    program = PROGRAMS[identity]
    if absent := missing(program):
        pytest.skip(f"not installed in this environment: {absent} (make test-training installs it)")
    rows, differences = measure(identity, "npu", tmp_path)
    report(identity, "npu", rows, differences)
    assert {row.owner for row in rows if row.true_bytes} >= set(program.owners)
    assert differences == []
    assert snapshots_of(tmp_path / "output") == [
        [f"{call}@{side}" for call in program.snapshots for side in ("Start", "End")]
    ] * (program.ranks if program.snapshots else 0)


def snapshots_of(output: Path) -> list[list[str]]:
    """The names of the snapshots of each process that took some, in their order."""
    found = []
    for recording in msmemscope.load_all(output):
        taken = recording.events.filter(pl.col("kind") == int(EventKind.SNAPSHOT)).sort("sequence")
        named = taken.join(recording.strings.select(name_id="id", name="text"), on="name_id", maintain_order="left")
        found.append([name for name, _ in itertools.groupby(named["name"])])  # a row for each device
    return [names for names in found if names]
