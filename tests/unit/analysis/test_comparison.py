"""Two runs side by side: pairs, elements without partners, peaks, steps, gates, the CSV and the report."""

from __future__ import annotations

import dataclasses
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.compare.comparison import COMPARISON_SCHEMA, compare
from msmemscope.analysis.compare.gates import parse_gate
from msmemscope.configuration import Level
from msmemscope.errors import UsageError
from msmemscope.formats.dump.comparison_csv import write_comparison
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.reports.comparison_report import comparison_json, largest_differences, render_comparison
from tests.fakes.event_rows import dataset_of, end, free, launch, malloc, start
from tests.support.nightly import examples

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording import Recording


def run_of(operators: list[tuple[int, int]], **fields: Any) -> Recording:
    """A run of operators, each with its name and what it allocates."""
    rows: list[dict[str, Any]] = []
    for name, size in operators:
        rows += [start(name, **fields), *([malloc(size, **fields)] if size else []), end(name, **fields)]
    return dataset_of(rows)


def test_pairs_and_elements_without_partner() -> None:
    """Base before compare where both lack a partner; a missing side counts as 0."""
    comparison = compare(run_of([(1, 100), (2, 10), (3, 5)]), run_of([(1, 150), (3, 5), (1, 7), (1, 0)]))
    assert comparison.rows.schema == COMPARISON_SCHEMA
    columns = ["event", "name", "device", "base_bytes", "compare_bytes", "difference_bytes"]
    assert comparison.to_polars().select(columns).rows() == [
        ("OP_LAUNCH", "add", 0, 100, 150, 50),
        ("OP_LAUNCH", "mul", 0, 10, None, -10),
        ("OP_LAUNCH", "sub", 0, 5, 5, 0),
        ("OP_LAUNCH", "add", 0, None, 7, 7),
        ("OP_LAUNCH", "add", 0, None, 0, 0),
    ]
    (peak,) = comparison.peaks
    assert (peak.device, peak.base_bytes, peak.compare_bytes, peak.difference_bytes) == (0, 115, 162, 47)
    assert peak.ratio == pytest.approx(47 / 115)


def test_devices_are_compared_each_for_itself() -> None:
    """Also those that only one run has."""
    comparison = compare(run_of([(1, 100)]), run_of([(1, 100)], device=1))
    assert comparison.rows.select("device", "base_bytes", "compare_bytes").rows() == [(0, 100, None), (1, None, 100)]
    assert [(peak.device, peak.ratio) for peak in comparison.peaks] == [(0, -1.0), (1, float("inf"))]


def test_kernels_and_nothing() -> None:
    """The level chooses; what is not there is said."""
    base = dataset_of([launch(1), malloc(10), launch(2)])
    assert compare(base, base, {Level.KERNEL}).rows["base_bytes"].to_list() == [0, 10]
    nothing = compare(base, base)
    assert nothing.rows.is_empty()
    assert nothing.coverage.missing == ("base: no operators were recorded", "compare: no operators were recorded")
    alone = compare(base, dataset_of([start(1), malloc(10), end(1)]))
    assert alone.coverage.missing == ("base: no operators were recorded",)


def test_steps() -> None:
    """A side can be a step; what was in use when it began belongs to its peak."""
    step = {"kind": EventKind.STEP}
    run = dataset_of([
        malloc(1000), {**step, "size": 1},
        start(1), malloc(10), end(1), {**step, "size": 2},
        start(1), malloc(30), end(1), start(2), free(4, 10), end(2), {**step, "size": 3},
    ])  # fmt: skip
    comparison = compare(run, run, base_step=2, other_step=3)
    assert comparison.rows.select("name", "base_bytes", "compare_bytes").rows() == [("add", 10, 30), ("mul", None, -10)]
    assert (comparison.peaks[0].base_bytes, comparison.peaks[0].compare_bytes) == (1010, 1040)
    with pytest.raises(UsageError, match=r"no such step: 'step=9' \(accepted: 1 to 3\)"):
        compare(run, run, base_step=9)
    with pytest.raises(UsageError, match="it has no steps at all"):
        compare(run_of([(1, 1)]), run, base_step=1)


def test_differences_sum_to_those_of_the_totals_and_of_the_peaks() -> None:
    """Also of what no operator allocates or frees; what happens outside of a step is no part of it."""
    step = {"kind": EventKind.STEP}
    base = dataset_of([
        malloc(1000), {**step, "size": 1}, start(1), malloc(10, name_id=1), launch(1), end(1), malloc(5), {**step, "size": 2},
        free(1, 1000), free(4, 10),
    ])  # fmt: skip
    other = dataset_of([
        malloc(1000), {**step, "size": 1}, start(1), malloc(70, name_id=1), launch(1), end(1), malloc(300), free(7, 300),
        {**step, "size": 2}, free(1, 1000, flags=EventFlag.SHADOW),
    ])  # fmt: skip
    for levels in ({Level.OP}, {Level.KERNEL}):
        comparison = compare(base, other, levels, base_step=2, other_step=2)
        groups = largest_differences(comparison)
        assert groups["base_bytes"].sum() == 15
        assert groups["compare_bytes"].sum() == 70
        assert groups["difference_bytes"].sum() == 55
        assert comparison.rows["compare_bytes"].sum() == 70
        assert (comparison.peaks[0].base_bytes, comparison.peaks[0].compare_bytes) == (1015, 1370)
        parts = comparison.peak_parts
        assert parts.select("name", "base_bytes", "compare_bytes", "difference_bytes").rows() == [
            (None, 1005, 1300, 295),
            ("add", 10, 70, 60),
        ]
        out = io.StringIO()
        render_comparison(comparison, out, width=120, is_coloured=False)
        assert "Memory at the peaks of npu:0, +355 bytes" in out.getvalue()
    assert [(one.base_bytes, one.compare_bytes) for one in compare(base, other, {Level.OP}).remainders] == [(-5, 0)]


def test_kernels_of_a_queue() -> None:
    """Launches of a thread that does nothing else are late: a line says how to record them in order."""
    in_order = dataset_of([start(1), malloc(10), launch(1), end(1)])
    queued = dataset_of([start(1), malloc(10), launch(1, thread_id=7), end(1)])
    assert compare(in_order, queued).remarks == ()
    (remark,) = compare(in_order, queued, {Level.KERNEL}).remarks
    assert remark.startswith("compare: a thread of its own launched 1 of the kernels late")
    assert remark.endswith("record with TASK_QUEUE_ENABLE=0")


sequences = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 100)), max_size=25)


@examples(by_day=25)
@given(sequences, sequences)
def test_against_dynamic_programming(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    """As few elements without partners as there can be, each side in its order, and the same totals."""
    rows = compare(run_of(first), run_of(second)).rows
    assert rows["base_bytes"].drop_nulls().to_list() == [size for _, size in first]
    assert rows["compare_bytes"].drop_nulls().to_list() == [size for _, size in second]
    assert rows["difference_bytes"].sum() == sum(size for _, size in second) - sum(size for _, size in first)
    without = rows["base_bytes"].null_count() + rows["compare_bytes"].null_count()
    table = np.zeros((len(first) + 1, len(second) + 1), dtype=int)
    for row, (name, _) in enumerate(first):
        for column, (other, _) in enumerate(second):
            longest = table[row, column] + 1 if name == other else max(table[row, column + 1], table[row + 1, column])
            table[row + 1, column + 1] = longest
    assert without == len(first) + len(second) - 2 * table[-1, -1]


@pytest.mark.parametrize(
    "text, fails",
    [
        ("peak>40%", True), ("peak > 41%", False), ("peak>46", True), ("peak>47", False), ("peak>1K", False),
        ("net>40%", True), ("net>46", True), ("net>1M", False),
    ],
)  # fmt: skip
def test_gates(text: str, fails: bool) -> None:  # noqa: FBT001 - a column of the table above
    """Growth in percent or as a size; exactly as much is accepted."""
    comparison = compare(run_of([(1, 115)]), run_of([(1, 162)]))
    lines = parse_gate(text, option="--fail-on").failures(comparison)
    assert bool(lines) is fails
    if fails:
        assert "npu:0 grew by 47 bytes, from 115 bytes to 162 bytes" in lines[0]


@pytest.mark.parametrize("text", ["", "peak", "peak<5%", "peak>", "peak>five", "total>5%", "peak>5%%", "peak>-5"])
def test_gates_that_are_none(text: str) -> None:
    """The condition, and examples of what is accepted."""
    with pytest.raises(UsageError) as caught:
        parse_gate(text, option="--fail-on")
    assert caught.value.option == "--fail-on"
    assert caught.value.accepted


def test_the_csv(tmp_path: Path) -> None:
    """Two header lines; N/A for the side that lacks an element; names that a spreadsheet would run are marked as text."""
    comparison = compare(run_of([(1, 100), (2, 10)]), run_of([(1, 150)]))
    rows = comparison.rows.with_columns(name=comparison.rows["name"].replace({"mul": "=a,b"}))
    changed = dataclasses.replace(comparison, rows=rows)
    first, second = write_comparison(changed, tmp_path), write_comparison(changed, tmp_path)
    assert first != second, "nothing is overwritten"
    assert first.parent == tmp_path / "compare"
    assert first.read_text() == (
        ",,,Base,Compare\n"
        "Event,Name,Device Id,Allocated Memory(byte),Allocated Memory(byte),Diff Memory(byte)\n"
        "OP_LAUNCH,add,0,100,150,50\n"
        'OP_LAUNCH,"\'=a,b",0,10,N/A,-10\n'
    )


@pytest.mark.parametrize("width", [80, 200])
def test_the_report(width: int) -> None:
    """Peaks, then names with their sums; no line is wider than the terminal, except for what can be copied."""
    out = io.StringIO()
    render_comparison(
        compare(run_of([(1, 100), (1, 100), (2, 10)]), run_of([(1, 150)])), out, width=width, is_coloured=False
    )
    text = out.getvalue()
    assert text.startswith("Peak on npu:0: -60 bytes, -28.6%")
    assert "Compared: 1 pair, 2 only in base, 0 only in compare" in text
    assert "peak on npu:0: 210 bytes in base, 150 bytes in compare (-60 bytes, -28.6%)" in text
    lines = text.splitlines()
    (add,) = [line for line in lines if " add" in line]
    assert add.split()[:7] == ["-50", "bytes", "200", "bytes", "150", "bytes", "2"]
    (mul,) = [line for line in lines if " mul" in line]
    assert "-10 bytes" in mul
    assert all(len(line) <= width for line in lines)
    assert '"difference_bytes": -60' in comparison_json(compare(run_of([(1, 210)]), run_of([(1, 150)])))
    same = io.StringIO()
    render_comparison(compare(run_of([(1, 1)]), run_of([(1, 1)])), same, width=width, is_coloured=False)
    assert "Operators and kernels allocated and freed alike while they ran" in same.getvalue()
