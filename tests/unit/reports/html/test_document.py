"""The data of a report: the sentences of the summary first, each with the section that shows it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from msmemscope.launch.html_report import report_parts
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import Recording
from msmemscope.reports.html.document import MOST_DETAILED, ProcessPart, report_document
from msmemscope.reports.html.source_excerpts import SourceExcerpts
from msmemscope.reports.html.tables import MOST_ROWS
from msmemscope.reports.run_verdicts import verdicts
from tests.fakes.traces import Trace


def leaking(file: str = "/app/train.py", *, steps: int = 6, kept: int = 1 << 20, sites: int = 1) -> Recording:
    """A program that keeps a block at each of some lines in each step."""
    trace = Trace()
    for _ in range(steps):
        for line in range(sites):
            trace.malloc(kept, f"{file}({11 + line}): keep\n{file}(2): main", operator="aten.mm")
        passing = trace.malloc(4 * kept, f"{file}(3): work\n{file}(2): main", operator="aten.add")
        trace.free(passing)
        trace.step()
    return trace.recording()


def document_of(*recordings: Recording) -> dict[str, Any]:
    """The document about some processes."""
    parts = report_parts(recordings, process_count=len(recordings))
    return report_document(parts, SourceExcerpts(), source="somewhere", version="1.2.3")


def like_one(recording: Recording, count: int) -> list[ProcessPart]:
    """The parts of a report of so many equal processes.

    One of them is judged, and only once: judging takes longer than the rest.
    """
    (part,) = report_parts([recording], process_count=count)
    return [
        dataclasses.replace(part, summary=dataclasses.replace(part.summary, process_id=number))
        for number in range(count)
    ]


def ids_of(document: dict[str, Any]) -> set[str]:
    """The sections that the page makes of a document."""
    found = {finding["id"] for finding in document["findings"]}
    for process in document["processes"]:
        found.add(process["id"])
        found |= {part["id"] for part in (*process["memory"], *process["answers"])}
    return found


def test_the_sentences_are_those_of_the_summary() -> None:
    """In its order, and each leads to its finding."""
    recording = leaking()
    document = document_of(recording)
    found = verdicts([part.summary for part in report_parts([recording])])
    assert [one["text"] for one in document["verdicts"]] == [one.sentence(names_process=False) for one in found]
    assert document["verdicts"][0]["text"].startswith("leak: 4.00 MiB in 4 blocks on npu:0 at /app/train.py(11): keep")
    assert [one["target"] for one in document["verdicts"]] == [one["id"] for one in document["findings"]]


def test_every_link_leads_to_a_section() -> None:
    """Of what was found and of what was not, in one process and in several."""
    empty = Trace()
    empty.malloc(10)
    other = dataclasses.replace(leaking(), process_id=2)
    for recordings in ([leaking()], [empty.recording()], [leaking(), other]):
        document = document_of(*recordings)
        targets = {one["target"] for one in (*document["verdicts"], *document["facts"])}
        assert targets <= ids_of(document)
        assert document["facts"]


def test_a_finding_has_bytes_steps_stack_and_source(tmp_path: Path) -> None:
    """Everything between the sentence and the line."""
    file = tmp_path / "train.py"
    file.write_text("".join(f"line {number}\n" for number in range(1, 30)), encoding="utf-8")
    document = document_of(leaking(str(file)))
    (site,) = document["findings"][0]["sites"]
    facts = dict(site["facts"])
    assert facts["bytes"] == "4.00 MiB"
    assert facts["steps"] == "in steps 2 to 5: 4 of 4 judged"
    assert facts["per step"] == "1.00 MiB"
    assert [(frame["text"], frame["is_blamed"]) for frame in site["frames"]] == [
        (f"{file}(11): keep", True),
        (f"{file}(2): main", False),
    ]
    source = document["sources"][site["source"]]
    assert source["lines"][source["line"] - source["first_line"]] == "line 11"


def test_the_same_line_of_several_ranks_is_one_finding() -> None:
    """With the ranks in its sentence; each process has its own section."""
    ranks = [
        dataclasses.replace(leaking(), process_id=10 + rank, facts={"process.rank": (str(rank),)}) for rank in range(3)
    ]
    document = document_of(*ranks)
    assert len(document["findings"]) == 1
    assert document["verdicts"][0]["text"].endswith("(ranks 0-2)")
    assert document["findings"][0]["processes"] == "ranks 0-2"
    facts = dict(document["findings"][0]["sites"][0]["facts"])
    assert (facts["bytes, all together"], facts["below"], facts["blocks"]) == (
        "12.0 MiB",
        "what is known of rank 0",
        "4",
    )
    assert [process["name"] for process in document["processes"]] == ["rank 0", "rank 1", "rank 2"]


def test_processes_without_a_section_are_counted() -> None:
    """The concerned ones come first."""
    quiet = Trace()
    quiet.malloc(10)
    many = like_one(quiet.recording(), MOST_DETAILED + 2)
    many += report_parts([dataclasses.replace(leaking(), process_id=99)], process_count=MOST_DETAILED + 3)
    document = report_document(many, SourceExcerpts(), source="somewhere", version="1.2.3")
    assert len(document["processes"]) == MOST_DETAILED
    assert document["more_processes"] == 3
    assert document["processes"][0]["title"].startswith("process 99")
    assert document["facts"][-1]["text"] == "and the same of 24 more processes below"
    assert document["facts"][-1]["target"] in ids_of(document)


def test_tables_say_what_they_leave_out() -> None:
    """Never a silent cut."""
    document = document_of(leaking(sites=MOST_ROWS + 7, steps=4, kept=1000))
    (leaks,) = (answer for answer in document["processes"][0]["answers"] if answer["id"] == "leaks-0")
    table = leaks["tables"][0]
    assert table["title"] == "Leaks by call site"
    assert len(table["rows"]) == MOST_ROWS
    assert table["more"] == 7
    finding = document["findings"][0]
    assert len(finding["sites"]) + finding["more_sites"] == MOST_ROWS + 7


def test_nothing_found_is_said_with_what_was_looked_for() -> None:
    """The same sentence as the summary's."""
    trace = Trace()
    for _ in range(6):
        trace.free(trace.malloc(100, "/app/train.py(3): work"))
        trace.step()
    (only,) = document_of(trace.recording())["verdicts"]
    assert only["kind"] == "nothing"
    assert only["text"].startswith("nothing found: no leak over 6 steps")


def test_what_cannot_be_answered_is_said() -> None:
    """With its reason, in words and in the section."""
    document = document_of(leaking())
    texts = [fact["text"] for fact in document["facts"]]
    assert any(text.startswith("Inefficient memory: not judged, ") for text in texts)
    answers = {answer["id"]: answer for answer in document["processes"][0]["answers"]}
    assert answers["inefficient-0"]["missing"]
    assert answers["inefficient-0"]["tables"] == []


def test_a_failed_allocation_is_the_first_finding() -> None:
    """Before the leak that filled memory; with what is known of it."""
    trace = Trace()
    for _ in range(6):
        trace.malloc(1 << 30, "/app/train.py(11): keep")
        trace.malloc(1 << 30, pool=Pool.HAL)
        trace.step()
    trace.add(EventKind.OOM, size=1 << 34, name_id=trace.text("halMemAlloc"))
    document = document_of(trace.recording())
    assert [finding["kind"] for finding in document["findings"]] == ["out of memory", "leak", "leak"]
    facts = [heading for heading, _ in document["findings"][0]["sites"][0]["facts"]]
    assert "asked for" in facts
    assert "what is known" in facts
    assert any(fact["text"].startswith("Memory ran out 1 time") for fact in document["facts"])


@pytest.mark.parametrize("broken", ["leaks", "peak"])
def test_an_analysis_that_fails_costs_only_itself(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the report is there, and says what is missing."""
    from msmemscope.questions import QUESTIONS

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(QUESTIONS, broken, dataclasses.replace(QUESTIONS[broken], examine=fail))
    document = document_of(leaking())
    assert any(line.startswith(f"{broken} of trace: ") for line in document["processes"][0]["limits"])
    assert document["processes"][0]["memory"]


@pytest.mark.parametrize(
    ("held_by", "line"),
    [
        ("main.history[2] -> autograd graph", 2),
        ("Trainer.losses[3], from main.self", 2),
        ("Trainer.losses[3], from keep.self", None),  # it is the blamed line already
        ("app.models.registry[3]", None),
        ("", None),
    ],
)
def test_the_function_that_holds_what_leaked_is_shown(held_by: str, line: int | None) -> None:
    """At the line where it called what allocated; only if it is not the blamed one."""
    (part,) = report_parts([leaking(steps=6)])
    known = dataclasses.replace(part, sites=[dataclasses.replace(one, held_by=held_by) for one in part.sites])
    document = report_document([known], SourceExcerpts(), source="somewhere", version="1")
    (site,) = document["findings"][0]["sites"]
    holder = site["holder"]
    assert (None if holder is None else document["sources"][holder["source"]]["line"]) == line


def test_where_no_owner_is_known_memory_is_drawn_by_call_site() -> None:
    """An owner of everything says nothing; where one is known, owners are drawn as before."""
    trace = Trace()
    for line in (11, 12):
        trace.malloc(1 << 20, f"/app/train.py({line}): build", operator="torch._ops.aten.empty.default")
    recording = trace.recording()
    (pool,) = document_of(recording)["processes"][0]["memory"]
    sites = {"/app/train.py(11): build", "/app/train.py(12): build"}
    assert pool["grouped_by"] == "line"
    assert {name for name, _, _ in pool["owners"]} == sites
    assert {one["name"] for one in pool["chart"]["owners"]} == sites
    assert [table["title"] for table in pool["tables"]] == ["At the peak, by operator", "At the peak, by line"]
    weights = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("PTA@model@weight")).otherwise(pl.lit("PTA@ops@aten"))
    known = dataclasses.replace(recording, blocks=recording.blocks.with_columns(owner=weights))
    (pool,) = document_of(known)["processes"][0]["memory"]
    assert pool["grouped_by"] == "owner"
    assert {name for name, _, _ in pool["owners"]} == {"PTA@model@weight", "PTA@ops@aten"}
