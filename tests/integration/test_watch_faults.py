"""Seeded faults on the CPU: every one is put down to its operator, however it is watched, and clean runs are silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.nightly import NIGHT, nightly
from tests.support.targets import SOURCES
from tests.support.warm import run_observed_with_results
from tests.support.watching import check_seeded_runs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

SEEDS = 20 if NIGHT else 10
PROGRAM = SOURCES / "watched_faults.py"
LARGEST_EXACT_BYTES = {"auto": 16 << 10}
"""Automatic watching knows changes in larger memory to 1 KiB."""
LARGEST_COPIED_BYTES = 4 << 20
"""The same of what is watched by name."""

WAYS = {
    "by name and by address": (("tensor", "address"), ()),
    "window": (("window",), ("--watch=torch._ops.aten.sin.default:out0,torch._ops.aten.cos.default",)),
    "auto": (("auto",), ("--watch=auto",)),
}


def in_segments(ranges: str, size: int) -> str:
    """Ranges of bytes as they are known where only checksums of segments are kept."""
    first, last = int(ranges.partition("-")[0]), int(ranges.rpartition("-")[2])
    return f"{first // 1024 * 1024}-{min(last // 1024 * 1024 + 1023, size - 1)}"


# A window by day: test_watch.py.
@pytest.mark.parametrize("how", ["by name and by address", pytest.param("window", marks=nightly), "auto"])
def test_every_seeded_fault_is_found_and_nothing_else(tmp_path: Path, how: str) -> None:
    """The culprit, its call, the victim and the bytes of all of them; and no word about as many clean runs."""
    ways, options = WAYS[how]
    run = run_observed_with_results([PROGRAM, "cpu", SEEDS, *ways], *options, output=tmp_path / "output")
    assert run.returncode == 0, run.stderr
    for printed, found in check_seeded_runs(run, SEEDS * len(ways)):
        expected = printed["ranges"]
        if found.size > LARGEST_EXACT_BYTES.get(how, LARGEST_COPIED_BYTES):
            expected = in_segments(expected, found.size)
        else:
            pieces = [piece.split("-") for piece in expected.split(",")]
            assert int(found.attributes["changed_bytes"]) == sum(int(end) - int(begin) + 1 for begin, end in pieces)
        shown = ",".join(expected.split(",")[:8])
        assert found.attributes["ranges"].removesuffix(",...") == shown, printed
        assert found.name == {"auto": "", "window": "torch._ops.aten.sin.default"}.get(how, "victim")
