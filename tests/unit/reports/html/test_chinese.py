"""The report in Chinese has no English left but names, units and code: whole pages, and every form of a sentence."""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from msmemscope.analysis.host.pinned_settings import COMMON
from msmemscope.analysis.leaks.pinned_growth import PinnedGrowth
from msmemscope.analysis.peak.candidates import Candidate
from msmemscope.analysis.peak.cause_words import (
    Cause,
    missing_figures,
    others_of,
    remedy_of,
    sentence_of,
    verdict_of,
)
from msmemscope.analysis.peak.comparison import StepComparison
from msmemscope.analysis.peak.figures import MemoryFigures
from msmemscope.analysis.peak.memory_sum import sum_sentence
from msmemscope.analysis.peak.refusal import Holder, Refusal, refusal_sentences
from msmemscope.analysis.recorded import Need, Recorded
from msmemscope.analysis.reserved.idle_memory import Cause as IdleCause
from msmemscope.analysis.reserved.idle_memory import IdleMemory
from msmemscope.analysis.watch.sentences import change_sentences, declared_write_sentences
from msmemscope.analysis.watch.verdict import WATCH_CHANGE_SCHEMA
from msmemscope.formats.reading import load
from msmemscope.launch.html_report import report_parts
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.place import Place
from msmemscope.model.pools import Pool
from msmemscope.recording import Recording
from msmemscope.recording.schema import ATTRIBUTE_SCHEMA
from msmemscope.reports import host_growth_words
from msmemscope.reports.host_growth_words import pinned_growth_remedy
from msmemscope.reports.html.chinese import CHINESE
from msmemscope.reports.html.chinese_forms import CHINESE_FORMS
from msmemscope.reports.html.document import ProcessPart, report_document
from msmemscope.reports.html.phrases import NAMES, Phrases
from msmemscope.reports.html.source_excerpts import SourceExcerpts
from msmemscope.reports.html.words import LANGUAGES
from msmemscope.reports.reserved_report import remedy, why_idle
from msmemscope.reports.verdict import Verdict, VerdictKind
from tests.fakes.traces import Trace
from tests.support.english import english
from tests.support.golden_logs import unpack_golden_log
from tests.support.recorded_runs import with_dumps, write_run

PHRASES = LANGUAGES["zh"].phrases
assert PHRASES is not None


def sentences(content: Any) -> Iterator[str]:
    """Every text of a document that is no name or source text by itself."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            if key not in NAMES:
                yield from sentences(value)
    elif isinstance(content, (list, tuple)):
        for part in content:
            yield from sentences(part)


def untranslated(texts: Iterable[str]) -> list[str]:
    """The texts that have English words in Chinese."""
    assert PHRASES is not None
    said = {text: PHRASES.said(text) for text in texts}
    return [f"{text} => {chinese}: {english(chinese)}" for text, chinese in said.items() if english(chinese)]


def page(*recordings: Recording) -> dict[str, Any]:
    """The document about some processes."""
    return page_of_parts(report_parts(recordings, process_count=len(recordings)))


def page_of_parts(parts: Sequence[ProcessPart]) -> dict[str, Any]:
    """The document about processes that have been judged."""
    return report_document(parts, SourceExcerpts(1), source="runs", version="1.2.3")


def out_of_memory() -> Recording:
    """A leak fills memory, then an allocation of the driver fails."""
    trace = Trace()
    for _ in range(6):
        trace.malloc(1 << 30, "/app/train.py(11): keep", operator="aten.mm")
        trace.malloc(1 << 30, pool=Pool.HAL)
        trace.step()
    trace.add(EventKind.OOM, size=1 << 34, name_id=trace.text("halMemAlloc"))
    return trace.recording()


def without_steps() -> Recording:
    """A program that keeps nothing, with one step."""
    trace = Trace()
    for number in range(70):
        trace.free(trace.malloc(100 + number, f"/app/train.py({number}): work", operator=f"aten.{number}"))
    trace.step()
    return trace.recording()


def pages(folder: Path) -> Iterator[dict[str, Any]]:
    """Pages with findings and without, of one process and several, from logs and dumps, and of a program on an NPU."""
    capture = write_run(folder / "one")
    recording = load(capture)
    yield page(recording)
    yield page(load(write_run(folder / "two", analysis="leaks,inefficient", leaks=False, steps=9)))
    yield page(load(write_run(folder / "three", steps=0)))
    yield page(load(with_dumps(capture)))
    # Ranks that all do the same: to judge each of them takes longer than all else here.
    (part,) = report_parts([dataclasses.replace(recording, facts={"process.rank": ("0",)})], process_count=40)
    yield page_of_parts(
        [
            dataclasses.replace(
                part, summary=dataclasses.replace(part.summary, process_id=number, place=Place(rank=number))
            )
            for number in range(40)
        ]
    )
    yield page(out_of_memory())
    yield page(out_of_memory(), dataclasses.replace(without_steps(), process_id=2))
    real = unpack_golden_log("attributes_5", folder / "real")
    (real / "expected.csv").unlink()
    yield page(load(real))


def test_a_page_has_no_english_sentence(tmp_path: Path) -> None:
    """Findings, facts, tables with their cells, notes, and what is left out."""
    found = [one for document in pages(tmp_path) for one in untranslated(sentences(document))]
    assert not found, "\n".join(found)


def test_the_words_of_the_page_are_chinese() -> None:
    """Those that the script puts together."""
    texts = [re.sub(r"\{\w+\}", "1", text) for key, text in CHINESE.items() if key != "language"]
    assert [text for text in texts if english(text.replace("Home", "").replace("End", ""))] == []


def test_the_texts_that_stay_english_are_found() -> None:
    """The scan itself: names and code are none, sentences are."""
    assert english("leak: 2.00 MiB in 4 blocks on cpu at /app/train.py(11): keep") == [
        "leak",
        "in",
        "blocks",
        "on",
        "at",
    ]
    assert english("泄漏: cpu 上 4 个内存块, 位于 /app/train.py(11): keep, --steps=3, HOST, `weights`, aten.mm") == []


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("device", [DEVICE_CPU, 0])
def test_every_cause_of_failed_allocations_is_said(cause: Cause, device: int) -> None:
    """The verdict, the sentence with figures or without, what is missing, and the advice."""
    size = 1 << 30
    line = "/app/train.py(3): work"
    known = MemoryFigures(
        device, "halMemAlloc", size, 3 * size, need_bytes=5 * size, pinned_bytes=size, capacity_bytes=8 * size,
        device_used_bytes=7 * size, process_bytes=6 * size, reserved_bytes=4 * size, largest_gap_bytes=size // 2,
        outside_bytes=size, outside_growth_bytes=size, outside_owner="HCCL", outside_site=line,
    )  # fmt: skip
    comparison = StepComparison(7, 6, True, 5, size, size, size, 3 * size, 5 * size)
    variants = [
        known,
        MemoryFigures(device, "", size, size),
        dataclasses.replace(known, largest_gap_bytes=2 * size, reserved_bytes=5 * size),
        dataclasses.replace(known, largest_gap_bytes=None, outside_owner="", outside_site="", device_used_bytes=0),
        dataclasses.replace(known, function="halMemCreate", outside_site="", reserved_bytes=3 * size + 1),
        dataclasses.replace(known, capacity_bytes=None, process_bytes=None, reported_free_bytes=size),
        dataclasses.replace(known, capacity_bytes=None, function="", reported_free_bytes=9 * size),
        dataclasses.replace(known, capacity_bytes=9 * size, function="torch.npu"),
        dataclasses.replace(
            known,
            capacity_bytes=9 * size,
            pinned_bytes=0,
            limit="RLIMIT_AS" if device < 0 else "",
            machine_free_bytes=size if device < 0 else None,
        ),
    ]
    candidates = [
        Candidate(cause, size, site, block_count=count, held_by=held_by, is_enough=is_enough, setting=setting)
        for site, count, held_by, is_enough, setting in (
            ("", 0, "", False, None), (line, 3, "main.kept[...]", True, ""),
            (line, 3, "main.total -> autograd graph", True, "max_split_size_mb:20"),
        )
    ]  # fmt: skip
    comparisons = (comparison, dataclasses.replace(comparison, is_same_operator=False), None)
    texts = [
        text
        for figures in variants
        for first in candidates
        for text in (
            *(sentence_of(first, figures, one) for one in comparisons), remedy_of(first, figures)[1],
            *missing_figures(figures), *(verdict_of(first, figures, step, later_steps=step // 3, is_handled=step > 0) for step in (0, 2, 3)),
            verdict_of(first, dataclasses.replace(figures, request_site="/app/train.py(9): work"), 3),
            *others_of(candidates, figures), *filter(None, [sum_sentence(figures)]),
        )
    ]  # fmt: skip
    assert not (found := untranslated(texts)), "\n".join(found)


@pytest.mark.parametrize("is_small", [True, False])
def test_every_refusal_of_an_allocator_is_said(is_small: bool) -> None:  # noqa: FBT001
    """A refusal says what was looked for, what was free and where, what went back, and what holds the room."""
    size = 3 << 30
    holders = (Holder(0, size, size, size, 2, 0, size, "/app/train.py(3): work", pin_is_freed=False),)
    full = Refusal(size, 32, is_small, True, size, 3, size, size, holders, 2, size, 1, size, size)
    other = dataclasses.replace(holders[0], pin_site="", pin_is_freed=True)
    variants = (
        full,
        dataclasses.replace(full, padding_bytes=0, waited_blocks=0, released_segments=4, holders=(other,)),
        dataclasses.replace(
            full, block_bytes=None, is_of_stream=False, free_bytes=0, waited_blocks=0, released_segments=0
        ),
    )
    texts = [text for one in variants for text in refusal_sentences(one, str)]
    assert not (found := untranslated(texts)), "\n".join(found)


def test_every_change_of_watched_memory_is_said() -> None:
    """A change says which memory was watched, how it changed, and what else is known of it."""
    base: dict[str, Any] = {
        "verdict": "unexpected", "name": "weights", "output": 1, "address": 4096, "size": 2048, "device": 0, "is_exact": True,
        "first": 0, "last": 63, "is_beside": False, "neighbour_is_written": True, "neighbour_address": 2048, "neighbour_size": 2048,
        "neighbour_operator": "aten.ones", "neighbour_site": "/app/train.py(3): work", "more_blocks": 0, "granularity": 1,
        "block_operator": "aten.ones", "block_site": "", "has_more_ranges": False, "source": "aten", "concurrent": 0,
    }  # fmt: skip
    events: list[dict[str, Any]] = [
        {"when": "during", "operator": "aten.add", "call": 17},
        {"when": "during", "operator": None, "verdict": "unknown"},
        {"when": "during", "operator": "aten.add", "is_beside": True},
        {"when": "during", "operator": "aten.add", "is_exact": False, "previous": "aten.mm", "previous_call": 3},
        *(
            {"when": "between", "source": source, "operator": operator, "previous": previous, "is_exact": is_exact}
            for source in ("aten", "kernel")
            for operator, previous in (("aten.add", None), (None, "aten.mm"), ("aten.add", "aten.mm"))
            for is_exact in (True, False)
        ),
    ]
    extent = [
        {},
        {"more_blocks": 1, "granularity": 512},
        {"more_blocks": 3, "concurrent": 2, "has_more_ranges": True, "block_site": "/app/train.py(7): keep"},
    ]
    rows = [
        {**base, "watch": watch, **event, **more}
        for watch, event, more in itertools.product(("tensor", "window", "address", "auto"), events, extent)
    ]
    names = ("has_more_ranges", "ranges")
    schema = {
        **{key: kind for key, kind in WATCH_CHANGE_SCHEMA.items() if key != "sentence"},
        **{key: ATTRIBUTE_SCHEMA[key] for key in names},
    }
    ranges = [{"first": 0, "last": 7}, {"first": 16, "last": 63}]
    frame = pl.DataFrame([{**row, "ranges": ranges} for row in rows], schema=schema)
    texts = change_sentences(frame).to_list()
    assert None not in texts
    assert untranslated([*texts, f"overwritten: 64 bytes at /app/train.py(3): work, {texts[0]}"]) == []


@pytest.mark.parametrize("watch", ["tensor", "address"])
@pytest.mark.parametrize("writes", [1, 1200])
@pytest.mark.parametrize("call", [7, None])
def test_declared_writes_are_chinese(watch: str, writes: int, call: int | None) -> None:
    """By themselves, and as what was found."""
    row = {
        "watch": watch,
        "name": "test",
        "device": 0,
        "size": 64,
        "writes": writes,
        "operator": "aten.add_",
        "call": call,
    }
    (text,) = declared_write_sentences(pl.DataFrame([row], schema_overrides={"call": pl.Int64()}))
    site = "/app/train.py(3): work"
    heads = ("64 bytes", f"64 bytes at {site}", f"at {site}")
    found = [f"{VerdictKind.DECLARED_WRITE.value}: {head}, {text}" for head in heads]
    assert untranslated([text, *found, f"{found[1]} (ranks 0-3)"]) == []


FACTS: list[Mapping[str, tuple[str, ...]]] = [
    {},
    {"setting.events": ("",)},
    {"setting.events": ("alloc", "alloc,free"), "setting.level": ("0",), "setting.devices": ("cpu",), "unobserved_device": ("npu:0", "npu:1")},
    {"setting.steps": ("2,4",), "steps.ended": ("1",), "steps.begun": ("2",), "setting.events": ("free",)},
    {"setting.steps": ("1,2,9",), "steps.ended": ("2",), "steps.begun": ("3",)},
    {"setting.steps": ("7",), "steps.ended": ("0",), "steps.begun": ("1",)},
    {"setting.collect_mode": ("deferred",), "setting.python_stack_depth": ("0",), "setting.native_stack_depth": ("0",)},
]  # fmt: skip


@pytest.mark.parametrize("facts", FACTS)
def test_what_a_recording_leaves_out_is_said(facts: Mapping[str, tuple[str, ...]]) -> None:
    """For every need, of logs, dumps and snapshots."""
    texts: set[str] = set()
    for form, kinds in itertools.product(
        ("event log", "csv", "snapshot"), ([], [EventKind.MALLOC, EventKind.START_TRACE])
    ):
        recorded = Recorded({int(kind): 3 for kind in kinds}, facts, form, has_stacks=False)
        texts |= {*recorded.why_nothing(), *recorded.limits(), *recorded.chosen_steps()}
        for need in Need:
            texts |= {*recorded.why_missing(need), *recorded.not_chosen(need), *recorded.for_a_part(need)}
    assert texts
    assert not (found := untranslated(texts)), "\n".join(found)


def test_every_remedy_is_said() -> None:
    """Of host memory, of pinned memory, and of memory that is reserved and idle."""
    idle = IdleMemory(0, Pool.PTA, IdleCause.SIZES, 1 << 26, 1 << 28, 1 << 27, pl.DataFrame(), settings_variable=COMMON)
    texts = {
        text for name, text in vars(host_growth_words).items() if name.endswith("_REMEDY") and isinstance(text, str)
    }
    assert len(texts) > 5
    texts |= {
        remedy(dataclasses.replace(idle, cause=cause, is_given_back=back))
        for cause in IdleCause
        for back in (False, True)
    }
    texts |= {
        pinned_growth_remedy(PinnedGrowth(1, 9, 1 << 20, "", name)) for name in (COMMON, "PYTORCH_NPU_ALLOC_CONF")
    }
    assert not (found := untranslated(texts)), "\n".join(found)


def test_verdicts_of_every_kind_are_said() -> None:
    """With all that they may say, and with as little as they may."""
    (part,) = report_parts([without_steps()])
    processes = (part.summary, dataclasses.replace(part.summary, process_id=7, place=Place(rank=3)))
    full = {
        "bytes_by_site": (("/app/a.py(1): f, in lib/b.py(3): h", 1 << 20), ("/app/a.py(2): g", 10)),
        "held_by": "main.history[2] -> autograd graph",
        "growth_bytes": 4096,
    }
    spans = {
        VerdictKind.OUT_OF_MEMORY: ("at least 3.00 GiB asked for, 1.50 s after recording began", "10 bytes asked for"),
        VerdictKind.LEAK: ("in step 3", "in steps 2 to 5"),
        VerdictKind.SLOW_LEAK: ("in parts 2 to 9 of the run, which has no steps", "in steps 2 to 50"),
        VerdictKind.RESERVED: tuple(
            why_idle(IdleMemory(0, Pool.PTA, cause, 1 << 26, 1 << 28, 1 << 27, pl.DataFrame(), 2))
            for cause in IdleCause
        ),
        VerdictKind.INEFFICIENT: ("12.5 % of the peak of HOST, pinned could be saved",),
    }
    texts = []
    for kind, words in spans.items():
        size, blocks = (0 if kind is VerdictKind.OUT_OF_MEMORY else 1 << 20), (4 if kind is VerdictKind.LEAK else 0)
        sites = ("", "/app/a.py(1): f", "/app/a.py(1): f, in lib/b.py(3): h")
        for text, site, who in itertools.product(words, sites, (False, True)):
            plain = Verdict(kind, 0, Pool.PTA, size, site, text, processes, blocks)
            texts.append(plain.sentence(names_process=who))
            if kind in {VerdictKind.LEAK, VerdictKind.SLOW_LEAK} and site and "parts" not in text:
                texts.append(dataclasses.replace(plain, **full).sentence(names_process=who))  # type: ignore[arg-type]
    assert not (found := untranslated(texts)), "\n".join(found)


def test_what_is_filled_in_stays_as_it_is() -> None:
    """Numbers and names; what may be lacking is lacking in both."""
    phrases = Phrases(
        {"none": "无"}, {"{count} of {whole}[ at {site}]: {said}": "{whole} 中 {count}[, 位于 {site}]: {said}"}
    )
    assert phrases.said("3 of 4.00 KiB at a, at b: none") == "4.00 KiB 中 3, 位于 a, at b: 无"
    assert phrases.said("3 of 4.00 KiB: other") == "4.00 KiB 中 3: other"
    assert phrases.said("many of 4.00 KiB: none") == "many of 4.00 KiB: none"
    document = {"text": "none", "file": "none", "rows": [[7, "none", None]], "most": [1, 2]}
    assert phrases.document(document) == {"text": "无", "file": "none", "rows": [[7, "无", None]], "most": [1, 2]}


def test_forms_say_what_they_recognise() -> None:
    """Nothing that a sentence has is lost in the other language, and nothing is made up."""
    for form, said in CHINESE_FORMS.items():
        assert set(re.findall(r"\{\w+\}", said)) == set(re.findall(r"\{\w+\}", form)), form


def test_texts_of_programs_cost_no_time() -> None:
    """However much they look like a sentence."""
    assert PHRASES is not None
    hostile = " at a (1 byte) and 1 more line, 1 byte per step, in steps 1, held by a (b)" * 25
    begin = time.perf_counter()
    for start in (
        "leak: 1.00 KiB in 2 blocks on cpu",
        "slow leak: 1.00 KiB on cpu",
        "out of memory on cpu in step 3: leak",
    ):
        PHRASES.said(start + hostile)
    assert time.perf_counter() - begin < 2
