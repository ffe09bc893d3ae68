"""Patterns of wasted memory against the brute-force oracle, and one plain example of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.inefficient.patterns import PatternOptions, find_memory_patterns
from msmemscope.errors import ConfigurationError
from msmemscope.model.events import EventKind
from tests.support import inefficient_oracle
from tests.support.inefficient_oracle import Found, Row
from tests.support.nightly import examples
from tests.support.traces import STRINGS, Program, data_set, traces

COLUMNS = ("kind", "allocation_id", "operators_wasted", "saved_bytes")


@examples(by_day=40)
@given(rows=traces())
def test_the_patterns_and_the_definitions_agree(rows: list[Row]) -> None:
    """The same blocks, with the same operators between and the same bytes saved."""
    result = find_memory_patterns(data_set(rows))
    found = [Found(*row) for row in result.findings.select(COLUMNS).iter_rows()]
    assert len(found) == len(set(found))
    assert set(found) == inefficient_oracle.patterns(rows)


@examples(by_day=40)
@given(rows=traces(most=90), short_life=st.integers(0, 3))
def test_churn_and_its_definition_agree(rows: list[Row], short_life: int) -> None:
    """Without stacks the call site is the allocating operator."""
    result = find_memory_patterns(data_set(rows), PatternOptions(short_life=short_life, least_repetitions=1))
    names = {text: name for name, text in STRINGS.items()}
    found = {
        (row["device"], row["pool"], row["size"], names.get(row["call_site"], 0)): (
            row["repetitions"],
            row["first_allocation_id"],
            row["last_allocation_id"],
        )
        for row in result.churn.iter_rows(named=True)
    }
    assert found == inefficient_oracle.churn(rows, short_life=short_life, least=1)


def kinds_of(program: Program) -> dict[int, list[str]]:
    """The patterns of each block."""
    found = find_memory_patterns(data_set(program.rows)).findings.sort("allocation_id", "kind")
    kinds: dict[int, list[str]] = {}
    for block, kind in found.select("allocation_id", "kind").iter_rows():
        kinds.setdefault(block, []).append(kind)
    return kinds


def test_a_block_that_nobody_touches_is_unused() -> None:
    """Also if it is never freed; scratch memory of one operator is not."""
    program = Program()
    with program.operator():
        unused, kept, used = program.malloc(), program.malloc(), program.malloc()
        scratch = program.malloc()
        program.write(used)
        program.free(scratch)
    program.whole_operator()
    program.free(unused)
    assert kinds_of(program) == {unused: ["unused_allocation"], kept: ["unused_allocation"]}


def test_nothing_is_unused_where_no_access_was_recorded() -> None:
    """Without accesses every block looks untouched."""
    program = Program()
    program.malloc()
    program.whole_operator()
    result = find_memory_patterns(data_set(program.rows))
    assert result.findings.is_empty()


def test_what_was_written_last_and_never_read_is_a_dead_write() -> None:
    """From the last read on, the block is not needed."""
    program = Program()
    with program.operator():
        block = program.malloc(size=64)
        program.write(block)
    with program.operator():
        program.read(block)
    read_end = program.rows[-1].sequence
    with program.operator():
        program.write(block)
    program.whole_operator()
    free = program.free(block)
    row = find_memory_patterns(data_set(program.rows)).findings.row(0, named=True)
    assert (row["kind"], row["operators_wasted"]) == ("dead_write", 2)
    assert (row["interval_begin"], row["interval_end"]) == (read_end, free)


def test_a_dead_block_of_the_same_size_could_have_been_taken() -> None:
    """Not one of another size, and not one that is read later."""
    program = Program()
    with program.operator():
        dead, in_use = program.malloc(size=64), program.malloc(size=32)
        program.write(dead)
        program.write(in_use)
    with program.operator():
        same, other = program.malloc(size=64), program.malloc(size=32)
        program.write(same)
        program.write(other)
        program.read(in_use)
    program.whole_operator()
    program.free(dead)
    with program.operator():
        program.read(same)
        program.read(other)
    program.free(in_use)
    redundant = {block for block, kinds in kinds_of(program).items() if "redundant_allocation" in kinds}
    assert redundant == {same}


def test_the_same_scratch_memory_in_a_loop_is_churn() -> None:
    """Ten rounds are nine repetitions of the first; a long-lived block breaks none of them."""
    program = Program()
    stack = program.stack("/home/user/train.py(12): forward\n")
    program.malloc(size=4096)
    for _ in range(12):
        scratch = program.malloc(size=4096, stack=stack)
        program.whole_operator()
        program.free(scratch)
    result = find_memory_patterns(program.data_set())
    row = result.churn.row(0, named=True)
    assert result.churn.height == 1
    assert (row["repetitions"], row["allocated_bytes"], row["size"]) == (11, 11 * 4096, 4096)
    assert row["call_site"] == "/home/user/train.py(12): forward"
    assert find_memory_patterns(program.data_set(), PatternOptions(least_repetitions=12)).churn.is_empty()


@pytest.mark.parametrize(("life", "pause", "repetitions"), [(2, 2, 3), (3, 2, 0), (2, 3, 0)])
def test_churn_is_short_lived_and_comes_again_soon(life: int, pause: int, repetitions: int) -> None:
    """As many operators as said, inside and between, and no more."""
    program = Program()
    for _ in range(4):
        block = program.malloc()
        program.whole_operator(life)
        program.free(block)
        program.whole_operator(pause)
    churn = find_memory_patterns(program.data_set(), PatternOptions(short_life=2, least_repetitions=1)).churn
    assert churn["repetitions"].sum() == repetitions


@pytest.mark.parametrize(
    ("name", "value"), [("mem_size", -1), ("mem_size", True), ("short_life", "3"), ("least_repetitions", 0)]
)
def test_options_that_mean_nothing_are_refused(name: str, value: object) -> None:
    """The message names the option and the value."""
    with pytest.raises(ConfigurationError, match=name) as caught:
        PatternOptions(**{name: value})  # type: ignore[arg-type]  # what a user may pass
    assert str(value) in str(caught.value)


def test_an_empty_process_has_no_patterns() -> None:
    """And the tables have their columns."""
    result = find_memory_patterns(data_set([]))
    assert result.findings.is_empty()
    assert result.churn.is_empty()
    assert set(COLUMNS) <= set(result.findings.columns)
    assert EventKind.NONE not in result.findings["kind"].to_list()
