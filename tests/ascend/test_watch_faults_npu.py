"""Seeded overruns on the virtual NPU: every one is put down to its operator, however it is watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.nightly import NIGHT, nightly
from tests.support.targets import SOURCES
from tests.support.watching import check_seeded_runs

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

SEEDS = 20 if NIGHT else 3
"""Each faulty one has a process of its own here; on the CPU, where all share one, more run by day."""
PROGRAM = SOURCES / "watched_faults.py"

WAYS = {
    "by name and by address": (("tensor", "address"), ()),
    "window": (("window",), ("--watch=torch._ops.aten.neg.out:out0,torch._ops.aten.abs.default",)),
    "auto": (("auto",), ("--watch=auto",)),
}


@pytest.mark.parametrize(
    "how", ["by name and by address", pytest.param("window", marks=nightly), pytest.param("auto", marks=nightly)]
)
def test_every_seeded_overrun_is_found_and_nothing_else(observe: Observe, how: str) -> None:
    """One report for each: the culprit, its call, the victim and the bytes; and no word about as many clean runs.

    By `auto`, the padding that was run over and the blocks behind the victim belong to the same report.
    """
    ways, options = WAYS[how]
    seen = observe(["--device=npu", *options], str(PROGRAM), "npu", SEEDS, *ways)
    assert seen.run.stderr.count("[vnpu] injected fault") == SEEDS * len(ways)
    for printed, found in check_seeded_runs(seen.run, SEEDS * len(ways)):
        assert found.attributes["ranges"] == printed["ranges"], printed
        assert found.device == 0
        if how != "auto":
            continue
        assert found.attributes["neighbour_address"] == printed["own"]
        assert (found.attributes["written_neighbour"], found.attributes["exact"]) == ("1", "1")
        assert found.attributes["neighbour_first"] == printed["own_bytes"]
        assert found.attributes.get("more_blocks", "0") == printed["more"]
        assert found.attributes.get("more_until", printed["until"]) == printed["until"]
