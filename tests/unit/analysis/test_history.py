"""Growth over the moments of a history: judged by hand-made series, and its slope against a plain definition."""

from __future__ import annotations

import dataclasses
import io
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.history.history import (
    LEAST_MOMENTS,
    NS_PER_HOUR,
    HistoryOptions,
    HistoryResult,
    examine_history,
)
from msmemscope.analysis.leaks.trends import trends
from msmemscope.questions import QUESTIONS
from msmemscope.recording.run_history import HISTORY_SCHEMA, RESIDENT, RunHistory
from msmemscope.reports.history_report import history_verdicts, render_history
from tests.fakes.event_rows import dataset_of, malloc
from tests.support.golden_text import check_golden

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MIB = 1 << 20
START_NS = 1_764_000_000 * 1_000_000_000
POOL = ("pool", "npu:0", "PTA", "")
LINE = ("site", "npu:0", "PTA", "/home/me/train.py(88): step")
OTHER_LINE = ("site", "npu:0", "PTA", "/home/me/train.py(20): forward")
HOST = ("host", "cpu", "", RESIDENT)
HOST_LINE = ("host site", "cpu", "", "/home/me/train.py(31): log")

Key = tuple[str, str, str, str]


def history(
    series: Mapping[Key, Sequence[int | None]], hours: Sequence[float] | None = None, last_step: int = 10**6
) -> RunHistory:
    """Moments, one each hour where nothing else is said; None where a moment does not name it.

    Args:
        series: The bytes of each.
        hours: Of the moments.
        last_step: The number of the moment from which on there are no more steps.
    """
    count = max(map(len, series.values()))
    moments = hours or list(range(count))
    empty = dict.fromkeys(("blocks", "peak_bytes")) | {"events": 0}
    rows = [
        empty
        | dict(zip(("kind", "device", "pool", "name"), key, strict=True))
        | {"timestamp_ns": START_NS + round(hour * NS_PER_HOUR), "bytes": value, "step": min(place, last_step) * 100}
        for key, values in series.items()
        for place, (hour, value) in enumerate(zip(moments, values, strict=True))
        if value is not None
    ]
    return RunHistory(pl.DataFrame(rows, HISTORY_SCHEMA).sort("timestamp_ns", maintain_order=True), count)


def examined(found: RunHistory, **options: int) -> HistoryResult:
    """The answer about a recording with this history."""
    recording = dataclasses.replace(dataset_of([malloc(8)]), read_history=lambda: found)
    return examine_history(recording, HistoryOptions(**options))


def growing(result: HistoryResult) -> set[str]:
    """The names of the series that grow."""
    return set(result.growing()["name"])


def noise(count: int, seed: int = 1) -> list[int]:
    """Bytes that vary by some MiB, and do not grow."""
    return [int(value) for value in np.random.default_rng(seed).integers(0, 4 * MIB, count)]


# --- the slope --------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**12)), min_size=4, max_size=14))
def test_the_slope_is_the_median_over_all_pairs_of_moments(steps: list[tuple[int, int]]) -> None:
    """However far apart they are."""
    times = np.cumsum([gap for gap, _ in steps]).astype(np.float64)
    values = [value for _, value in steps]
    found = trends(np.array([values], dtype=np.float64), times)
    slopes = [(values[j] - values[i]) / (times[j] - times[i]) for i, j in combinations(range(len(values)), 2)]
    assert found.slope[0] == pytest.approx(median(slopes))


@given(
    st.lists(st.floats(0.01, 30), min_size=LEAST_MOMENTS + 4, max_size=40),
    st.integers(MIB, 1 << 33),
    st.integers(0, 1 << 36),
)
def test_a_steady_leak_is_measured_exactly(gaps: list[float], per_hour: int, before: int) -> None:
    """Its bytes per hour, whatever the times between the moments."""
    hours = np.cumsum([0.0, *gaps])
    values = [before + int(per_hour * hour) for hour in hours]
    result = examined(history({POOL: values}, hours.tolist()), minimum_bytes=1)
    if result.coverage.is_answered:
        assert result.series["bytes_per_hour"][0] == pytest.approx(per_hour, rel=1e-3)
        assert result.series["gained_bytes"][0] == pytest.approx(per_hour * result.judged_ns / NS_PER_HOUR, rel=1e-3)


# --- growth, and what only looks like it ------------------------------------------------------------------------------


def test_a_leak_within_noise_is_named_with_its_line() -> None:
    """By its gain over a week; the line that varies alone is not."""
    leak = [100_000 * hour for hour in range(168)]
    noisy = noise(168)
    total = [(1 << 30) + a + b for a, b in zip(leak, noisy, strict=True)]
    result = examined(history({POOL: total, LINE: leak, OTHER_LINE: noisy}))
    assert growing(result) == {"", LINE[-1]}
    line = result.growing().filter(pl.col("name") == LINE[-1]).row(0, named=True)
    assert line["gained_bytes"] == pytest.approx(100_000 * 150, rel=0.01)
    (verdict,) = history_verdicts(result)
    assert verdict.startswith(f"npu:0 (PTA) grew by {_size(result, '')} in 6 d 6 h ({_pace(result, '')} per hour): ")
    assert verdict.endswith("/home/me/train.py(88): step holds 14.3 MiB of it")


def test_a_cache_that_has_filled_up_is_no_growth() -> None:
    """It rose for a third of the time, and stays."""
    assert growing(examined(history({POOL: [min(hour, 30) * 10 * MIB for hour in range(90)]}))) == set()


def test_what_grows_while_the_program_is_set_up_is_left_out() -> None:
    """The first tenth of the time."""
    values = [hour * 100 * MIB for hour in range(10)] + [900 * MIB] * 91
    result = examined(history({POOL: values}))
    assert growing(result) == set()
    assert history_verdicts(result)[0].startswith("flat: in use on npu:0 (PTA) stayed within 0 bytes over 3 d 18 h")


def test_a_healthy_program_is_hardly_ever_said_to_grow() -> None:
    """Of series that only vary, 1 in 100 at most, few moments or many."""
    for count in (LEAST_MOMENTS + 2, 24, 168):
        lines = {("site", "npu:0", "PTA", f"train.py({number})"): noise(count, number) for number in range(400)}
        assert examined(history(lines)).growing().height <= len(lines) // 100


def test_a_training_is_judged_by_the_ends_of_its_steps() -> None:
    """Its activations come and go by more than it leaks in a week."""
    leak = [hour * MIB for hour in range(168)]
    swing = [value * 500 for value in noise(168)]
    total = [a + b for a, b in zip(leak, swing, strict=True)]
    step_end = ("step end", *POOL[1:])
    found = {POOL: total, LINE: leak}
    (alone, whole) = history_verdicts(examined(history(found)))
    assert alone.startswith(
        "/home/me/train.py(88): step grew by 150 MiB in 6 d 6 h (1.00 MiB per hour), on npu:0 (PTA)"
    )
    assert whole.startswith("no steady growth: in use on npu:0 (PTA) was ")
    (told,) = history_verdicts(examined(history(found | {step_end: leak})))
    assert told.startswith(
        "npu:0 (PTA) grew by 150 MiB in 6 d 6 h (1.00 MiB per hour): /home/me/train.py(88): step holds"
    )
    (flat,) = history_verdicts(examined(history({POOL: swing, step_end: [MIB] * 168})))
    (later,) = history_verdicts(examined(history({POOL: leak, LINE: leak, step_end: [MIB] * 168}, last_step=20)))
    assert later.startswith("npu:0 (PTA) grew by 150 MiB")  # steps have ended long ago
    assert flat.startswith("flat: in use on npu:0 (PTA) after steps stayed within 0 bytes over 6 d 6 h (168 moments)")


def test_few_moments_show_a_clear_rise() -> None:
    """Eight behind the set-up are enough."""
    result = examined(history({POOL: [hour * 50 * MIB for hour in range(LEAST_MOMENTS + 1)]}))
    assert growing(result) == {""}


def test_a_line_that_a_moment_does_not_name_had_nothing() -> None:
    """And a part of the host that nobody asked for is as before."""
    lines = [None] * 20 + [number * MIB for number in range(30)]
    part = ("host", "cpu", "", "mapped files")
    result = examined(history({HOST: [200 * MIB] * 50, LINE: lines, part: [None, 64 * MIB, None] + [64 * MIB] * 47}))
    by_name = {row["name"]: row for row in result.series.iter_rows(named=True)}
    assert (by_name[LINE[-1]]["first_bytes"], by_name[LINE[-1]]["last_bytes"]) == (0, 29 * MIB)
    assert by_name["mapped files"]["least_bytes"] == 64 * MIB


def test_host_memory_beyond_pools_has_its_own_verdict() -> None:
    """Where a pool explains it, it has none."""
    leak = [hour * 10 * MIB for hour in range(60)]
    (host,) = history_verdicts(examined(history({HOST: leak, HOST_LINE: leak})))
    assert host.startswith("host memory grew by 530 MiB in 2 d 5 h (10.0 MiB per hour): /home/me/train.py(31): log")
    pool, line = ("pool", "cpu", "HOST", ""), ("site", "cpu", "HOST", "/home/me/train.py(7): keep")
    (alone,) = history_verdicts(examined(history({HOST: leak, pool: leak, line: leak})))
    assert alone.startswith("cpu (HOST) grew by 530 MiB in 2 d 5 h (10.0 MiB per hour): /home/me/train.py(7): keep")


# --- without an answer ------------------------------------------------------------------------------------------------


def test_too_few_moments_say_so_and_how_to_get_them() -> None:
    """With the time between them."""
    (why,) = examined(history({POOL: [0, 1, 2]})).coverage.missing
    assert why == (
        "the history has 3 moments, one each 1 h; growth shows from 8 behind the first tenth of the time on: "
        "--history=10min keeps them closer together"
    )


def test_no_moment_and_none_that_can_be_read_differ() -> None:
    """Neither is 'nothing grows'."""
    (none,) = examined(RunHistory()).coverage.missing
    assert none.startswith("no moment of the run was kept: the launcher does so with --max-size")
    (unreadable,) = examined(RunHistory(moment_count=3, unreadable_count=3)).coverage.missing
    assert unreadable == "no moment of the history can be read, of 3"


def test_odd_rows_are_left_out() -> None:
    """Files may say anything: other kinds, devices that do not exist, sizes below 0."""
    odd = {("cheese", "npu:0", "PTA", ""): [1] * 20, ("pool", "moon", "PTA", ""): [-5 * MIB] * 20, POOL: [MIB] * 20}
    result = examined(history(odd))
    assert growing(result) == set()
    assert set(result.series["kind"]) == {"pool"}
    assert result.series["least_bytes"].to_list() == [0, MIB]


# --- the report -------------------------------------------------------------------------------------------------------


def test_the_report_fits_the_terminal() -> None:
    """Verdicts, curves and tables of a training that leaks on the device and on the host."""
    leak = [hour * 9 * MIB for hour in range(168)]
    total = [a + b + (2 << 30) for a, b in zip(leak, noise(168), strict=True)]
    host = [(4 << 30) + hour * MIB for hour in range(168)]
    found = history({POOL: total, LINE: leak, OTHER_LINE: noise(168), HOST: host, HOST_LINE: host})
    out = io.StringIO()
    render_history(examined(found), out, width=80, is_coloured=False)
    check_golden("history.txt", out.getvalue())


def test_findings_are_lines() -> None:
    """Each that grows, with what it gained."""
    leak = [hour * MIB for hour in range(100)]
    findings = QUESTIONS["history"].findings
    assert findings is not None
    found = findings(examined(history({POOL: leak, LINE: leak})))
    assert found.select("kind", "site").rows() == [("growth over hours", LINE[-1])]
    assert findings(examined(history({POOL: leak})))["site"].to_list() == [None]
    assert findings(examined(history({POOL: [MIB] * 100}))).is_empty()


def _size(result: HistoryResult, name: str) -> str:
    from msmemscope.units import format_bytes

    return format_bytes(result.series.filter(pl.col("name") == name)["gained_bytes"][0])


def _pace(result: HistoryResult, name: str) -> str:
    from msmemscope.units import format_bytes

    return format_bytes(round(result.series.filter(pl.col("name") == name)["bytes_per_hour"][0]))
