"""Inefficient memory against the brute-force oracle, and the cases that the definitions were written for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.inefficient.finding_rows import by_call_site
from msmemscope.analysis.inefficient.inefficient import (
    KIND_WORDS,
    InefficientOptions,
    InefficientResult,
    find_inefficient,
)
from msmemscope.errors import ConfigurationError
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.operators import find_operators
from tests.support import inefficient_oracle
from tests.support.inefficient_oracle import Found, Row
from tests.support.nightly import examples
from tests.support.traces import Program, data_set, traces


def found_by(result: InefficientResult) -> list[Found]:
    """The findings of the analysis, in the words of the oracle."""
    columns = ("kind", "allocation_id", "operators_wasted", "saved_bytes")
    return [Found(*row) for row in result.findings.select(columns).iter_rows()]


@examples(by_day=40)
@given(rows=traces(), threshold=st.integers(1, 4), least_size=st.sampled_from([0, 0, 30]))
def test_the_analysis_and_the_definitions_agree(rows: list[Row], threshold: int, least_size: int) -> None:
    """The same blocks, in the same ways, with the same operators between and the same bytes saved."""
    result = find_inefficient(data_set(rows), InefficientOptions(mem_size=least_size, idle_threshold=threshold))
    found = found_by(result)
    assert len(found) == len(set(found))
    assert set(found) == inefficient_oracle.inefficient(rows, threshold=threshold, least_size=least_size)


@examples(by_day=40)
@given(rows=traces(), threshold=st.integers(1, 3))
def test_peaks_without_all_findings_agree(rows: list[Row], threshold: int) -> None:
    """The peak of each pool with every block absent while it is not needed."""
    result = find_inefficient(data_set(rows), InefficientOptions(idle_threshold=threshold))
    times = inefficient_oracle.absences(rows, threshold=threshold)
    trace = inefficient_oracle.Trace(rows)
    places = {(trace.blocks[block].malloc.device, trace.blocks[block].malloc.pool) for block in times}
    assert {(pool.device, pool.pool) for pool in result.pools} == places
    for pool in result.pools:
        block = next(
            block
            for block in trace.blocks.values()
            if (block.malloc.device, block.malloc.pool) == (pool.device, pool.pool)
        )
        assert pool.peak_bytes == trace.peak(block, {})
        assert pool.peak_if_fixed_bytes == trace.peak(block, times)


def kinds_of(program: Program, **options: Any) -> dict[int, str]:
    """The kinds of each block, as they are written into dumps."""
    result = find_inefficient(program.data_set(), InefficientOptions(**options))
    return dict(result.kinds_by_block().iter_rows())


def test_what_its_own_operator_writes_is_no_first_use() -> None:
    """Written where it was allocated, read after a free: the result of that operator came too early."""
    program = Program()
    other = program.malloc()
    with program.operator():
        block = program.malloc()
        program.write(block)
    with program.operator():
        program.free(other)
    with program.operator():
        program.read(block)
    assert kinds_of(program) == {block: "early_allocation"}


def test_allocated_before_another_is_freed_is_early() -> None:
    """The seeds' definition, and what a finding says about it."""
    program = Program()
    stack = program.stack("/site-packages/torch/nn/modules/linear.py(125): forward\n/home/user/train.py(7): <module>\n")
    other = program.malloc(size=100)
    with program.operator(name=1):
        block = program.malloc(size=64, stack=stack)
    with program.operator(name=2):
        program.free(other)
    program.whole_operator(name=3)
    with program.operator(name=4):
        start = program.rows[-1].sequence
        program.write(block)
    result = find_inefficient(program.data_set())
    row = result.findings.row(0, named=True)
    assert result.findings.height == 1
    assert (row["kind"], row["allocation_id"], row["size"]) == ("early_allocation", block, 64)
    assert (row["operators_wasted"], row["byte_operators"]) == (2, 128)
    assert (row["saved_bytes"], row["interval_begin"], row["interval_end"]) == (64, block, start)
    assert (row["from_operator"], row["to_operator"]) == ("aten.add", "aten.copy_")
    assert (row["allocating_operator"], row["allocating_operator_index"]) == ("aten.add", 1)
    assert (row["first_operator"], row["first_operator_sequence"], row["first_operator_index"]) == (
        "aten.copy_",
        start,
        4,
    )
    assert (row["freeing_operator"], row["freeing_operator_index"]) == (None, None)
    assert row["call_site"] == "/home/user/train.py(7)"
    assert result.pools[0].peak_bytes == 164
    assert result.pools[0].peak_if_fixed_bytes == 100


def test_the_operator_that_uses_a_block_first_needs_it_from_its_begin() -> None:
    """An allocation before the access exists together with the block: that peak stays."""
    program = Program()
    other = program.malloc(size=100)
    block = program.malloc(size=64)
    with program.operator():
        program.free(other)
    with program.operator():
        program.malloc(size=90)
        program.write(block)
    row = find_inefficient(program.data_set()).findings.row(0, named=True)
    # 164 before; without the block 100, and 154 where it is needed.
    assert (row["kind"], row["allocation_id"], row["saved_bytes"]) == ("early_allocation", block, 10)


def test_the_operator_that_uses_a_block_last_needs_it_to_its_end() -> None:
    """An allocation after the access exists together with the block: that peak stays."""
    program = Program()
    block = program.malloc(size=64)
    with program.operator():
        program.read(block)
        inner = program.malloc(size=90)
        program.free(inner)
    with program.operator():
        program.malloc(size=100)
    with program.operator(name=2):
        pass
    program.free(block)
    row = find_inefficient(program.data_set()).findings.row(0, named=True)
    assert (row["kind"], row["allocation_id"], row["saved_bytes"]) == ("late_deallocation", block, 10)
    assert (row["freeing_operator"], row["freeing_operator_index"], row["to_operator"]) == ("aten.mm", 3, "aten.mm")


@pytest.mark.parametrize(
    "free",
    [{"device": 1}, {"pool": Pool.ATB}, {"is_shadow": True}],
    ids=["other device", "other pool", "not at that time"],
)
@pytest.mark.parametrize("is_inside", [True, False])
def test_only_a_free_of_the_same_pool_makes_early(free: dict[str, Any], *, is_inside: bool) -> None:
    """Memory that is freed elsewhere could not have served."""
    place = {key: value for key, value in free.items() if key in {"device", "pool"}}
    program = Program()
    other = program.malloc(**place)
    block = program.malloc()
    with program.operator():
        if is_inside:
            program.free(other, is_shadow=free.get("is_shadow", False))
    if not is_inside:
        program.free(other, is_shadow=free.get("is_shadow", False))
    with program.operator():
        program.read(block)
    assert kinds_of(program) == {}


def test_a_free_of_python_belongs_to_the_operator_before_it() -> None:
    """`del` after an operator makes early what was allocated before that operator, and not what it allocated."""
    program = Program()
    others = [program.malloc() for _ in range(2)]
    with program.operator():
        before = program.malloc()
    program.free(others[0])
    with program.operator(device=1):
        pass
    program.free(others[1])
    with program.operator(name=2):
        result = program.malloc()
        program.read(result)
    program.free(result)
    with program.operator(name=3):
        after = program.malloc()
    program.whole_operator()
    with program.operator(name=4):
        program.read(before)
        program.read(after)
    assert kinds_of(program) == {before: "early_allocation"}


def test_an_allocation_outside_of_operators_has_a_number_of_its_own() -> None:
    """It makes late what was used last before it, also right before; not what is freed before it."""
    program = Program()
    block, other, third = program.malloc(), program.malloc(), program.malloc()
    with program.operator():
        program.read(block)
    with program.operator():
        program.read(other)
        program.read(third)
    program.free(third)
    program.malloc()
    program.free(block)
    program.free(other)
    assert kinds_of(program) == {block: "late_deallocation", other: "late_deallocation"}


def test_frees_outside_of_operators_have_numbers_of_their_own() -> None:
    """One between the allocation and the first use makes early, whatever operators are there."""
    program = Program()
    other = program.malloc()
    with program.operator():
        block = program.malloc()
    program.free(other)
    with program.operator():
        program.write(block)
    assert kinds_of(program) == {block: "early_allocation"}


def test_freed_by_python_right_after_its_last_use_is_not_late() -> None:
    """The place of a free between operators is before those that begin after it."""
    program = Program()
    with program.operator():
        block = program.malloc()
        program.write(block)
    with program.operator():
        program.read(block)
        program.malloc()
    program.free(block)
    program.whole_operator()
    assert kinds_of(program) == {}


@pytest.mark.parametrize("more", [0, 1])
def test_kept_while_another_is_allocated_is_late(more: int) -> None:
    """One operator between the last use and a free of Python is enough, if it allocates."""
    program = Program()
    with program.operator():
        block = program.malloc(size=64)
        program.write(block)
    end = program.rows[-1].sequence
    with program.operator():
        program.malloc(size=32)
    program.whole_operator(more)
    free = program.free(block)
    findings = find_inefficient(program.data_set()).findings
    row = findings.row(0, named=True)
    assert (row["kind"], row["operators_wasted"], row["saved_bytes"]) == ("late_deallocation", 1 + more, 32)
    assert (row["interval_begin"], row["interval_end"]) == (end, free)


@pytest.mark.parametrize(("pause", "kinds"), [(3, {}), (4, {1: "temporary_idleness"})])
def test_idleness_is_more_operators_than_the_threshold(pause: int, kinds: dict[int, str]) -> None:
    """Exactly as many are not enough."""
    program = Program()
    block = program.malloc()
    with program.operator():
        program.write(block)
    program.whole_operator(pause)
    with program.operator():
        program.read(block)
    assert kinds_of(program, idle_threshold=3) == kinds


def test_the_longest_pause_of_a_block_counts_once() -> None:
    """Three pauses over the threshold, one finding."""
    program = Program()
    block = program.malloc()
    for pause in (2, 5, 4, 0):
        with program.operator():
            program.read(block)
        program.whole_operator(pause)
    findings = find_inefficient(program.data_set(), InefficientOptions(idle_threshold=1)).findings
    assert findings.select("kind", "operators_wasted").rows() == [("temporary_idleness", 5)]


def test_nested_operators_and_those_of_other_devices_are_not_counted() -> None:
    """Only outermost operators of the device of the block lie between."""
    program = Program()
    block = program.malloc()
    with program.operator():
        program.write(block)
    with program.operator(name=1), program.operator(name=1), program.operator(name=2):
        pass
    program.whole_operator(5, device=1)
    with program.operator():
        program.read(block)
    assert kinds_of(program, idle_threshold=1) == {}


def test_an_operator_that_threw_does_not_swallow_the_rest() -> None:
    """Its end is missing; what follows on the thread are operators of their own."""
    program = Program()
    block = program.malloc()
    with program.operator():
        program.write(block)
    program.add(EventKind.ATEN_START, name=4, pool=Pool.NONE)
    program.whole_operator(3)
    with program.operator():
        program.read(block)
    findings = find_inefficient(program.data_set(), InefficientOptions(idle_threshold=3)).findings
    assert findings.select("kind", "operators_wasted").rows() == [("temporary_idleness", 4)]


def test_what_encloses_an_operator_without_an_end_is_no_operator() -> None:
    """Only whole operators lie in an operator; the end of another one is not taken for the missing end."""
    program = Program()
    block = program.malloc()
    with program.operator():
        program.write(block)
    with program.operator(name=1), program.operator(name=2):
        program.add(EventKind.ATEN_START, name=3, pool=Pool.NONE)
    with program.operator():
        program.read(block)
    findings = find_inefficient(program.data_set(), InefficientOptions(idle_threshold=2)).findings
    assert findings["operators_wasted"].to_list() == [3]


def test_an_end_without_a_start_ends_nothing() -> None:
    """The start was dropped, or is of another thread or another kind of operator."""
    program = Program(thread=11)
    other = Program(thread=12, rows=program.rows)
    block = program.malloc()
    with program.operator():
        program.write(block)
    program.add(EventKind.ATEN_START, name=2, pool=Pool.NONE)
    program.add(EventKind.ATB_END, name=2, pool=Pool.NONE)
    program.add(EventKind.ATEN_START, name=3, pool=Pool.NONE)
    inside = program.add(EventKind.MALLOC, size=8)
    other.add(EventKind.ATEN_END, name=3, pool=Pool.NONE)
    after = other.add(EventKind.MALLOC, size=8)
    program.free(block)
    operators = find_operators(program.data_set().events)
    assert operators.begin_rows.tolist() == [1, 4, 6]
    assert operators.end_rows.tolist() == [3, 5, len(program.rows)]
    assert operators.of_row[[inside - 1, after - 1]].tolist() == [2, -1]


def test_operators_of_other_threads_lie_between_too() -> None:
    """Nesting is a matter of one thread: what runs meanwhile elsewhere is no part of an operator."""
    main = Program(thread=11)
    backward = Program(thread=12, rows=main.rows)
    block = main.malloc()
    with main.operator():
        main.write(block)
    with main.operator():
        backward.whole_operator(3)
    with main.operator():
        main.read(block)
    findings = find_inefficient(main.data_set(), InefficientOptions(idle_threshold=3)).findings
    assert findings["operators_wasted"].to_list() == [4]


def all_kinds() -> Program:
    """One block that is early, idle and late."""
    program = Program()
    other, block = program.malloc(size=10), program.malloc(size=64)
    with program.operator():
        program.free(other)
    for _ in range(2):
        with program.operator():
            program.read(block)
        program.whole_operator(2)
    with program.operator():
        program.malloc(size=8)
    program.whole_operator()
    program.free(block)
    return program


def test_a_block_can_be_inefficient_in_several_ways() -> None:
    """Each is a finding; the attribute has them in their order."""
    program = all_kinds()
    assert kinds_of(program, idle_threshold=1) == {2: "early_allocation,late_deallocation,temporary_idleness"}
    assert kinds_of(program, idle_threshold=1, inefficient_type="late_deallocation") == {2: "late_deallocation"}
    chosen = ["temporary_idleness", "early_allocation"]
    assert kinds_of(program, idle_threshold=1, inefficient_type=chosen) == {2: "early_allocation,temporary_idleness"}
    assert kinds_of(program, idle_threshold=1, mem_size=64) == {2: ",".join(KIND_WORDS)}
    assert kinds_of(program, idle_threshold=1, mem_size=65) == {}


def test_findings_of_one_line_are_summed_up() -> None:
    """By call site and kind, the worst first."""
    program = Program()
    stack = program.stack("/home/user/train.py(12): forward\n")
    for size in (16, 64, 32):
        with program.operator():
            block = program.malloc(size=size, stack=stack)
            program.write(block)
        with program.operator(name=2):
            program.malloc(size=8)
        program.whole_operator()
        program.free(block)
    table = by_call_site(find_inefficient(program.data_set()).findings)
    row = table.row(0, named=True)
    assert table.height == 1
    assert (row["blocks"], row["largest_bytes"], row["byte_operators"]) == (3, 64, 224)
    assert (row["call_site"], row["operators_wasted"]) == ("/home/user/train.py(12): forward", 2)


def test_what_could_not_be_seen_is_said() -> None:
    """Without operators or accesses the result would be silently empty."""
    program = Program()
    program.malloc()
    missing = find_inefficient(program.data_set()).coverage.missing
    assert missing == ("no operators were recorded", "no accesses were recorded")
    with program.operator():
        program.add(EventKind.ACCESS_READ, block=999)
    assert find_inefficient(program.data_set()).coverage.missing == ("no access names a known block",)
    program.write(program.malloc())
    found = find_inefficient(program.data_set()).coverage
    assert found.is_answered
    assert "1 access names no known block: left out" in found.limits
    assert not find_inefficient(data_set([])).coverage.is_answered


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mem_size", -1),
        ("mem_size", True),
        ("mem_size", 1.5),
        ("idle_threshold", 0),
        ("idle_threshold", "3000"),
        ("inefficient_type", "early"),
        ("inefficient_type", []),
        ("inefficient_type", ["late_deallocation", "early"]),
        ("inefficient_type", 3),
    ],
)
def test_options_that_mean_nothing_are_refused(name: str, value: object) -> None:
    """The message names the option, the value and what is accepted."""
    with pytest.raises(ConfigurationError, match=name) as caught:
        InefficientOptions(**{name: value})  # type: ignore[arg-type]  # what a user may pass
    shown = value[-1] if isinstance(value, Sequence) and value and not isinstance(value, str) else value
    assert str(shown) in str(caught.value)
    assert "accepted" in str(caught.value)
