"""A job of torchrun with four NPUs and hccl: each rank knows its place, and one that was not chosen is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.formats.reading import load
from tests.integration.test_ranks_of_torchrun import CHOSEN, PLACES, torchrun
from tests.support.nightly import nightly
from tests.support.tool import TOOL, run

if TYPE_CHECKING:
    from collections.abc import Mapping


@nightly
def test_ranks_on_npus_know_their_places(tmp_path: Path, vnpu_environment: Mapping[str, str]) -> None:
    """As on the cpu; the role of torchrun is that of its processes."""
    options = ["--device=npu", f"--output={tmp_path}", "--ranks=0,2-3"]
    command = torchrun("hccl", -1)
    command[command.index("--standalone") : command.index("--standalone")] = ["--role=trainer"]
    job = run([*TOOL, *options, "--", *command], output=tmp_path, variables=vnpu_environment)
    assert job.returncode == 0, job.stderr
    places = [load(capture.directory).place for capture in job.captures]
    assert sorted(places, key=lambda place: place.rank or 0) == [PLACES[rank] for rank in CHOSEN]
