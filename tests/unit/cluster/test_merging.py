"""Summaries are merged in any order and any grouping, and come to the same."""

from __future__ import annotations

import functools
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from msmemscope.cluster.answer.job_answer import answer_of
from msmemscope.cluster.answer_json import answer_content
from msmemscope.cluster.capture_task import CaptureOutcome
from msmemscope.cluster.job_summaries import merge_outcomes
from msmemscope.cluster.merging import JobPart, MergeTree, merge, nothing, part_of_summaries
from msmemscope.cluster.summary import SUMMARY_SCHEMA, packed, summaries_of
from msmemscope.errors import InputError
from tests.fakes.rank_summaries import MIB, leak, rank_row, rank_table
from tests.support.nightly import examples


def outcomes(count: int) -> list[CaptureOutcome]:
    """Outcomes of captures. Some captures could not be read, and some are of the same rank."""
    made = []
    for number in range(count):
        if number % 5 == 4:
            made.append(CaptureOutcome(f"/broken/{number}", failure="is empty"))
            continue
        row = rank_row(
            None if number % 7 == 6 else number // 2,
            peak=(number % 3 + 1) * 50 * MIB,
            coordinates={"pipeline": number % 2},
            steps=[10, 20 + number],
            source=f"/job/{number}",
            findings=[leak(number * MIB)] if number % 2 else [],
        )
        made.append(CaptureOutcome(f"/job/{number}", packed(rank_table([row]))))
    return made


def part_of(outcome: CaptureOutcome) -> JobPart:
    """The job's part from one capture."""
    return merge_outcomes([outcome], table=None, done=lambda: None)


def assert_same(left: JobPart, right: JobPart) -> None:
    """All of two parts is equal."""
    assert_frame_equal(left.rows, right.rows)
    assert_frame_equal(left.stacks, right.stacks)
    assert left.failures == right.failures


@examples(by_day=15)
@given(st.integers(0, 12), st.randoms(use_true_random=False))
def test_order_and_grouping_are_nothing(count: int, chance: random.Random) -> None:
    """Merging is associative and commutative: any tree over any order gives the same part, and the same answer."""
    parts = [part_of(outcome) for outcome in outcomes(count)]
    expected = merge(parts)
    chance.shuffle(parts)
    while len(parts) > 1:
        first = parts.pop(chance.randrange(len(parts)))
        second = parts.pop(chance.randrange(len(parts)))
        parts.append(merge([first, second]))
    found = functools.reduce(lambda known, part: merge([known, part]), parts, nothing())
    assert_same(found, expected)
    assert_same(merge_outcomes(outcomes(count), table=None, done=lambda: None), expected)
    assert answer_content(answer_of(found)) == answer_content(answer_of(expected))


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 1100])
def test_a_tree_of_any_depth_has_everything(count: int) -> None:
    """The tree that takes parts in one by one loses none."""
    row = rank_table([rank_row(0)])
    tree = MergeTree()
    for number in range(count):
        tree.add(part_of_summaries(row.with_columns(pl.lit(number, dtype=pl.Int64).alias("rank"))))
    assert tree.result().rows["rank"].to_list() == list(range(count))
    assert tree.result().stacks.height == min(count, 1)


def test_what_travels_comes_back_as_it_was() -> None:
    """Packed and read again, a summary is the same; what is none is refused."""
    table = rank_table([rank_row(3, steps=[1, 2]), rank_row(None)])
    assert_frame_equal(summaries_of([("x", packed(table))]), table)
    with pytest.raises(InputError, match="is no summary"):
        summaries_of([("x", b"\x00" * 100)])
    with pytest.raises(InputError, match="of another version"):
        summaries_of([("x", packed(table.drop("curve")))])
    assert table.schema == SUMMARY_SCHEMA
