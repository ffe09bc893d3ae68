"""Memory that stays in use while the real torch_npu sleeps has the size that the device says, at the known lines."""

from __future__ import annotations

import io
import os
import re
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import msmemscope
from msmemscope.analysis.sleep.sleep import SleepResult
from msmemscope.model.pools import Pool
from msmemscope.questions import QUESTIONS
from tests.support.ascend import PROGRAMS
from tests.support.frameworks import PACKAGES
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from tests.ascend.conftest import CompileC, Observe
    from tests.support.ascend import Observation

pytestmark = pytest.mark.slow

MIB = 1 << 20
OPTIONS = ["--device=npu", "--call-stack=python"]
PROGRAM = "sleeping_rollout.py"
CYCLES = 5
LEAKED = 3 * MIB


def rounded(size_bytes: int) -> int:
    """The bytes that the caching allocator of torch_npu takes for a storage: 32 bytes more, rounded up to 512."""
    return -(-(size_bytes + 32) // 512) * 512


def line_of(comment: str) -> int:
    """The line of the program that ends with a comment."""
    lines = (PROGRAMS / PROGRAM).read_text(encoding="utf-8").splitlines()
    (found,) = (number for number, line in enumerate(lines, start=1) if line.endswith(f"# {comment}"))
    return found


def asked(observation: Observation) -> tuple[SleepResult, str]:
    """The answer about the run, and its report."""
    recording = msmemscope.load(observation.run.capture.directory)
    result = recording.sleep()
    text = io.StringIO()
    QUESTIONS["sleep"].report(result, recording, text)
    return result, " ".join(text.getvalue().split())


def kept_at(result: SleepResult, comment: str) -> list[dict[str, Any]]:
    """The rows of the last sleeps about the blocks that `block` made for a line."""
    of_line = re.compile(rf"{re.escape(PROGRAM)}\({line_of(comment)}\)")
    return [row for row in result.sites.iter_rows(named=True) if of_line.search(row["site"] or "")]


@pytest.fixture(scope="module")
def sleeping(
    observe_once: Observe,
    compile_c: CompileC,
    vnpu_environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """Run the program one way."""
    library = compile_c("sleeping_pool.c", flags=["-shared", "-fPIC"])
    information = tmp_path_factory.mktemp("installed") / "vllm_ascend-0.23.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-ascend\nVersion: 0.23.0\n")
    fakes = (PACKAGES, PACKAGES / "vllm_ascend_0_18", information.parent)
    paths = os.pathsep.join([*map(str, fakes), vnpu_environment["PYTHONPATH"]])

    def run(how: str, leaked: int) -> Observation:
        words = (PROGRAM, how, leaked, CYCLES, library)
        return observe_once(OPTIONS, *words, variables={"PYTHONPATH": paths}, log_alone=True)

    return run


@pytest.mark.parametrize("how", [pytest.param("freed", marks=nightly), "mapped"])
def test_the_leak_and_the_buffer_are_named(sleeping: Any, how: str) -> None:
    """To the byte, and the whole is what the device has in use while asleep."""
    observation = sleeping(how, LEAKED)
    result, text = asked(observation)
    truths = [int(report["asleep"]) for report in observation.run.reports]
    assert result.cycles["asleep_bytes"].to_list() == truths
    assert len(truths) == CYCLES
    (leak,) = kept_at(result, "the leak")
    assert leak["is_growing"]
    assert leak["growth_bytes_per_cycle"] == rounded(LEAKED)
    assert leak["last_bytes"] == (CYCLES - 1) * rounded(LEAKED)
    assert leak["pool"] == Pool.PTA
    (stays,) = kept_at(result, "the buffer that stays")
    assert (stays["last_bytes"], stays["growth_bytes_per_cycle"]) == (rounded(16 * MIB), 0)
    assert result.growing.height == 1
    first_sentence = "npu:0: 3.00 MiB more stays in use with each sleep at "
    assert text.startswith(first_sentence)
    assert re.match(rf"\S*{re.escape(PROGRAM)}\({line_of('the leak')}\)", text.removeprefix(first_sentence))


def test_what_a_pool_keeps_an_address_of_does_not_stay(sleeping: Any) -> None:
    """Of its blocks those stay that it does not put to sleep, although torch counts all of them."""
    observation = sleeping("mapped", 0)
    result, _ = asked(observation)
    pooled = kept_at(result, "the pools")
    assert [row["last_bytes"] for row in pooled] == [rounded(8 * MIB)]
    allocated = [int(report["allocated"]) for report in observation.run.reports]
    assert allocated == [sum(map(rounded, (40 * MIB, 24 * MIB, 8 * MIB, 16 * MIB)))] * CYCLES
    given_back = (result.cycles["awake_bytes"] - result.cycles["asleep_bytes"]).to_list()
    # Segments of the pool are as large as torch_npu asks for them.
    assert all(64 * MIB <= size <= 70 * MIB for size in given_back)


@pytest.mark.parametrize("how", [pytest.param("freed", marks=nightly), "mapped"])
def test_without_a_leak_nothing_grows(sleeping: Any, how: str) -> None:
    """The report says so in its first sentence, and what stays is still the device's."""
    observation = sleeping(how, 0)
    result, text = asked(observation)
    assert result.cycles["asleep_bytes"].to_list() == [int(report["asleep"]) for report in observation.run.reports]
    assert result.growing.is_empty()
    assert result.growth_bytes_per_cycle(0) == 0
    assert "; nothing grows from sleep to sleep" in text.partition(" sleep in use before ")[0]
    assert result.kept.group_by("cycle").agg(pl.col("size_bytes").sum()).sort("cycle")["size_bytes"].to_list() == (
        result.cycles["asleep_bytes"].to_list()
    )
