"""A job of several ranks without compute: each rank's capture says what it reserves, and whether the job fits."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main
from tests.support.nightly import NIGHT

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

PROGRAM = Path(__file__).parents[2] / "examples" / "train_in_parallel.py"
GIB = 1 << 30
HCCL_BUFFERS = 2 * (200 << 20)
"""Of each communicator, as HCCL_BUFFSIZE is by default."""
RANKS = 4 if NIGHT else 2
TENSOR = RANKS // 2
"""Ranks that share each layer; there are two stages."""


@pytest.mark.slow
def test_ranks_of_a_dry_run_fit(observe: Observe, capsys: pytest.CaptureFixture[str]) -> None:
    """Each rank reserves as much as torch says; communicators and contexts are counted beside it."""
    program = [PROGRAM, "--context=128", f"--tensor={TENSOR}", "--pipeline=2"]
    job = ["run", "--compute=none", f"--ranks={RANKS}", "--", sys.executable, *program]
    observation = observe(["--device=npu"], sys.executable, "-m", "virtual_npu", *job)
    printed = re.findall(r"^rank (\d) .* ([\d.]+) GiB reserved$", observation.run.stdout, re.MULTILINE)
    reserved = {int(rank): float(size) for rank, size in printed}
    assert set(reserved) == set(range(RANKS))
    root = str(observation.run.captures[0].directory.parent)
    assert main(["fits", root, "--capacity=1GiB,64GiB", "--json"]) == 0
    processes = json.loads(capsys.readouterr().out)["processes"]
    devices = {process["place"]["rank"]: process["result"]["devices"][0] for process in processes}
    assert set(devices) == set(reserved)
    for rank, device in devices.items():
        assert device["peak_reserved_bytes"] / GIB == pytest.approx(reserved[rank], abs=0.011)
        others = dict(device["others_by_module"])
        assert others["HCCL"] >= 2 * HCCL_BUFFERS
        assert others["HCCL"] % HCCL_BUFFERS == 0
        assert {"RUNTIME", "AICPU", "OP"} <= set(others)
        assert [one["fits"] for one in device["capacities"]] == [False, True]
    assert main(["fits", root, "--capacity=1GiB,64GiB"]) == 0
    assert capsys.readouterr().out.startswith(f"Does not fit in 1.00 GiB: {RANKS} of {RANKS} devices, ")
