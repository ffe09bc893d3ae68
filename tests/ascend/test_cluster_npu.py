"""Jobs of eight NPUs under torchrun, tensor 2 x pipeline 2 x data 2, with a planted fault each: the first line names it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main
from tests.support.ascend import PROGRAMS
from tests.support.nightly import nightly
from tests.support.tool import TOOL, run

if TYPE_CHECKING:
    from collections.abc import Mapping

LINE = r"at parallel_ranks\.py\(\d+\): "
NAMED = {
    "none": r"nothing found in 8 ranks: no leak over 8 steps, .* evenly spread over pipeline, tensor, data",
    "leak_one": rf"leak: 48\.0 MiB in 6 blocks {LINE}leak_on_one_rank, 8\.00 MiB per step, .*\(rank 3\)",
    "leak_all": rf"leak: 192 MiB in 48 blocks {LINE}leak_on_every_rank, 4\.00 MiB per step and rank, .*\(ranks 0-7; ",
    "stages": r"uneven: pipeline 1 of 2 \(ranks 4-7\) has 1\d\d MiB at its peak, \d\d\.\d MiB more than the others, ",
    "expert": rf"uneven: expert 1 of 2 \(ranks 2-3, 6-7\) has .*, 56\.0 MiB more than the others, .*{LINE}route_tokens \(\+56\.0 MiB\)",
    "batch": rf"outlier: rank 6 has .* at its peak, 6\d\.\d MiB more than the median of its 3 peers, .*{LINE}score_more_rows",
}


@nightly
@pytest.mark.parametrize("fault", NAMED)
def test_the_first_line_names_the_fault(
    fault: str, tmp_path: Path, vnpu_environment: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing else; places come from the mesh."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=8"]
    command = [*TOOL, "--device=npu", f"--output={tmp_path}", "--", *torchrun, PROGRAMS / "parallel_ranks.py", fault]
    job = run(command, output=tmp_path, variables=vnpu_environment)
    assert job.returncode == 0, job.stderr
    assert main(["cluster", str(tmp_path), "--no-cache", "--jobs=1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["verdict"]) == 1
    assert re.match(NAMED[fault], answer["verdict"][0]), answer["verdict"]
    communicators = {one["site"].partition(": ")[2] for one in answer["modules"] if one["module"] == "HCCL"}
    assert {"forward", "train", "main"} <= communicators  # of the tensor group, of the others, of the barrier
