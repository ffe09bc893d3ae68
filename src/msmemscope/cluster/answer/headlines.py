"""The first lines of an answer: the faults of the job, the gravest first, each with ranks, bytes and line."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.judged import FAILURES, NotJudged
from msmemscope.analysis.judged import LEAKS as LEAKS_SUBJECT
from msmemscope.cluster.answer.end_text import early_end_text, held_text
from msmemscope.cluster.answer.ranks import INDEX, PEERS, WHO, who_text
from msmemscope.cluster.answer.spread import LEAST_PEERS, tested_groups
from msmemscope.reports.report_text import counted
from msmemscope.reports.verdict import VerdictKind
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msmemscope.cluster.answer.axes import AxisSpread
    from msmemscope.cluster.answer.difference import Difference
    from msmemscope.cluster.answer.job_answer import JobAnswer

ENDED_EARLY: Final = "ended early"
RUNS_OUT: Final = "runs out"
OUTLIER: Final = "outlier"
UNEVEN: Final = "uneven"
_LEAKS: Final = (VerdictKind.LEAK.value, VerdictKind.SLOW_LEAK.value)
_BEFORE_RANKS_DIFFER: Final = frozenset(
    kind.value for kind in VerdictKind if kind not in {VerdictKind.INEFFICIENT, VerdictKind.DECLARED_WRITE}
)
_EXPLAINED_SHARE: Final = 0.5
"""If leaks are so much of the surplus of ranks, the leak is the finding, and the surplus is none."""


@dataclasses.dataclass(frozen=True)
class Headline:
    """One thing that is wrong with a job."""

    kind: str
    """The word that the line begins with."""
    text: str
    """The whole line."""
    rows: tuple[int, ...]
    """The ranks concerned, the worst first."""
    size_bytes: int
    site: str
    """The line of the program; empty if it is not known."""


def headlines(answer: JobAnswer) -> tuple[Headline, ...]:
    """Return the faults of a job; none if it has none."""
    found = [_finding(answer, row) for row in answer.findings.iter_rows(named=True)]
    grave = [one for one in found if one.kind in _BEFORE_RANKS_DIFFER]
    less_grave = [one for one in found if one.kind not in _BEFORE_RANKS_DIFFER]
    # Memory that ran out says why a rank ended.
    reasons = [one for one in grave if one.kind == VerdictKind.OUT_OF_MEMORY.value]
    return (
        *reasons,
        *_early_ends(answer),
        *grave[len(reasons) :],
        *_running_out(answer),
        *_common_places(answer),
        *_outliers(answer),
        *_uneven(answer),
        *less_grave,
    )


def nothing_wrong(answer: JobAnswer) -> str:
    """Return the lines where nothing is wrong: the parts that were not judged, and the captures that were looked at."""
    judged = answer.judged
    if answer.rows.is_empty():
        return f"nothing could be read: {counted(len(answer.failures), 'capture')} without an answer"
    unknown = _not_judged(answer)
    subjects = {one.subject for one, _ in unknown}
    steps = int(answer.rows["steps_ended"].max() or 0)  # type: ignore[arg-type]  # whole numbers
    looked = []
    if LEAKS_SUBJECT not in subjects:
        looked.append(f"no leak over {counted(steps, 'step')}" if steps else "no growth over the run")
    if FAILURES not in subjects:
        looked.append("no failed allocation")
    groups = tested_groups(answer.rows).filter(pl.col("count") >= LEAST_PEERS)
    tested = int(groups["count"].sum())
    looked.append(
        f"no outlier among {format_count(tested)} ranks with peers" if tested else "too few peers to find outliers"
    )
    if answer.axes:
        looked.append(f"evenly spread over {', '.join(spread.axis for spread in answer.axes)}")
    if not unknown:
        return f"nothing found in {counted(judged.height, 'rank')}: {', '.join(looked)}"
    sentences = [
        one.sentence if count == answer.rows.height else f"{one.sentence} ({counted(count, 'rank')})"
        for one, count in unknown
    ]
    return f"{'; '.join(sentences)}; otherwise {', '.join(looked)} in {counted(judged.height, 'rank')}"


def _not_judged(answer: JobAnswer) -> list[tuple[NotJudged, int]]:
    """The parts that were not judged, with the number of processes, the most first."""
    rows = answer.rows.select(pl.col("not_judged").explode().drop_nulls()).unnest("not_judged")
    counts = (
        rows.group_by(rows.columns, maintain_order=True)
        .len("count")
        .sort("count", descending=True, maintain_order=True)
    )
    return [(NotJudged(*row[:-1]), row[-1]) for row in counts.iter_rows()]


def who(answer: JobAnswer, rows: Sequence[int]) -> str:
    """Return some rows in words."""
    return who_text(answer.rows.filter(pl.col(INDEX).is_in(list(rows))))


def name_of(answer: JobAnswer, row: int) -> str:
    """Return the name of a row."""
    return str(answer.rows[WHO][row])


def cause_text(cause: Difference) -> str:
    """Return the main part of it: `, most of it model@activation (+40 MiB), at train.py(31): step (+38 MiB)`."""
    owner = f"{cause.owner} ({_signed(cause.owner_bytes)})" if cause.owner and cause.owner_bytes > 0 else ""
    site = f"at {cause.site} ({_signed(cause.site_bytes)})" if cause.site and cause.site_bytes > 0 else ""
    return f", most of it {', '.join(filter(None, (owner, site)))}" if owner or site else ""


def _signed(size_bytes: int) -> str:
    return f"{'+' if size_bytes > 0 else ''}{format_bytes(size_bytes)}"


def _finding(answer: JobAnswer, row: dict[str, Any]) -> Headline:
    kind, ranks = row["kind"], row["ranks"]
    several = len(ranks) > 1
    worst = (
        f"; most in {name_of(answer, row['worst'])}: {format_bytes(row['most_bytes'])}"
        if several and row["bytes"]
        else ""
    )
    where = f" ({who(answer, ranks)}{worst})"
    if kind == VerdictKind.OUT_OF_MEMORY.value:
        return Headline(kind, f"{row['text'] or kind}{where}", (row["worst"], *ranks), row["bytes"], row["site"])
    blocks = f"in {counted(row['blocks'], 'block')}" if row["blocks"] else ""
    at = f"at {row['site']}" if row["site"] else ""
    head = " ".join(filter(None, (format_bytes(row["bytes"]), blocks, at)))
    growth = (
        f"{format_bytes(row['growth_bytes'])} per step{' and rank' if several else ''}" if row["growth_bytes"] else ""
    )
    held = f"held by {row['held_by']}" if row["held_by"] else ""
    text = f"{kind}: {', '.join(filter(None, (head, growth, row['text'], held)))}{where}"
    return Headline(
        kind, text, (row["worst"], *(one for one in ranks if one != row["worst"])), row["bytes"], row["site"]
    )


def _early_ends(answer: JobAnswer) -> Iterator[Headline]:
    for row in answer.early_ends.iter_rows(named=True):
        ranks = answer.rows.filter(pl.col(INDEX).is_in(row["ranks"])).sort(
            "held_bytes", descending=True, nulls_last=True
        )
        most = ranks.row(0, named=True)
        held = held_text(most)
        which = f"; {'it' if ranks.height == 1 else most[WHO]} had {held}" if held else ""
        text = f"{ENDED_EARLY}: {early_end_text(answer, row)}{which}"
        yield Headline(ENDED_EARLY, text, tuple(ranks[INDEX]), most["held_bytes"] or 0, "")


def _running_out(answer: JobAnswer) -> Iterator[Headline]:
    ending = answer.forecasts.drop_nulls("out_at_step")
    if ending.is_empty():
        return
    first = ending.row(0, named=True)
    more = f"; {counted(ending.height - 1, 'more rank')} later" if ending.height > 1 else ""
    text = (
        f"{RUNS_OUT}: {name_of(answer, first[INDEX])} in step {format_count(first['out_at_step'])} "
        f"({format_count(first['earliest_step'])} to {format_count(first['latest_step'])}), growing by "
        f"{format_bytes(round(first['slope_bytes']))} per step with {format_bytes(first['headroom_bytes'])} left in step "
        f"{format_count(first['last_step'])}{more}"
    )
    yield Headline(RUNS_OUT, text, tuple(ending[INDEX]), round(first["slope_bytes"]), "")


def _common_places(answer: JobAnswer) -> Iterator[Headline]:
    for common in answer.common_places:
        excess = common.excess_bytes
        if _is_explained(answer, common.rows, excess):
            continue
        why = cause_text(common.difference) if excess > 0 else ""
        text = (
            f"{OUTLIER}: {common.place}: {format_count(len(common.rows))} of {counted(common.ranks, 'rank')} "
            f"({who(answer, common.rows)}) have {format_bytes(common.peak_bytes)} at their peaks, {format_bytes(abs(excess))} "
            f"{'more' if excess > 0 else 'less'} than the median of their peers{why}"
        )
        yield Headline(OUTLIER, text, common.rows, excess, common.difference.site)


def _outliers(answer: JobAnswer) -> Iterator[Headline]:
    together = {row for common in answer.common_places for row in common.rows}
    for row, cause in zip(answer.outliers.iter_rows(named=True), answer.outlier_causes, strict=True):
        rank, excess = row[INDEX], row["excess_bytes"]
        if rank in together or _is_explained(answer, (rank,), excess, peers=row[PEERS]):
            continue
        more = "more" if excess > 0 else "less"
        why = cause_text(cause) if excess > 0 else ""
        text = (
            f"{OUTLIER}: {name_of(answer, rank)} has {format_bytes(row['peak_bytes'])} at its peak, {format_bytes(abs(excess))} "
            f"{more} than the median of its {row['peer_count']} peers{why}"
        )
        yield Headline(OUTLIER, text, (rank,), excess, cause.site)


def _uneven(answer: JobAnswer) -> Iterator[Headline]:
    for spread in answer.axes:
        if spread.is_uneven and not _is_explained(answer, spread.largest_rows, spread.excess_bytes):
            yield Headline(
                UNEVEN, uneven_text(answer, spread), spread.largest_rows, spread.excess_bytes, spread.difference.site
            )


def uneven_text(answer: JobAnswer, spread: AxisSpread) -> str:
    """Return how uneven an axis is in one sentence."""
    return (
        f"{UNEVEN}: {spread.axis} {spread.largest} of {spread.indexes.height} ({who(answer, spread.largest_rows)}) has "
        f"{format_bytes(spread.largest_bytes)} at its peak, {format_bytes(spread.excess_bytes)} more than the others{cause_text(spread.difference)}"
    )


def _is_explained(answer: JobAnswer, rows: Sequence[int], excess: int, *, peers: str | None = None) -> bool:
    """Whether leaks of some ranks, beyond those that others have too, are most of their surplus."""
    if excess <= 0:
        return False
    others = answer.judged if peers is None else answer.judged.filter(pl.col(PEERS) == peers)
    leaked = _leaked_bytes(others)
    mine, rest = leaked.filter(pl.col(INDEX).is_in(list(rows))), leaked.filter(~pl.col(INDEX).is_in(list(rows)))
    own = float(mine["leaked"].median() or 0)  # type: ignore[arg-type]  # of whole numbers
    usual = float(rest["leaked"].median() or 0)  # type: ignore[arg-type]  # likewise
    return own - usual >= _EXPLAINED_SHARE * excess


def _leaked_bytes(rows: pl.DataFrame) -> pl.DataFrame:
    found = pl.element().struct.field("bytes").filter(pl.element().struct.field("kind").is_in(_LEAKS))
    return rows.select(INDEX, leaked=pl.col("findings").list.eval(found).list.sum().fill_null(0))
