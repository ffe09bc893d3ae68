"""The data of a whole report: the first sentences, the findings, and a section per process."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from msmemscope.model.pools import Pool, pool_word
from msmemscope.reports.first_line import not_judged, without_findings
from msmemscope.reports.html.findings import FoundSite, cards_of_sites, finding_content
from msmemscope.reports.html.shown_text import shown
from msmemscope.reports.html.tables import ColumnKind
from msmemscope.reports.process_report import place_of_peak
from msmemscope.reports.report_text import counted
from msmemscope.reports.run_verdicts import verdicts
from msmemscope.reports.verdict import QUESTION_OF
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from msmemscope.analysis.coverage import Coverage
    from msmemscope.reports.html.source_excerpts import SourceExcerpts
    from msmemscope.reports.html.tables import ReportTable
    from msmemscope.reports.run_summary import ProcessSummary
    from msmemscope.reports.verdict import Verdict

FORMAT: Final = 1
"""Of the document; pages of other versions are no concern, as a page carries its own script."""
MOST_DETAILED: Final = 32
"""Processes that have a section of their own."""
_MOST_SPOKEN: Final = 8
"""Processes that get sentences of their own on top; the others have their sections."""
_ROWS_OF_ALL: Final = 1200
"""Rows that the tables of one kind have in all processes together."""
_LEAST_ROWS: Final = 30
_MOST_PEAKS: Final = 4
"""Pools of a process whose peaks get a sentence."""
_PERCENT: Final = 100


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer of one question about a process."""

    name: str
    summary: str
    """The question in words."""
    coverage: Coverage
    tables: tuple[ReportTable, ...]
    """None where there is no answer, or nothing was found."""


@dataclasses.dataclass(frozen=True)
class ProcessPart:
    """One process as a report has it."""

    summary: ProcessSummary
    sites: list[FoundSite]
    """The known facts of its findings."""
    answers: tuple[Answer, ...]
    memory: list[dict[str, Any]]
    """By `memory_sections`; empty for a process without a section of its own."""
    remarks: tuple[str, ...] = ()
    """The losses, and the work that could not be done, one sentence each."""


def report_document(
    parts: Sequence[ProcessPart], excerpts: SourceExcerpts, *, source: str, version: str
) -> dict[str, Any]:
    """Put the data of a report together.

    Args:
        parts: The processes, at least one.
        excerpts: Gets the lines of source of the findings.
        source: The name of the input, for people.
        version: Of msmemscope.

    Returns:
        The data, in types that JSON takes.
    """
    processes = [part.summary for part in parts]
    found = verdicts(processes)
    findings = finding_content(found, {part.summary: part.sites for part in parts}, excerpts)
    concerned = [process for verdict in found for process in verdict.processes]
    order = {process: place for place, process in enumerate(dict.fromkeys((*concerned, *processes)))}
    ordered = sorted(parts, key=lambda part: order[part.summary])
    detailed = ordered[:MOST_DETAILED]
    rows = max(_ROWS_OF_ALL // len(detailed), _LEAST_ROWS)
    cards = cards_of_sites(found)
    sections = [_process(part, number, rows, cards, is_one=len(parts) == 1) for number, part in enumerate(detailed)]
    for verdict, finding in zip(found, findings, strict=True):
        finding["tables"] = _tables_about(verdict, detailed, sections)
    sentences = [
        {"text": finding["sentence"], "target": finding["id"], "kind": finding["kind"]} for finding in findings
    ]
    if not found:
        text = without_findings(processes, not_judged(processes))
        sentences.append({"text": text, "target": sections[0]["id"], "kind": "nothing"})
    facts = [
        {"text": shown(text, 1000), "target": target}
        for number, part in enumerate(detailed[:_MOST_SPOKEN])
        for text, target in _facts(part, number, is_one=len(parts) == 1)
    ]
    if len(detailed) > _MOST_SPOKEN:
        more = len(detailed) - _MOST_SPOKEN
        facts.append({"text": f"and the same of {more} more processes below", "target": sections[_MOST_SPOKEN]["id"]})
    return {
        "format": FORMAT,
        "version": version,
        "source": shown(source),
        "verdicts": sentences,
        "facts": facts,
        "findings": findings,
        "processes": sections,
        "more_processes": len(parts) - len(detailed),
        "sources": excerpts.content(),
    }


def _title(process: ProcessSummary) -> str:
    place = ", ".join(filter(None, (process.place.coordinate_words, process.place.role)))
    return f"{_name(process)}: {process.program}{f' ({place})' if place else ''}"


def _name(process: ProcessSummary) -> str:
    return f"process {process.process_id}" if process.rank is None else f"rank {process.rank}"


def _table(table: ReportTable, rows: int, cards: Mapping[str, str]) -> dict[str, Any]:
    """A table with so many rows at most; the rest is counted.

    Args:
        table: The table.
        rows: That it may have.
        cards: Call site to where the findings describe it: `links` has that of rows.
    """
    left_out = max(len(table.rows) - rows, 0)
    kept = table.rows[:rows]
    site = table.kinds.index(ColumnKind.SITE.value) if ColumnKind.SITE.value in table.kinds else None
    links = {} if site is None else {number: cards[row[site]] for number, row in enumerate(kept) if row[site] in cards}
    cut = dataclasses.replace(table, rows=kept, more=table.more + left_out)
    return {**dataclasses.asdict(cut), "links": links}


def _tables_about(
    verdict: Verdict, parts: Sequence[ProcessPart], sections: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """The answers with tables, of the first processes in which something was found: their sections and titles."""
    about = []
    for part, section in zip(parts, sections, strict=True):
        for answer, content in zip(part.answers, section["answers"], strict=True):
            if part.summary in verdict.processes and answer.name == QUESTION_OF[verdict.kind] and content["tables"]:
                about.append({"target": content["id"], "text": content["title"], "who": section["name"]})
    return about[:_MOST_SPOKEN]


def _process(
    part: ProcessPart, number: int, rows: int, cards: Mapping[tuple[str, str], str], *, is_one: bool
) -> dict[str, Any]:
    process = part.summary
    answers = [
        {
            "id": f"{answer.name}-{number}",
            "title": answer.coverage.question,
            "summary": answer.summary,
            "missing": [shown(line, 1000) for line in answer.coverage.missing],
            "tables": [
                _table(table, rows, {site: card for (name, site), card in cards.items() if name == answer.name})
                for table in answer.tables
            ],
        }
        for answer in part.answers
    ]
    limits = dict.fromkeys((*part.remarks, *(line for answer in part.answers for line in answer.coverage.limits)))
    return {
        "id": f"process-{number}",
        "name": "" if is_one else _name(process),
        "title": shown(_title(process)),
        "events": process.event_count,
        "memory": [
            {
                **section,
                "id": f"memory-{number}-{place}",
                "tables": [_table(table, rows, {}) for table in section["tables"]],
            }
            for place, section in enumerate(part.memory)
        ],
        "answers": answers,
        "limits": [shown(line, 1000) for line in limits],
    }


def _facts(part: ProcessPart, number: int, *, is_one: bool) -> Iterator[tuple[str, str]]:
    """The sentences about one process, each with the section that shows it."""
    process = part.summary
    who = "" if is_one else f"{_name(process)}: "
    yield from _peaks(part, number, who, is_one=is_one)
    answers = {answer.name: answer for answer in part.answers}
    words = {
        "leaks": _leaks(process), "inefficient": _inefficient(process), "watch": _watch(process), "oom": _failures(process),
    }  # fmt: skip
    for name, text in words.items():
        answer = answers.get(name)
        if answer is None:
            continue
        why = "; ".join(answer.coverage.missing)
        said = text or (f"{answer.coverage.question}: not judged, {why}" if why else "")
        if said:
            yield f"{who}{said}", f"{name}-{number}"


def _peaks(part: ProcessPart, number: int, who: str, *, is_one: bool) -> Iterator[tuple[str, str]]:
    process = part.summary
    peaks = process.overview.peaks if process.overview is not None else ()
    ordered = sorted(peaks, key=lambda one: (one.pool == Pool.HAL, -one.peak_bytes, one.device, one.pool))
    for place, (peak, section) in enumerate(zip(ordered, part.memory, strict=False)):
        if place == _MOST_PEAKS:
            yield f"{who}and the peaks of {counted(len(ordered) - place, 'more pool')}", f"process-{number}"
            return
        size = section["chart"]["peak"]["bytes"]
        owners = [
            f"{name} {format_bytes(owned)} ({_PERCENT * owned / size:.0f} %)"
            for name, owned, _ in section["owners"][:3]
        ]
        text = place_of_peak(peak, process, "" if is_one else _name(process))
        yield f"{text}: {', '.join(owners)}", f"memory-{number}-{place}"


def _leaks(process: ProcessSummary) -> str:
    if process.leaks is None:
        return ""
    steps, slow = process.leaks.step_leaks, process.leaks.slow_leaks
    sites = steps.leaking_sites
    over = f" over {counted(steps.steps_ended, 'step')}" if steps.steps_ended else ""
    if sites.height:
        size, blocks = int(sites["leaked_bytes"].sum()), int(sites["leaked_blocks"].sum())
        at = f"{counted(blocks, 'block')} at {counted(sites.height, 'call site')}"
        return f"Leaks{over}: {format_bytes(size)} in {at}"
    growing = slow.sites.height + process.leaks.outside_steps.sites.height
    if growing:
        return f"No leaked blocks{over}, but {counted(growing, 'call site')} that grow"
    return f"No leaks{over}"


def _inefficient(process: ProcessSummary) -> str:
    found = process.inefficient
    if found is None:
        return ""
    if not found.pools:
        return "Inefficient memory: none"
    parts = [
        f"{format_bytes(one.peak_bytes - one.peak_if_fixed_bytes)} of the peak of {pool_word(one.pool, one.device)}"
        for one in found.pools
    ]
    blocks = found.findings["allocation_id"].n_unique()
    return f"Inefficient memory: {counted(blocks, 'block')}; fixing all of it saves {', '.join(parts)}"


def _watch(process: ProcessSummary) -> str:
    if process.watch is None or not process.watch.was_watched:
        return ""
    count = process.watch.unexpected.height
    if count:
        return f"Watched memory: {counted(count, 'unexpected change')}"
    is_written = not process.watch.changes.is_empty()
    return "Watched memory: no unexpected change" if is_written else "Watched memory: not overwritten"


def _failures(process: ProcessSummary) -> str:
    result = process.overview.out_of_memory if process.overview is not None else None
    if result is None or not result.failures:
        return "No allocation failed for lack of memory"
    cause = result.failures[-1].cause
    why = f"; the last time: {cause.sentence}" if cause is not None else ""
    return f"Memory ran out {counted(result.failure_count, 'time')}{why}"
