"""The answer about a job names outliers, axes, forecasts and findings of many ranks, in jobs with known faults."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from msmemscope.cluster.answer.forecast import trend
from msmemscope.cluster.answer.headlines import headlines
from msmemscope.cluster.answer.job_answer import JobAnswer, answer_of
from msmemscope.cluster.answer_json import answer_content
from msmemscope.cluster.answer_page import answer_page
from msmemscope.cluster.answer_text import render_answer
from msmemscope.cluster.merging import JobPart, merge, nothing, part_of_summaries
from tests.fakes.rank_summaries import MIB, leak, rank_row, rank_table

if TYPE_CHECKING:
    from collections.abc import Sequence

GIB = 1 << 30


def answer(rows: Sequence[dict[str, Any]], *, capacity: int | None = None) -> JobAnswer:
    """The answer about a job of these ranks."""
    return answer_of(part_of_summaries(rank_table(rows)), capacity_bytes=capacity)


def lines(found: JobAnswer) -> list[str]:
    """The first lines."""
    return [line.text for line in headlines(found)]


def report(found: JobAnswer) -> str:
    """The text on the terminal."""
    out = io.StringIO()
    render_answer(found, out, width=100)
    return out.getvalue()


def test_ranks_that_are_alike_are_not_remarkable() -> None:
    """Small differences, and as many ranks as one likes: nothing is named."""
    chance = random.Random(7)  # noqa: S311 - the same numbers each time
    found = answer([rank_row(rank, peak=GIB + chance.randrange(5 * MIB)) for rank in range(200)])
    assert lines(found) == []
    assert report(found).startswith("nothing found in 200 ranks: ")


def test_one_rank_with_more_is_named_with_its_cause() -> None:
    """Its surplus, its owner and its line."""
    more: dict[str, Any] = {
        "owners": [{"owner": "PTA@model@weight", "bytes": 100 * MIB, "blocks": 1}, {"owner": "PTA@model@activation", "bytes": 60 * MIB, "blocks": 1}],
        "sites": [
            {"hash": "aa", "site": "train.py(1): build", "owner": "PTA@model@weight", "bytes": 100 * MIB, "blocks": 1},
            {"hash": "bb", "site": "train.py(5): forward", "owner": "PTA@model@activation", "bytes": 60 * MIB, "blocks": 1},
        ],
    }  # fmt: skip
    rows = [rank_row(rank) for rank in range(7)] + [rank_row(7, peak=160 * MIB, **more)]
    (line,) = lines(answer(rows))
    assert line == (
        "outlier: rank 7 has 160 MiB at its peak, 60.0 MiB more than the median of its 7 peers, most of it "
        "PTA@model@activation (+60.0 MiB), at train.py(5): forward (+60.0 MiB)"
    )


@pytest.mark.parametrize(("peers", "is_named"), [(2, False), (3, False), (4, True)])
def test_fewer_than_four_ranks_are_not_tested(peers: int, is_named: bool) -> None:  # noqa: FBT001 - a column of the table
    """A median of two says nothing about one of them."""
    rows = [rank_row(rank, peak=(1 + (rank == 0)) * 100 * MIB) for rank in range(peers)]
    assert bool(lines(answer(rows))) == is_named


def test_stages_are_no_peers_of_each_other() -> None:
    """A stage with more is an uneven axis, and none of its ranks is an outlier."""
    rows = [
        rank_row(rank, peak=(100 + 50 * (rank // 8)) * MIB, coordinates={"pipeline": rank // 8, "data": rank % 8})
        for rank in range(16)
    ]
    (line,) = lines(answer(rows))
    assert line.startswith(
        "uneven: pipeline 1 of 2 (ranks 8-15) has 150 MiB at its peak, 50.0 MiB more than the others"
    )


def test_one_odd_rank_makes_no_axis_uneven() -> None:
    """Eight ranks on three axes: the axes that the odd one lies on are even all the same."""
    rows = [
        rank_row(
            rank,
            peak=(300 if rank == 5 else 100) * MIB,
            coordinates={"data": rank // 4, "pipeline": rank // 2 % 2, "tensor": rank % 2},
        )
        for rank in range(8)
    ]
    (line,) = lines(answer(rows))
    assert line.startswith("outlier: rank 5 has 300 MiB at its peak, 200 MiB more than the median of its 3 peers")


def test_axes_that_divide_alike_are_one() -> None:
    """Experts that are spread over the replicas are named as experts."""
    rows = [
        rank_row(rank, peak=(180 if rank == 6 else 100) * MIB, coordinates={"data": rank, "expert": rank})
        for rank in range(8)
    ]
    (line,) = lines(answer(rows))
    assert line.startswith("uneven: expert 6 of 8 (rank 6) has 180 MiB")


def test_a_leak_of_many_ranks_is_one_finding() -> None:
    """Bytes are summed up, ranks are a range; the surplus of a rank that leaks is explained by its leak."""
    rows = [rank_row(rank, findings=[leak(8 * MIB, growth=MIB)]) for rank in range(8)]
    rows[3] = rank_row(3, peak=150 * MIB, findings=[leak(8 * MIB, growth=MIB), leak(48 * MIB, "train.py(8): log")])
    first, second = lines(answer(rows))
    assert first == (
        "leak: 64.0 MiB in 32 blocks at train.py(7): keep, 1.00 MiB per step and rank, in steps 2 to 9 "
        "(ranks 0-7; most in rank 0: 8.00 MiB)"
    )
    assert second.startswith("leak: 48.0 MiB in 4 blocks at train.py(8): log")
    assert second.endswith("(rank 3)")


def test_the_step_in_which_memory_runs_out() -> None:
    """A rank that grows by 10 MiB per step, give or take, with 1,000 MiB left: in a hundred steps."""
    chance = np.random.default_rng(3)
    peaks = [round((1000 + 10 * step + chance.normal(0, 2)) * MIB) for step in range(1, 61)]
    rows = [rank_row(rank, peak=peaks[-1], steps=peaks if rank == 2 else [peaks[-1]] * 60) for rank in range(4)]
    found = answer(rows, capacity=peaks[-1] + 1000 * MIB)
    (row,) = found.forecasts.to_dicts()
    assert row["index"] == 2
    assert row["earliest_step"] <= 160 <= row["latest_step"]
    assert abs(row["out_at_step"] - 160) <= 3
    assert any(line.startswith("runs out: rank 2 in step ") for line in lines(found))


@pytest.mark.parametrize("level", ["noise", "filled", "short"])
def test_what_does_not_grow_has_no_forecast(level: str) -> None:
    """Noise, what fills up and then stays, and too few steps."""
    chance = np.random.default_rng(5)
    peaks = {
        "noise": [round((500 + chance.normal(0, 20)) * MIB) for _ in range(200)],
        "filled": [min(step, 20) * 50 * MIB for step in range(1, 101)],
        "short": [step * 50 * MIB for step in range(1, 11)],
    }[level]
    assert answer([rank_row(rank, steps=peaks) for rank in range(4)], capacity=64 * GIB).forecasts.is_empty()


def test_the_trend_is_that_of_brute_force() -> None:
    """Theil and Sen's slope by its definition; its interval holds the true slope in about 95 of 100 series."""
    chance = np.random.default_rng(11)
    covered = 0
    for _ in range(200):
        moments = np.arange(30, dtype=float)
        values = 4 * moments + chance.normal(0, 10, 30)
        slope, least, most = trend(moments, values)
        slopes = [(values[b] - values[a]) / (b - a) for a in range(30) for b in range(a + 1, 30)]
        assert slope == pytest.approx(float(np.median(slopes)))
        covered += least <= 4 <= most
    assert 180 <= covered <= 200


def test_of_a_rank_the_last_restart_counts() -> None:
    """Earlier attempts and helper processes are counted, named, and not judged."""
    rows = [rank_row(rank, restart_count=1) for rank in range(4)]
    rows += [rank_row(0, peak=900 * MIB, restart_count=0, source="/job/earlier")]
    rows += [rank_row(0, peak=MIB, restart_count=1, source="/job/loader"), rank_row(None, peak=5 * MIB)]
    found = answer(rows)
    assert found.judged["source"].to_list() == ["/job/0", "/job/1", "/job/2", "/job/3"]
    assert "3 captures stand for no rank" in report(found)


def test_what_cannot_be_read_is_a_line() -> None:
    """And an answer of nothing else is one, too."""
    broken = JobPart(nothing().rows, nothing().stacks, (("/job/x", "/job/x is empty"),))
    found = answer_of(merge([part_of_summaries(rank_table([rank_row(0)])), broken]))
    assert "1 capture without an answer\n  /job/x is empty" in report(found)
    assert report(answer_of(broken)).startswith("nothing could be read: 1 capture without an answer")


def test_buffers_of_communicators_stand_at_their_lines() -> None:
    """How many ranks have them, the median and the most; one line that all use twice on a rank is one."""
    buffers = [
        {"module": "HCCL", "site": "train.py(7): sum", "bytes": 200 * MIB, "blocks": 1},
        {"module": "HCCL", "site": "train.py(7): sum", "bytes": 200 * MIB, "blocks": 1},
        {"module": "RUNTIME", "site": "train.py(1): main", "bytes": 128 * MIB, "blocks": 1},
    ]
    send = {"module": "HCCL", "site": "train.py(9): send", "bytes": 40 * MIB, "blocks": 2}
    rows = [rank_row(0, modules=buffers), rank_row(1, modules=buffers[1:]), rank_row(2, modules=[*buffers, send])]
    found = answer(rows)
    assert found.modules.rows() == [
        ("HCCL", "train.py(7): sum", 3, 400 * MIB, 400 * MIB, 0),
        ("RUNTIME", "train.py(1): main", 3, 128 * MIB, 128 * MIB, 0),
        ("HCCL", "train.py(9): send", 1, 40 * MIB, 40 * MIB, 2),
    ]
    assert "40.0 MiB  40.0 MiB      1  HCCL, train.py(9): send" in report(found)
    assert answer_content(found)["modules"][2]["most_of"] == "rank 2"
    assert "train.py(9): send" in answer_page(found)
    assert "Memory of modules" not in report(answer([rank_row(0), rank_row(1)]))


def test_names_of_programs_do_nothing_to_the_page() -> None:
    """Markup in names is shown as text, and there is no script that could run."""
    evil = "<script>alert(1)</script>"
    owners = [{"owner": evil, "bytes": 5 * MIB, "blocks": 1}]
    rows = [
        rank_row(rank, steps=[MIB, 2 * MIB], source=f"/job/{evil}{rank}", owners=owners[: rank % 2])
        for rank in range(3)
    ]
    page = answer_page(answer(rows))
    assert "<script" not in page
    assert page.count("<rect") >= 6
    assert 'href="#rank-0"' in page
    assert 'id="rank-0"' in page


def test_json_has_what_the_terminal_has() -> None:
    """Verdict, ranks, difference with frames, timeline."""
    found = answer([rank_row(0, steps=[5, 6]), rank_row(1, peak=MIB, steps=[5, 9])])
    content = answer_content(found)
    assert content["worst_against_median"]["worst"] == "rank 0"
    assert content["worst_against_median"]["sites"][0]["frames"] == ["train.py(1): build", "train.py(9)"]
    assert content["timeline"] == [
        {"first_step": 1, "last_step": 1, "least_bytes": 5, "median_bytes": 5, "most_bytes": 5, "ranks": 2},
        {"first_step": 2, "last_step": 2, "least_bytes": 6, "median_bytes": 8, "most_bytes": 9, "ranks": 2},
    ]
