"""The programs of examples/ascend, as their first lines say how to run them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import msmemscope
from msmemscope.analysis.card.card import account_for_card
from tests.support import tool
from tests.support.ascend import Observation
from tests.support.nightly import NIGHT
from tests.support.targets import environment

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

EXAMPLES = Path(__file__).parents[2] / "examples" / "ascend"
MIB = 1 << 20


@pytest.fixture(scope="module")
def marks(cann_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ example, compiled with the command in its first lines."""
    folder = tmp_path_factory.mktemp("marks")
    source = (EXAMPLES / "marks.cpp").read_text(encoding="utf-8")
    (folder / "marks.cpp").write_text(source, encoding="utf-8")
    command = next(line.removeprefix("//").strip() for line in source.splitlines() if line.startswith("//     g++ "))
    subprocess.run(["bash", "-c", command], cwd=folder, env=environment(**cann_environment), check=True)
    return folder / "marks"


def sizes(rows: list[dict[str, str]]) -> list[int]:
    """The sizes of blocks, in MiB, without the 32 bytes that the runtime adds."""
    return [int(row["attributes"]["size"]) // MIB for row in rows]  # type: ignore[index]


def check_rows_of_marks(observation: Observation, event: str = "MALLOC") -> None:
    """Driver blocks of the program, its mark and its steps."""
    blocks = [row for row in observation.of(0, event=event, event_type="HAL") if "CANN@APP" in row["Attr"]]
    assert sizes(blocks) == [64, 1, 2, 3, 4, 5]
    assert len(observation.of(0, event_type="Range_start")) == 5
    assert len(observation.of(0, event_type="Range_end")) == 5
    assert [row["Name"] for row in observation.of(0, event_type="Mark")] == ["weights"]


def test_marks_in_cpp(observe_c: Observe, marks: Path) -> None:
    """Every block of the driver, and the one that step 3 does not free."""
    observation = observe_c(["--device=npu", "--analysis=decompose"], marks)
    check_rows_of_marks(observation)
    freed = {row["attributes"]["allocation_id"] for row in observation.of(0, event="FREE", event_type="HAL")}
    alive = [
        row
        for row in observation.of(0, event="MALLOC", event_type="HAL")
        if "CANN@APP" in row["Attr"] and row["attributes"]["allocation_id"] not in freed
    ]
    assert sizes(alive) == [3]


def test_chosen_steps_alone(observe_c: Observe, marks: Path) -> None:
    """Nothing of the other steps, nor of what lies between them."""
    observation = observe_c(["--device=npu", "--steps=2,4"], marks)
    blocks = [row for row in observation.of(0, event="MALLOC", event_type="HAL") if not shadow(row)]
    assert sizes(blocks) == [2, 4]


def shadow(row: dict[str, str]) -> bool:
    """Whether a block was allocated before the step that is collected."""
    return "shadow:true" in row["Attr"]


def test_a_shell_with_the_preload_lines(cann_environment: dict[str, str], marks: Path, output: Path) -> None:
    """No launcher: the lines of `msmemscope env`, the program as it is, and the results written afterwards."""
    command = shlex.join([sys.executable, "-m", "msmemscope"])
    script = (
        f'eval "$({command} env -- --device=npu --analysis=decompose --output={shlex.quote(str(output))})"\n'
        f"{shlex.quote(str(marks))}\n"
        f'eval "$({command} env --unset)"\n'
        f"{command} recover {shlex.quote(str(output))}\n"
    )
    run = subprocess.run(
        ["bash", "-e", "-c", script], env=environment(**cann_environment), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("done\n")
    finished = tool.ToolRun((), 0, run.stdout, run.stderr, 0.0, output)
    check_rows_of_marks(Observation(finished))


@pytest.mark.slow
def test_training_with_steps(observe: Observe) -> None:
    """The leak is there: what is alive grows with every step, and the list that keeps it is named."""
    options = ["--device=npu", "--events=alloc,free"]
    leaking = observe(options, str(EXAMPLES / "train_with_steps.py"))
    ends = [int(row["ID"]) for row in leaking.of(0, event_type="Range_end")]
    assert len(ends) == 8
    used = [used_before(leaking, end) for end in ends]
    growth = [later - earlier for earlier, later in pairwise(used[1:])]
    assert all(step > MIB for step in growth), used
    assert "held by main.history[" in " ".join(leaking.run.stderr.split())


@pytest.mark.slow
def test_healthy_trainings_have_no_finding(observe: Observe) -> None:
    """With steps that are marked, and with those that are taken from the optimizer."""
    for program in (["ascend/train_with_steps.py", "--no-leak"], ["train_gpt.py", "--steps=4", "--batch=4"]):
        healthy = observe(["--device=npu"], str(EXAMPLES.parent / program[0]), *program[1:])
        assert "\nmsmemscope: nothing found: no leak over " in healthy.run.stderr


def used_before(observation: Observation, end: int) -> int:
    """The bytes that PTA had in use at a place of the recording."""
    rows = [row for row in observation.of(0, event_type="PTA") if int(row["ID"]) < end]
    return int(rows[-1]["attributes"]["used"])


FORKED_RANKS = """
import os, runpy, socket, sys
with socket.create_server(("127.0.0.1", 0)) as free:
    port = str(free.getsockname()[1])
sys.argv = sys.argv[1:]
ranks = []
for rank in ("0", "1"):
    ranks.append(os.fork())
    if ranks[-1] == 0:
        of_torchrun = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        os.environ.update(of_torchrun, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit()
assert [os.waitpid(rank, 0)[1] for rank in ranks] == [0, 0]
"""
"""Does the work of torchrun, without importing torch_npu in each rank: that takes longer than the training."""


@pytest.mark.slow
def test_training_on_ranks(observe: Observe, tmp_path: Path) -> None:
    """Each rank has a capture, its last live bytes are those that it printed, and the buckets of step 2 are no leak."""
    program = EXAMPLES.parent / "train_on_ranks.py"
    options = ["--device=npu", "--events=alloc,free"]
    if NIGHT:
        torchrun = Path(sys.executable).with_name("torchrun")
        observation = observe(options, torchrun, "--standalone", "--nproc-per-node=2", program, "--device=npu")
    else:
        (tmp_path / "ranks.py").write_text(FORKED_RANKS, encoding="utf-8")
        observation = observe(options, str(tmp_path / "ranks.py"), program, "--device=npu")
    # Two processes write to one pipe: their lines may run into each other.
    printed = dict(re.findall(r"rank (\d) allocated (\d+)", observation.run.stdout))
    assert set(printed) == {"0", "1"}
    for rank, allocated in printed.items():
        highest = max(
            int(row["attributes"]["used"]) for row in observation.of(int(rank), event="MALLOC", event_type="PTA")
        )
        assert highest >= int(allocated) > 0
    assert "\nmsmemscope: nothing found: no leak over 6 steps" in observation.run.stderr
    # The memory of HCCL has the line that made the communicator, and nothing of a card is unknown.
    for capture in observation.run.captures:
        recording = msmemscope.load(capture.directory)
        card = account_for_card(recording)
        assert recording.place.rank in {0, 1}
        for device in card.devices:
            assert abs(card.unknown_bytes(device)) < card.total_bytes(device) / 100
        (site,) = card.sites.filter(pl.col("module") == "HCCL")["site"]
        assert "train_on_ranks.py" in site
