"""Ranks that ended before the others are named with the way, the step and what they held; a job that ended together is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.cluster.answer.ends import find_early_ends
from msmemscope.cluster.answer.headlines import headlines
from msmemscope.cluster.answer.job_answer import JobAnswer, answer_of
from msmemscope.cluster.answer.ranks import rank_rows
from msmemscope.cluster.answer_json import answer_content
from msmemscope.cluster.merging import part_of_summaries
from tests.fakes.rank_summaries import MIB, rank_row, rank_table

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 1_000_000_000


def job(*odd: dict[str, Any], count: int = 8, steps: int = 40, **usual: Any) -> JobAnswer:
    """A job whose ranks ran to the same step; the last ones have other values."""
    every = {"end": "orderly", "end_ns": 100 * SECOND, "step_source": "optimizer.step", "steps_ended": steps, **usual}
    rows = [rank_row(rank, **{**every, **values}) for rank, values in enumerate([{}] * (count - len(odd)) + [*odd])]
    return answer_of(part_of_summaries(rank_table(rows)))


def lines(found: JobAnswer) -> list[str]:
    """The first lines."""
    return [line.text for line in headlines(found)]


def test_a_job_that_ended_together_is_not_remarkable() -> None:
    """Neither in an orderly way, nor where nobody saw the end, nor where somebody ended it."""
    assert lines(job()) == []
    assert lines(job(end="lost", end_ns=None)) == []
    assert lines(job(end="killed", end_signal="SIGTERM")) == []
    assert lines(job(end="killed", end_signal="SIGKILL")) == []


def test_a_rank_that_was_killed_is_named_first() -> None:
    """With its host, its step, the others' step and its memory."""
    killed = {
        "node": "node031", "end": "killed", "end_signal": "SIGKILL", "steps_ended": 19, "end_ns": 70 * SECOND,
        "held_bytes": 64 * MIB, "capacity_bytes": 1024 * MIB, "group_bytes": 7 * MIB, "group_limit_bytes": 8 * MIB,
    }  # fmt: skip
    (line,) = lines(job(killed))
    assert line == (
        "ended early: rank 7 (node031) was ended by SIGKILL in step 20, the other 7 ran to step 40 and ended up to 30 seconds "
        "later; it had 64.0 MiB of npu:0, headroom 924 MiB, its control group used 7.00 MiB of 8.00 MiB"
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"end": "lost", "end_ns": None}, "was killed or left without an orderly end in step 20, the other 7 ran to step 40"),
        ({"end_status": 3}, "ended with status 3 in step 20, the other 7 ran to step 40"),
        ({"end": "running", "end_ns": None}, "still runs in step 20, the other 7 ran to step 40"),
        (
            {"end": "killed", "end_signal": "SIGKILL", "end_limit_bytes": 512 * MIB},
            "was ended by the kernel for lack of host memory (the control group may have 512 MiB) in step 20, the other 7",
        ),
    ],
)  # fmt: skip
def test_each_way_has_its_words(values: dict[str, Any], said: str) -> None:
    """As far as anybody saw it."""
    (line,) = lines(job({"steps_ended": 19, **values}))
    assert line.startswith(f"ended early: rank 7 {said}")


def test_others_that_waited_came_no_further() -> None:
    """A collective waits for the rank that is gone, until somebody ends the rest."""
    crash = {"end": "killed", "end_signal": "SIGSEGV", "end_ns": 70 * SECOND}
    (line,) = lines(job(crash, steps=19, end="killed", end_signal="SIGTERM"))
    assert line.startswith(
        "ended early: rank 7 was ended by SIGSEGV in step 20, the other 7 came no further and ended up to 30 seconds later"
    )


def test_where_all_fail_the_first_is_named() -> None:
    """The others fail because their partner is gone, each with the status of its own exception."""
    (line,) = lines(job({"end_ns": 70 * SECOND}, steps=19, end_status=1))
    assert line.startswith("ended early: rank 7 ended with status 1 in step 20, the other 7 came no further")


def test_ranks_of_one_end_are_one_line() -> None:
    """Eight of sixteen that were lost in the same step."""
    lost = {"end": "lost", "end_ns": None, "steps_ended": 19, "node": "node004"}
    (line,) = lines(job(*[lost] * 4, count=16))
    assert line.startswith(
        "ended early: ranks 12-15 (node004) were killed or left without an orderly end in step 20, the other 12 ran to step 40"
    )


@pytest.mark.parametrize(
    "values",
    [
        {"steps_ended": 39},
        {"steps_ended": 37},
        {"steps_ended": 39, "end": "lost", "end_ns": None},
        {"steps_ended": 5, "step_source": "the outermost module's forward"},
        {"steps_ended": 19, "end": None},
        {"end": "lost", "end_ns": None},
    ],
)
def test_small_differences_are_none(values: dict[str, Any]) -> None:
    """A step less, a little less data, a server with fewer requests, a dump that says nothing of its end."""
    assert lines(job(values)) == []


def test_roles_are_compared_with_themselves() -> None:
    """A reference model has fewer steps than the actor."""
    rows = [
        rank_row(rank, role=role, end="orderly", step_source="optimizer.step", steps_ended=steps)
        for rank, role, steps in [(0, "actor", 40), (1, "actor", 40), (2, "ref", 10), (3, "ref", 10)]
    ]
    assert find_early_ends(rank_rows(part_of_summaries(rank_table(rows)).rows)).is_empty()


def test_json_has_them() -> None:
    """With the ranks as names."""
    content = answer_content(job({"steps_ended": 19, "end": "lost", "end_ns": None}))
    (found,) = content["early_ends"]
    assert (found["ranks"], found["step"], found["others_ended"], found["end"]) == (["rank 7"], 20, 40, "lost")


def on_nodes(more: int, *, share: int = 8, per_node: int = 8) -> list[str]:
    """The first lines of a job on five nodes; on one of them some ranks have more."""
    rows = [
        rank_row(
            rank,
            node=f"node{rank // per_node:03}",
            peak=100 * MIB + (more if rank // per_node == 3 and rank % per_node < share else 0),
        )
        for rank in range(40)
    ]
    return lines(answer_of(part_of_summaries(rank_table(rows))))


def test_outliers_of_one_host_are_one_line() -> None:
    """One cause, one line, with the host and the line of the program."""
    (line,) = on_nodes(32 * MIB)
    assert line == (
        "outlier: node003: 8 of 8 ranks (ranks 24-31) have 132 MiB at their peaks, 32.0 MiB more than the median of their peers, "
        "most of it PTA@model@weight (+32.0 MiB), at train.py(1): build (+32.0 MiB)"
    )
    (line,) = on_nodes(-50 * MIB, share=7)
    assert line.startswith(
        "outlier: node003: 7 of 8 ranks (ranks 24-30) have 50.0 MiB at their peaks, 50.0 MiB less than"
    )


def test_a_few_ranks_of_a_host_are_named_by_themselves() -> None:
    """The host is not what they have in common."""
    assert [line.partition(" has ")[0] for line in on_nodes(32 * MIB, share=3)] == [
        "outlier: rank 24", "outlier: rank 25", "outlier: rank 26",
    ]  # fmt: skip


def test_a_place_along_an_axis_and_a_kind_of_device_are_named_too() -> None:
    """Tensor ranks and devices of another size."""
    rows = [
        rank_row(rank, peak=(150 if rank % 4 == 2 else 100) * MIB, coordinates={"tensor": rank % 4, "data": rank // 4})
        for rank in range(32)
    ]
    (line,) = lines(answer_of(part_of_summaries(rank_table(rows))))
    assert line.startswith("outlier: tensor 2: 8 of 8 ranks (ranks 2, 6, 10, 14")
    rows = [
        rank_row(rank, peak=(150 if rank in {1, 9, 17} else 100) * MIB, capacity_bytes=(64 if rank in {1, 9, 17} else 32) << 30)
        for rank in range(32)
    ]  # fmt: skip
    (line,) = lines(answer_of(part_of_summaries(rank_table(rows))))
    assert line.startswith("outlier: devices of 64.0 GiB: 3 of 3 ranks (ranks 1, 9, 17) have 150 MiB")


def test_a_kind_of_card_and_a_version_are_named_too() -> None:
    """The name of the card says more than its size, which all cards of the kind share."""

    def line_of(values: Callable[[bool], dict[str, Any]]) -> str:
        rows = [
            rank_row(rank, peak=(150 if rank in {1, 9, 17} else 100) * MIB, **values(rank in {1, 9, 17}))
            for rank in range(32)
        ]
        (line,) = lines(answer_of(part_of_summaries(rank_table(rows))))
        return line

    cards = line_of(
        lambda is_other: {"card": "B2" if is_other else "B1", "capacity_bytes": (64 if is_other else 32) << 30}
    )
    assert cards.startswith("outlier: B2: 3 of 3 ranks (ranks 1, 9, 17) have 150 MiB")
    software = line_of(lambda is_other: {"software": ["python 3.11.7", "torch 2.12.0" if is_other else "torch 2.13.0"]})
    assert software.startswith("outlier: torch 2.12.0: 3 of 3 ranks (ranks 1, 9, 17) have 150 MiB")
