"""The leak zoo on the CPU: small programs whose leaks are known, and what is found in their runs."""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.analysis.leaks.growth import GrowthBasis
from msmemscope.analysis.leaks.step_leaks import Confidence, StepLeakOptions
from msmemscope.formats.reading import load_all
from msmemscope.recording.recording import StepSource
from tests.leak_zoo import STEPS, catalogue, scoring
from tests.leak_zoo.scoring import leaking_lines, measure, run_zoo, score
from tests.support.measures import table
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from msmemscope.analysis.leaks.overview import LeakOverview
    from tests.leak_zoo.catalogue import Program

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAMS = catalogue.programs()
VARIANTS = frozenset(
    {
        "containers.global_dict_by_step",
        "containers.default_argument",
        "functions.partial",
        "functions.hook_per_step",
        "functions.exception_tracebacks",
        "functions.unbounded_cache",
        "autograd.loss_history",
        "autograd.gradients_of_gradients",
        "training.optimizers_kept",
        "training.averages_kept",
        "training.checkpoints_kept",
        "training.metrics_kept",
    }
)
"""Programs that leak as others do: into another container, through another function, another part of a training."""
CHOSEN = [program for program in PROGRAMS if NIGHT or program.identity not in VARIANTS]
"""Those that run."""


@pytest.fixture(scope="module", autouse=True)
def analysed_once() -> Iterator[None]:
    """Each capture is read once, and analysed once in each way: several tests look at what is found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.leak_zoo.scoring.load_all", functools.cache(load_all))
        patch.setattr(scoring, "found_leaks", functools.cache(scoring.found_leaks))
        yield


def found_leaks(output: Path, process_id: int) -> LeakOverview:
    """The leaks that are found in the capture of a process."""
    return scoring.found_leaks(output, process_id, None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The captures of the programs, run once."""
    output = tmp_path_factory.mktemp("zoo") / "output"
    return output, run_zoo(output, CHOSEN, "cpu", leaves_results=bool(NIGHT))


def test_the_zoo_is_large_and_mixed() -> None:
    """There are at least 25 programs. At least ten of them leak, and at least ten do not."""
    leaking = [program for program in PROGRAMS if program.leaking_lines]
    assert len(PROGRAMS) >= 25
    assert len(leaking) >= 10
    assert len(PROGRAMS) - len(leaking) >= 10


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=program.identity, marks=[nightly] if program.identity in VARIANTS else [])
        for program in PROGRAMS
    ],
)
def test_the_leaking_lines_are_found(program: Program, runs: tuple[Path, dict[str, int]]) -> None:
    """Exactly the lines that are marked, with high confidence; nothing in a program that does not leak."""
    output, processes = runs
    found = found_leaks(output, processes[program.identity])
    assert found.step_leaks.remarks == () or found.slow_leaks.basis is GrowthBasis.PARTS
    assert leaking_lines(program, found) == program.leaking_lines
    leaking = found.step_leaks.leaking_sites
    assert set(leaking.filter(pl.col("leaking_steps") > 1)["confidence"]) <= {Confidence.HIGH.value}
    assert leaking.is_empty() or program.leaking_lines


@pytest.mark.parametrize(
    ("program", "source", "steps"),
    [
        ("training.plain_training", StepSource.CALLS, STEPS),
        ("unmarked.losses_with_graphs", StepSource.OPTIMIZER, STEPS),
        ("unmarked.optimizer_healthy", StepSource.OPTIMIZER, STEPS),
        ("unmarked.two_optimizers", StepSource.OPTIMIZER, STEPS),
        ("unmarked.optimizer_in_a_wrapper", StepSource.OPTIMIZER, STEPS),
        ("unmarked.inference_with_growing_cache", StepSource.MODULE, STEPS),
        ("unmarked.inference_healthy", StepSource.MODULE, STEPS),
        ("unmarked.kv_cache_that_grows", StepSource.NONE, 0),
        ("unmarked.http_server_healthy", StepSource.NONE, 0),
    ],
)
def test_where_steps_come_from(program: str, source: StepSource, steps: int, runs: tuple[Path, dict[str, int]]) -> None:
    """Steps come from the program's own calls, else from its optimizer, else from its outermost module.

    Each turn is one step.
    """
    output, processes = runs
    found = found_leaks(output, processes[program])
    assert (found.step_source, found.step_leaks.steps_ended) == (source, steps)


def test_a_one_off_is_no_part_of_the_growth(runs: tuple[Path, dict[str, int]]) -> None:
    """The line leaks 400 bytes per step; the table that it made once is kept."""
    output, processes = runs
    sites = found_leaks(output, processes["unmarked.one_off_on_the_leaking_line"]).step_leaks.sites
    (leaking,) = sites.filter(pl.col("leaked_blocks") > 0).iter_rows(named=True)
    assert 360 <= leaking["growth_bytes_per_step"] <= 512  # in all judged steps but the one with the table
    assert 400_000 <= sites["kept_bytes"].sum() < 401_000


def test_who_holds_what_leaked(runs: tuple[Path, dict[str, int]]) -> None:
    """A local list, an attribute of an object, and graphs of autograd that hold what no variable refers to."""
    output, processes = runs

    def holders(program: str) -> dict[int, str]:
        sites = found_leaks(output, processes[program]).step_leaks.leaking_sites.drop_nulls("held_by")
        lines = sites["site"].str.extract(r"\((\d+)\)").cast(pl.Int64)
        return dict(zip(lines, sites["held_by"], strict=True))

    assert {re.sub(r"\d+", "#", text) for text in holders("containers.forgotten_list").values()} == {
        "forgotten_list.kept[#]"
    }
    (registered,) = holders("containers.class_registry").values()
    assert re.fullmatch(
        r"Registry[.]value, from tests[.]leak_zoo[.]containers[.]Registry[.]instances\[\d+\]", registered
    )
    graphs = {re.sub(r"\d+", "#", text) for text in holders("unmarked.losses_with_graphs").values()}
    assert graphs <= {
        "LossTrainer.history[#], from train.self",
        "LossTrainer.history[#], from train.self -> autograd graph",
    }
    assert any(text.endswith("-> autograd graph") for text in graphs)


def test_precision_and_recall(runs: tuple[Path, dict[str, int]], capsys: pytest.CaptureFixture[str]) -> None:
    """Both are 1; by the definition alone, bounded caches would be called leaks."""
    output, processes = runs
    marked = [program for program in CHOSEN if program.family != "unmarked"]
    alone = score(marked, processes, output, StepLeakOptions(judges_sites=False)).measure("definition alone", "cpu")
    rows = measure(output, processes, CHOSEN, "cpu")
    with capsys.disabled():
        sys.stdout.write(f"\n{table([*rows, alone])}\n")
    result = score(CHOSEN, processes, output)
    assert (result.found_false, result.missed) == ([], [])
    assert [(row.precision, row.recall) for row in rows] == [(1.0, 1.0), (1.0, 1.0)]
    assert alone.recall == 1.0
    assert alone.precision < 1.0
