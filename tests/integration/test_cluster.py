"""Jobs of eight real ranks with planted faults: each is named in the first lines, with rank, line and bytes."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import os
import platform
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.cli.main import main
from msmemscope.cluster.capture_task import CaptureOutcome, TaskOptions, summarise_capture
from msmemscope.formats.reading import load
from tests.support import tool
from tests.support.nightly import NIGHT, nightly
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM = SOURCES / "ranks_with_faults.py"
LEAK_ON_ALL = r"leak: 48\.0 MiB in 48 blocks at ranks_with_faults\.py\(\d+\): leak_on_every_rank, 1\.00 MiB per step and rank, .*\(ranks 0-7; "
LEAK_ON_ONE = (
    r"leak: 12\.0 MiB in 6 blocks at ranks_with_faults\.py\(\d+\): leak_on_one_rank, 2\.00 MiB per step, .*\(rank 3\)"
)
BATCH = r"outlier: rank 5 has .* at its peak, 3[0-3](\.\d)? MiB more than the median of its 3 peers, .*ranks_with_faults\.py\(\d+\)"
STAGES = r"uneven: pipeline 1 of 2 \(ranks 2-3, 6-7\) has .* at its peak, \d+(\.\d)? MiB more than the others, .*ranks_with_faults\.py\(\d+\)"
EXPERT = r"uneven: expert 6 of 8 \(rank 6\) has .* at its peak, 14\.0 MiB more than the others, .*route_tokens \(\+14\.0 MiB\)"
KILLED = r"ended early: rank 6 \([^)]+\) was killed or left without an orderly end in step 4, the other 7 ran to step 8; it had 4\.00 MiB of cpu"
SEVERAL = [LEAK_ON_ALL, LEAK_ON_ONE, BATCH, STAGES]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The captures of the jobs that are run by day."""
    return run_jobs(tmp_path_factory.mktemp("jobs"), "none", "several", "killed")


def run_jobs(folder: Path, *names: str) -> Path:
    """Run jobs, whose captures are put into folders of their names."""
    run = tool.run([sys.executable, PROGRAM, folder, *names], output=folder)
    statuses = {name: "0,0,0,0,0,0,-9,0" if name == "killed" else "0,0,0,0,0,0,0,0" for name in names}
    expected = [word for name in names for word in (f"job={name}", f"statuses={statuses[name]}")]
    assert run.stdout.split() == expected, run.stderr
    return folder


@pytest.fixture(scope="module")
def told(jobs: Path) -> str:
    """The answer of `msmemscope cluster --json` about the job with several faults, in one process, without a cache."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["cluster", str(jobs / "several"), "--json", "--jobs=1", "--no-cache"]) == 0
    return printed.getvalue()


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """The answer of `msmemscope cluster --json`."""
    assert main(["cluster", *map(str, arguments), "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def assert_named(verdict: list[str], expected: list[str]) -> None:
    """These are the verdicts and no others."""
    unmet = [form for form in expected if not any(re.match(form, line) for line in verdict)]
    assert not unmet, verdict
    assert len(verdict) == len(expected), verdict


def test_the_faultless_job_names_nothing(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight ranks, alike: one line says what was looked for."""
    found = answer(capsys, jobs / "none", "--no-cache", "--jobs=1")
    assert found["headlines"] == []
    assert found["verdict"][0].startswith("nothing found in 8 ranks: no leak over 8 steps, no failed allocation, ")
    assert found["failures"] == []
    recording = load(min((jobs / "none").glob("msmemscope_*")))
    versions = {key: texts[-1] for key, texts in recording.facts.items() if key.startswith("software.")}
    assert versions["software.python"] == platform.python_version()
    assert versions["software.torch"] == importlib.metadata.version("torch")


def test_a_rank_that_was_killed_is_named(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody saw its end: its steps tell, against those of the others."""
    found = answer(capsys, jobs / "killed", "--no-cache", "--jobs=1")
    assert_named(found["verdict"], [KILLED])


def test_every_fault_is_named_in_the_first_lines(jobs: Path, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A leak on one rank, one on all, a larger batch, uneven stages, all in one job."""
    assert_named(json.loads(told)["verdict"], SEVERAL)
    assert main(["cluster", str(jobs / "several"), "--no-cache", "--jobs=1"]) == 0
    assert_named(capsys.readouterr().out.splitlines()[:4], SEVERAL)


def test_processes_of_a_pool_say_the_same(
    jobs: Path, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command with two workers: the same bytes as one process, also from the summaries that they kept.

    It is run as users do: workers begin by reading the file of the command.
    """
    command = ["cluster", str(jobs / "several"), "--json"]
    pooled = tool.run(
        [Path(sys.executable).with_name("msmemscope"), *command, "--jobs=2", f"--cache={tmp_path}"], output=tmp_path
    )
    assert (pooled.returncode, pooled.stderr) == (0, "")
    assert told == pooled.stdout
    assert main([*command, "--jobs=1", f"--cache={tmp_path}"]) == 0
    assert capsys.readouterr().out == pooled.stdout


@nightly
@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("leak_one", [LEAK_ON_ONE]),
        ("leak_all", [LEAK_ON_ALL]),
        ("batch", [BATCH]),
        ("stages", [STAGES]),
        ("expert", [EXPERT]),
    ],
)
def test_a_fault_by_itself_is_all_that_is_named(
    job: str, expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else of the job is wrong."""
    found = answer(capsys, run_jobs(tmp_path, job) / job, "--no-cache", "--jobs=1")
    assert_named(found["verdict"], expected)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """Ray on this machine: one node by day, two at night."""
    # Ray gives its own processes half a minute to start, which is little where other tests run beside this one.
    os.environ |= {"RAY_raylet_start_wait_time_s": "180", "RAY_gcs_server_request_timeout_seconds": "180"}
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100 << 20, "memory": 4 << 30}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    if NIGHT:
        cluster.add_node(**small)
    cluster.wait_for_nodes(timeout=180)
    yield cluster
    cluster.shutdown()


@pytest.mark.filterwarnings("default")  # of Ray
def test_ray_says_the_same(jobs: Path, ray_cluster: Any, tmp_path: Path) -> None:
    """The same folder, with a capture that is broken: byte-equal JSON."""
    folder = tmp_path / "job"
    for number, capture in enumerate(sorted((jobs / "several").iterdir())):
        if NIGHT or number % 2:  # half of the ranks by day
            shutil.copytree(capture, folder / capture.name)
    (folder / "empty.msmemscope").write_bytes(b"")
    command = [*tool.TOOL, "cluster", folder, "--json", "--no-cache"]
    here = tool.run([*command, "--jobs=1"], output=tmp_path)
    there = tool.run([*command, f"--ray={ray_cluster.address}"], output=tmp_path)
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    assert here.stdout == there.stdout
    assert len(json.loads(there.stdout)["failures"]) == 1


@nightly
@pytest.mark.filterwarnings("default")  # of Ray
def test_a_lost_worker_of_ray_changes_nothing(
    jobs: Path, ray_cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is killed in mid-run: its capture is read by another, and the summaries are those of this process."""
    from msmemscope.cluster import ray_pool

    locations = sorted(str(path) for path in (jobs / "several").iterdir())
    options, mark, victim = TaskOptions(cache=None), tmp_path / "killed", locations[3]

    def killed_once(location: str, options: TaskOptions) -> CaptureOutcome:
        if location == victim and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return summarise_capture(location, options)

    monkeypatch.setattr(ray_pool, "summarise_capture", killed_once)
    found = {
        one.location: one
        for one in ray_pool.summarise_on_ray(locations, options, address=ray_cluster.address, jobs=None)
    }
    assert mark.exists()
    assert found == {location: summarise_capture(location, options) for location in locations}
