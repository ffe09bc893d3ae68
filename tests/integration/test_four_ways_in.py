"""The same run from its event log, as CSV, as DB, and from the log of a killed program: every analysis says the same."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import polars as pl
import pytest

from msmemscope.analysis.compare.comparison import compare
from msmemscope.analysis.leaks.step_leaks import Fate
from msmemscope.configuration import Level
from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from tests.support import tool
from tests.support.nightly import nightly
from tests.support.ways_in import (
    OPTIONS,
    PROGRAM,
    analysed,
    blocks_of,
    differences,
    dump_of,
    run_and_be_killed,
    ways_into,
)

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording import Recording
    from tests.support.ways_in import Results

pytestmark = [pytest.mark.torch, pytest.mark.slow]

STEPS: Final = 20
KILLED_AT: Final = 7
WITH_STACKS: Final = (*OPTIONS, "--call-stack=python,c")
"""A dump knows call sites only where stacks were asked for; an event log has them always."""

OF_EACH_INPUT: Final = ("leaks.source",)
"""The path that was read."""
OF_THE_LOG_ALONE: Final = (
    # Findings name the owner that the input says; a log has the labels that owners are made of, see `decompose`.
    "inefficient.findings/owner",
    "patterns.findings/owner",
    # Messages about missing data differ by input. A dump does not say that no watched memory or kernels were chosen.
    "*.coverage.missing*",
    "*.coverage.limits*",
)
"""Columns that differ between an event log and its dumps."""
OF_EACH_RUN: Final = (
    "*.process_id",
    # Where blocks lie and when things happen.
    "*address",
    "*_ns",
    "*byte_seconds",
    # Numbers of events: modules are looked at as often as it costs little, and what they hold then gets labels in between.
    "*sequence",
    "leaks.slow_leaks.blocks",
    "*.recent_since",
    "*allocation_id",
    "*.findings/interval_begin",
    "*.findings/interval_end",
    # Who runs it: the main thread has the number of its process.
    "*thread_id",
    # The texts of native stacks have addresses.
    "*native_stack_id",
    # How full the machine was.
    "oom.failures[[]0].state.*",
    "*.cause.figures.machine_free_bytes",
    "*.cause.figures.process_bytes",
    "oom.failures[[]0].cause.figures.device_used_bytes",
    "oom.failures[[]0].cause.sentence",
    "peak.devices[[]0].cause.figures.device_used_bytes",
    "peak.devices[[]0].cause.sentence",
)
"""Columns that differ from one run to the next of a program that does the same each time."""


@dataclass(frozen=True)
class Run:
    """One run of the program, in all ways in."""

    capture: Path
    csv: Path
    db: Path

    @cached_property
    def ways(self) -> dict[str, Recording]:
        """The run by the form of each way in."""
        return ways_into(self.capture, self.csv, self.db)

    @cached_property
    def results(self) -> dict[str, Results]:
        """All results, likewise."""
        return {form: analysed(recording) for form, recording in self.ways.items()}


def command(end: str, steps: int = STEPS) -> list[object]:
    """The program, and how it ends."""
    return [sys.executable, PROGRAM, "cpu", steps, end]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The program ends by itself: the launcher writes CSV, and DB is made of the same log."""
    output = tmp_path_factory.mktemp("ended") / "output"
    run = tool.run(
        [*tool.TOOL, "--device=cpu", f"--output={output}", *WITH_STACKS, "--", *command("return")], output=output
    )
    assert run.returncode == 0, run.stderr
    (csv,) = run.capture.directory.glob("device_cpu/dump/memscope_dump_*.csv")
    return Run(run.capture.directory, csv, dump_of(run.capture.directory, "db", ["--data-format=db"]))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The program and its launcher are killed behind the last step, and the log is brought in by `recover`."""
    output = tmp_path_factory.mktemp("killed") / "output"
    return recovered(run_and_be_killed(command("kill"), output, ["--device=cpu", *WITH_STACKS], {}))


@pytest.fixture(scope="module")
def killed_between(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Both are killed from outside, wherever the program is then; it would go on for very long."""
    output = tmp_path_factory.mktemp("killed_between") / "output"
    options = ["--device=cpu", *WITH_STACKS]
    return recovered(run_and_be_killed(command("return", 1_000_000), output, options, {}, until=str(KILLED_AT)))


def recovered(capture: Path) -> Run:
    """Bring in the log of a killed program, as CSV as the run was told, and from a copy as DB."""
    copy = capture.parent.with_name("copy") / capture.name
    shutil.copytree(capture, copy)
    return Run(capture, dump_of(capture, "csv"), dump_of(copy, "db", ["--data-format=db"]))


def test_the_program_has_every_fault(ended: Run) -> None:
    """Equal results are worth something only if there are any."""
    found = ended.results["event log"]
    assert found["leaks.step_leaks.steps_ended"] == STEPS
    leaked = found["leaks.step_leaks.blocks"].filter(pl.col("fate") == Fate.LEAKED.value)
    assert leaked.filter(pl.col("site").str.ends_with(": leak")).height == STEPS - 2
    (slow,) = found["leaks.slow_leaks.sites"].filter(pl.col("site").str.ends_with(": keep_batches"))["last_blocks"][:1]
    assert slow >= STEPS / 2
    findings = found["inefficient.findings"]
    by_line = {
        kind: set(part["call_site"].str.extract(r": (\w+)$"))
        for (kind,), part in findings.partition_by("kind", as_dict=True).items()
    }
    assert "allocate_early" in by_line["early_allocation"]
    assert "free_late" in by_line["late_deallocation"]
    assert "hold_idle" in by_line["temporary_idleness"]
    assert found["patterns.churn"].height
    assert found["oom.failure_count"] == 1
    assert found["peak.devices[0].cause.cause"] is not None
    owners = set(found["decompose.over_time"]["node"])
    assert {"HOST@model@weight", "HOST@model@optimizer_state", "HOST@ops@aten@idle"} <= owners
    assert found["operators.rows"].height > 50 * STEPS


@pytest.mark.parametrize("run", ["ended", pytest.param("killed", marks=nightly), "killed_between"])
def test_log_csv_and_db_of_one_run_give_equal_results(run: str, request: pytest.FixtureRequest) -> None:
    """Every column of every result is equal, except the named ones: sequence numbers, addresses, times, call sites."""
    given: Run = request.getfixturevalue(run)
    log, csv, db = (given.results[form] for form in ("event log", "csv", "db"))
    assert differences(csv, db, OF_EACH_INPUT) == []
    assert differences(log, csv, (*OF_EACH_INPUT, *OF_THE_LOG_ALONE)) == []


@pytest.mark.parametrize("run", ["ended", pytest.param("killed", marks=nightly), "killed_between"])
def test_blocks_of_one_run_are_equal(run: str, request: pytest.FixtureRequest) -> None:
    """Of an event, dumps lack only that it was part of a backward pass; in return they have the owners' texts."""
    given: Run = request.getfixturevalue(run)
    log, csv, db = (given.ways[form] for form in ("event log", "csv", "db"))
    assert blocks_of(csv).equals(blocks_of(db), null_equal=True)
    columns = {"blocks": blocks_of(log).drop("flags", "owner")}
    assert differences(columns, {"blocks": blocks_of(csv).drop("flags", "owner")}) == []
    assert csv.blocks["owner"].null_count() == 0
    rows = {form: recording.events["kind"].value_counts().sort("kind") for form, recording in given.ways.items()}
    assert rows["csv"].equals(rows["db"])
    # Labels become owners, and the steps of this program are marked: neither labels nor implied steps are rows.
    no_rows = [
        EventKind.OWNER,
        EventKind.IMPLIED_STEP,
        EventKind.HOST_SAMPLE,
        EventKind.HOST_SAMPLE_FREE,
        EventKind.HOST_RESIDENT,
        EventKind.HOST_MEMORY,
    ]
    assert rows["event log"].filter(~pl.col("kind").is_in(no_rows)).equals(rows["csv"])
    assert [recording.problems for recording in given.ways.values()] == [()] * 3


@nightly
def test_a_killed_program_gives_what_one_that_ended_gives(ended: Run, killed: Run) -> None:
    """The same program does the same until it is killed, and all of it is there."""
    for form in ("event log", "csv", "db"):
        expected = (*OF_EACH_INPUT, *OF_EACH_RUN)
        assert differences(ended.results[form], killed.results[form], expected) == [], form


@pytest.mark.parametrize("run", [pytest.param("killed", marks=nightly), "killed_between"])
def test_recovering_changes_nothing_in_the_log(run: str, request: pytest.FixtureRequest) -> None:
    """A copy of the log that no dump was made of gives the same results."""
    given: Run = request.getfixturevalue(run)
    copy = given.capture.parent.with_name("untouched") / given.capture.name
    shutil.copytree(given.capture / "event_log", copy / "event_log")
    assert differences(analysed(load(copy)), given.results["event log"], OF_EACH_INPUT) == []


def test_a_run_that_is_killed_between_is_like_a_whole_one_until_then(ended: Run, killed_between: Run) -> None:
    """Block by block the same, and freed by the same events, as far as both came."""
    recordings = [killed_between.ways["csv"], ended.ways["csv"]]
    ends = [killed_between.results["csv"]["steps"], ended.results["csv"]["steps"]]
    assert len(ends[0]) >= KILLED_AT
    # By rows of the dump, which has no labels: these come when they come.
    bound = min(
        recording.events["sequence"].search_sorted(steps["end_sequence"].max())
        for recording, steps in zip(recordings, ends, strict=True)
    )
    tables = []
    for recording in recordings:
        row_of = dict(zip(recording.events["sequence"], range(recording.events.height), strict=True))
        rows = recording.blocks.with_columns(pl.col("malloc_sequence", "free_sequence").replace_strict(row_of))
        is_freed = pl.col("free_sequence") <= bound
        columns = (
            "malloc_sequence",
            "size",
            "device",
            "pool",
            "name",
            "owner",
            pl.when(is_freed).then("free_sequence"),
        )
        tables.append(rows.filter(pl.col("malloc_sequence") <= bound).select(*columns))
    assert len(tables[0]) > 100 * KILLED_AT
    assert differences({"blocks": tables[0]}, {"blocks": tables[1]}) == []
    assert differences(killed_between.results["csv"], ended.results["csv"], (*OF_EACH_INPUT, *OF_EACH_RUN)) != []


@pytest.mark.parametrize("level", [Level.OP, Level.KERNEL])
def test_comparisons_do_not_depend_on_the_way_in(ended: Run, killed_between: Run, level: Level) -> None:
    """Against itself in another form a run has no difference; against another run it has always the same ones."""
    log = ended.ways["event log"]
    for recording in ended.ways.values():
        found = compare(log, recording, {level})
        assert found.rows.filter(pl.col("difference_bytes") != 0).is_empty()
        assert found.rows["base_sequence"].equals(found.rows["compare_sequence"])
        assert [peak.difference_bytes for peak in found.peaks] == [0]
    expected = compare(killed_between.ways["event log"], log, {level})
    for form, recording in ended.ways.items():
        for base in killed_between.ways.values():
            found = compare(base, recording, {level})
            assert found.rows.equals(expected.rows, null_equal=True), (base.form, form)
            assert (found.peaks, found.remarks) == (expected.peaks, expected.remarks)
    if level is Level.OP:
        assert expected.rows["base_sequence"].null_count() + expected.rows["compare_sequence"].null_count() > 0


def test_without_stacks_a_dump_still_gives_what_needs_none(ended: Run, tmp_path: Path) -> None:
    """Call sites are gone, and with them what is judged by call site; blocks, peaks, owners and operators are the same."""
    capture = tmp_path / ended.capture.name
    shutil.copytree(ended.capture / "event_log", capture / "event_log")
    found = analysed(load(dump_of(capture, "csv", ["--call-stack="])))
    by_site = (
        "leaks.*",
        "inefficient.findings/*",
        "inefficient.pools*lines*",
        "patterns.*",
        "peak.*.sites*",
        "peak.*.recent*",
        "middle.*.s*",
        "middle.*.recent*",
    )
    no_stacks = ("*python_stack_id", "*native_stack_id", "oom.*by_source_line*", "oom.*source_line", "peak*site")
    assert differences(ended.results["csv"], found, (*by_site, *no_stacks)) == []
    findings = [
        results["inefficient.findings"].sort("allocation_id", "kind") for results in (found, ended.results["csv"])
    ]
    columns = ["allocation_id", "kind", "operators_wasted", "saved_bytes", "interval_begin", "interval_end", "owner"]
    assert findings[0].select(columns).equals(findings[1].select(columns))
