"""A run on the virtual NPU that nobody wrote dumps of, from its event log, as CSV and as DB: every analysis says the same."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Final

import polars as pl
import pytest

from msmemscope.analysis.compare.comparison import compare
from msmemscope.analysis.leaks.step_leaks import Fate
from msmemscope.analysis.owners.decomposition import decompose
from msmemscope.configuration import Level
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.support.nightly import NIGHT, nightly
from tests.support.ways_in import (
    MARK,
    OPTIONS,
    PROGRAM,
    analysed,
    differences,
    dump_of,
    run_and_be_killed,
    ways_into,
)

if TYPE_CHECKING:
    from msmemscope.recording import Recording
    from tests.ascend.conftest import Observe

pytestmark = [pytest.mark.torch, pytest.mark.slow]

STEPS: Final = 18 if NIGHT else 12

OF_EACH_INPUT: Final = ("leaks.source", "marks.source")
"""The path that was read."""
OF_THE_LOG_ALONE: Final = (
    # Findings name the owner that the input says; a log has the labels that owners are made of, see `decompose`.
    "inefficient.findings/owner",
    "patterns.findings/owner",
    # A dump has no row for the references of the program to a block.
    "leaks.*/held_by",
    # How full a device is stands in the rows of its memory, so a dump tells of a change with the next of them.
    "decompose.devices/process_bytes",
    "decompose.devices/device_bytes",
    "peak.devices[[]0].cause.figures.process_bytes",
    # Messages about missing data differ by input. A dump does not say that no memory was chosen to be watched.
    "*.coverage.missing*",
    "*.coverage.limits*",
)
"""Columns that differ between an event log and its dumps."""


@pytest.fixture(scope="module")
def ways(
    tmp_path_factory: pytest.TempPathFactory, vnpu_environment: dict[str, str], observe_once: Observe
) -> dict[str, Recording]:
    """A program with every fault, brought in by `recover`, in all ways in; at night it was killed with its launcher."""
    options = ["--device=npu", *OPTIONS, "--call-stack=python"]
    if NIGHT:
        output = tmp_path_factory.mktemp("killed") / "output"
        command = [sys.executable, PROGRAM, "npu", STEPS, "kill"]
        capture = run_and_be_killed(command, output, options, vnpu_environment)
    else:
        words = (str(PROGRAM), "npu", STEPS, "return")
        capture = observe_once(options, *words, log_alone=True).run.capture.directory
    copy = tmp_path_factory.mktemp("copy") / "output" / capture.name
    shutil.copytree(capture / "event_log", copy / "event_log")
    return ways_into(capture, dump_of(capture, "csv"), dump_of(copy, "db", ["--data-format=db"]))


@nightly
def test_log_csv_and_db_give_equal_results(ways: dict[str, Recording]) -> None:
    """Every column of every result is equal, except the named ones. Marks and launches of kernels are among them."""
    results = {form: analysed(recording) for form, recording in ways.items()}
    log, csv, db = (results[form] for form in ("event log", "csv", "db"))
    assert differences(csv, db, OF_EACH_INPUT) == []
    assert differences(log, csv, (*OF_EACH_INPUT, *OF_THE_LOG_ALONE)) == []
    # Equal results are worth something only if there are any.
    assert log["marks.text"] == MARK
    assert set(log["marks.blocks"]["pool"]) == {Pool.HAL, Pool.PTA}
    leaked = log["leaks.step_leaks.blocks"].filter(pl.col("fate") == Fate.LEAKED.value)
    assert leaked.filter(pl.col("site").str.ends_with(": leak")).height == STEPS - 2
    assert leaked["kernel_index"].is_sorted()
    assert leaked["kernel_index"].n_unique() > STEPS // 2
    assert log["leaks.driver_leaks.blocks"].height
    assert set(log["inefficient.findings"]["kind"]) == {"late_deallocation", "temporary_idleness", "early_allocation"}
    assert log["oom.failures[0].attempts"] == 2
    assert log["peak.devices[0].fragmentation.totals"].height
    assert log["kernels.rows"].height > 20 * STEPS
    assert {"pool", "module", "unknown"} == set(log["decompose.ledger"]["part"])


def test_what_the_device_had_in_use_is_told_with_the_next_row(ways: dict[str, Recording]) -> None:
    """A dump's figure is that of the log wherever memory was allocated or freed since the figure changed."""
    devices = {form: decompose(recording).devices for form, recording in ways.items()}
    log = ways["event log"].events.filter(pl.col("device") == 0)
    usage = log.filter(pl.col("kind") == EventKind.DEVICE_USAGE).select("sequence", changed="sequence")
    memory = log.filter(pl.col("kind").is_in([EventKind.MALLOC, EventKind.FREE]) & (pl.col("pool") != Pool.HOST))
    moments = (
        devices["event log"]
        .sort("sequence")
        .join_asof(usage, on="sequence", check_sortedness=False)
        .join_asof(memory.select("sequence", reported="sequence"), on="sequence", check_sortedness=False)
    )
    is_reported = (moments["reported"] > moments["changed"]).fill_null(value=False)
    assert is_reported.sum() >= STEPS - 1
    for form in ("csv", "db"):
        same = devices[form].sort("sequence").filter(is_reported)
        assert same.equals(devices["event log"].sort("sequence").filter(is_reported), null_equal=True)


@pytest.mark.parametrize("level", [Level.OP, Level.KERNEL])
def test_comparisons_do_not_depend_on_the_way_in(ways: dict[str, Recording], level: Level) -> None:
    """Against itself in another form the run has no difference, by operators and by launches of kernels."""
    for recording in ways.values():
        found = compare(ways["event log"], recording, {level})
        assert found.rows.height > 20 * STEPS
        assert found.rows["base_sequence"].equals(found.rows["compare_sequence"])
        assert found.rows["difference_bytes"].to_list() == [0] * found.rows.height
        assert {peak.difference_bytes for peak in found.peaks} == {0}
