"""A job of torchrun with four ranks: each knows its place, those that were not chosen are left alone, all is gathered."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from msmemscope.cli.main import main
from msmemscope.formats.reading import load, load_all
from msmemscope.model.place import Place
from tests.support.tool import TOOL, ToolRun, run

PROGRAM = Path(__file__).parent.parent / "target_programs" / "mesh_ranks.py"
RANKS = 4
LEFT_OUT = 1
CHOSEN = (0, 2, 3)
PLACES = {
    rank: Place(
        rank=rank,
        local_rank=rank,
        world_size=RANKS,
        local_world_size=RANKS,
        node=os.uname().nodename,
        restart_count=0,
        role="trainer",
        coordinates={"data": rank // 2, "tensor": rank % 2},
        axis_sizes={"data": 2, "tensor": 2},
    )
    for rank in range(RANKS)
}


def torchrun(backend: str, *arguments: object) -> list[str]:
    """The command of a job of four ranks on this host."""
    started = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    return [*started, str(PROGRAM), backend, *map(str, arguments)]


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the captures of the job go."""
    return tmp_path_factory.mktemp("gathered") / "of all hosts"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory, gathered: Path) -> ToolRun:
    """The job. One rank is not observed, and another one fails."""
    output = tmp_path_factory.mktemp("job")
    options = ["--device=cpu", f"--output={output}", "--ranks=0,2-3", "--role=trainer", f"--gather={gathered.as_uri()}"]
    return run([*TOOL, *options, "--", *torchrun("gloo", 2)], output=output)


def test_a_rank_that_was_not_chosen_runs_as_if_we_were_not_there(job: ToolRun) -> None:
    """Nothing of ours is in its Python, and it leaves nothing; the status is the job's."""
    loaded = {report["rank"]: report["loaded"] for report in job.reports if "rank" in report}
    assert loaded == {str(rank): str(rank in CHOSEN) for rank in range(RANKS)}
    assert job.returncode == 1  # torchrun's, for the rank that fails
    assert sorted(int(capture.facts["process.rank"][-1]) for capture in job.captures) == list(CHOSEN)


def test_each_rank_knows_its_place(job: ToolRun) -> None:
    """From the event log and from the dumps, with the coordinates of its mesh."""
    for capture in job.captures:
        place = load(capture.directory).place
        assert place == PLACES[place.rank or 0]
        (dump,) = capture.directory.glob("device_cpu/dump/memscope_dump_*.csv")
        assert load(dump).place == place
        assert json.loads((capture.directory / "config.json").read_text())["place"] == place.content()


def test_reports_name_the_places(job: ToolRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary, the figures of a process, and their JSON."""
    assert "rank 3 data 1 tensor 1 " in job.stderr
    assert main(["stats", str(job.output)]) == 0
    text = capsys.readouterr().out
    for rank in CHOSEN:
        assert PLACES[rank].words in text
    assert main(["stats", str(job.output), "--json"]) == 0
    processes = json.loads(capsys.readouterr().out)["processes"]
    assert {process["place"]["rank"]: process["place"] for process in processes} == {
        rank: PLACES[rank].content() for rank in CHOSEN
    }


def test_captures_are_gathered_also_of_a_job_that_fails(job: ToolRun, gathered: Path) -> None:
    """Under names that no other host has, with all that the captures hold, and nothing unfinished beside them."""
    files = sorted(gathered.iterdir())
    node = os.uname().nodename
    by_rank = {int(capture.facts["process.rank"][-1]): capture for capture in job.captures}
    assert [file.name for file in files] == [
        f"rank{rank}_{node}_{by_rank[rank].directory.name}.msmemscope" for rank in CHOSEN
    ]
    recordings = {recording.place.rank: recording for recording in load_all(gathered)}
    for rank in CHOSEN:
        assert recordings[rank].place == PLACES[rank]
        assert recordings[rank].blocks.equals(load(by_rank[rank].directory).blocks)
