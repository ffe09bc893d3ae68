"""The leak zoo on the virtual NPU: its programs with their tensors there, pinned memory, and a C program on the driver."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.analysis.leaks.between_marks import find_leaks_between_marks
from msmemscope.analysis.leaks.driver_leaks import find_driver_leaks
from msmemscope.analysis.leaks.step_leaks import Fate, find_step_leaks
from msmemscope.errors import ConfigurationError
from msmemscope.formats.reading import load_all
from msmemscope.model.pools import Pool
from tests.leak_zoo import catalogue, scoring
from tests.leak_zoo.scoring import measure, run_zoo, score
from tests.support.measures import table
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from tests.ascend.conftest import CompileC, Observe

ZOO = Path(catalogue.__file__).parent
BY_DAY = frozenset(
    {
        "containers.forgotten_list",
        "containers.weak_references",
        "functions.exception_tracebacks",
        "autograd.loss_accumulation",
        "autograd.gradient_accumulation",
        "training.plain_training",
        "training.averages_kept",
        "unmarked.optimizer_only",
        "unmarked.kv_cache_with_a_bound",
        "pinned.pinned_buffers_kept",
        "pinned.pinned_buffer_reused",
    }
)
"""Of each family one that leaks and one that does not, or nearly: all but the pinned ones run on the CPU, too."""


@nightly
@pytest.mark.slow
def test_precision_and_recall(
    vnpu_environment: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both are 1, as on the CPU."""
    monkeypatch.setattr(scoring, "found_leaks", functools.cache(scoring.found_leaks))  # the same runs are scored twice
    assert vnpu_environment
    programs = catalogue.programs_of("npu")
    assert len(programs) >= 25
    if not NIGHT:
        programs = [program for program in programs if program.identity in BY_DAY]
        assert len(programs) == len(BY_DAY)
    processes = run_zoo(tmp_path / "output", programs, "npu", leaves_results=bool(NIGHT))
    rows = measure(tmp_path / "output", processes, programs, "npu")
    with capsys.disabled():
        sys.stdout.write(f"\n{table(rows)}\n")
    result = score(programs, processes, tmp_path / "output")
    assert (result.found_false, result.missed) == ([], [])
    assert [(row.precision, row.recall) for row in rows] == [(1.0, 1.0), (1.0, 1.0)]


def test_memory_of_the_driver_in_c(compile_c: CompileC, observe_c: Observe) -> None:
    """The function that leaks is found by its native stack; buffers in turn and a late table are no leaks."""
    source = (ZOO / "driver_memory.c").read_text(encoding="utf-8")
    (leaking,) = re.findall(r"(\w+)\(void\) \{ /\* LEAK \*/", source)
    program = compile_c(source, "ascendcl", "ascend_hal", "ms_tools_ext")
    seen = observe_c(["--device=npu", "--call-stack=c"], program)
    (dataset,) = load_all(seen.run.capture.directory)
    found = find_step_leaks(dataset)
    (site,) = found.leaking_sites.iter_rows(named=True)
    inner, outer = site["site_path"].splitlines()[:2]
    assert inner == site["site"]
    assert re.search(r"/program\(allocate\+0x[0-9a-f]+\)$", inner), inner
    assert re.search(rf"/program\({leaking}\+0x[0-9a-f]+\)$", outer), outer
    assert (site["pool"], site["leaked_bytes"], site["growth_bytes_per_step"]) == (Pool.HAL, 10 * (3 << 20), 3 << 20)
    assert (site["confidence"], site["longest_run"]) == ("high", 10)
    by_fate = {fate: found.blocks.filter(pl.col("fate") == fate.value)["size"].to_list() for fate in Fate}
    assert by_fate[Fate.KEPT] == [5 << 20]
    assert set(by_fate[Fate.EXPECTED]) == set(by_fate[Fate.LONG_LIVED]) == {2 << 20}
    modules = find_driver_leaks(dataset).modules
    assert modules.filter(pl.col("module") == "HCCL").select("leaked_bytes", "leaked_blocks").rows() == [(36 << 20, 12)]
    assert modules.filter(pl.col("module") == "APP")["leaked_bytes"].to_list() == [3 * (2 << 20) + (5 << 20)]
    with pytest.raises(ConfigurationError, match="has no marks"):
        find_leaks_between_marks(dataset, "forward")
