"""Verdicts on watched memory: what is legitimate, and what is said of what is not."""

from __future__ import annotations

import dataclasses
import io
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.watch.declared_writes import DECLARED_WRITE_SCHEMA
from msmemscope.analysis.watch.sentences import coverage_sentences
from msmemscope.analysis.watch.verdict import (
    NO_CHANGES_IN_DUMPS,
    WATCH_CHANGE_SCHEMA,
    WATCHED_SCHEMA,
    WatchResult,
    judge_watched_memory,
)
from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from msmemscope.reports.watch_report import MOST_CHANGES, render_watch
from tests.fakes.event_log_builder import EventLogBuilder
from tests.support.nightly import NIGHT

if TYPE_CHECKING:
    from pathlib import Path

WATCH, WATCH_START, WATCH_STOP = 55, 56, 57
MAY_WRITE, WRITES_UNKNOWN = 16, 32
PREFIX = "torch._ops."
ALL_BLOCKS = (
    "operators=7,operators_with_all_blocks={},rounds=3,bytes=4096,most_bytes_at_once=1024,live_bytes=512,budget=4194304"
)


class WatchLog:
    """Builds a log with one watched tensor, `test`, of 2 KiB on NPU 0."""

    def __init__(self, root: Path) -> None:
        """Begin with the block and the watch."""
        self.log = EventLogBuilder(root, format_version=4)
        self.before = self.log.malloc(
            0x1000, 512, pool=3, device=0, name_id=self.log.string(f"{PREFIX}aten.zeros.default")
        )
        self.block = self.log.malloc(
            0x1200, 2048, pool=3, device=0, name_id=self.log.string(f"{PREFIX}aten.ones.default")
        )
        self.stack = self.log.python_stack((self.log.code("/home/me/train.py", "main", 12), 0))
        """Of the changes that are appended from here on."""
        self.event(WATCH_START, watch="tensor", id="1", content="light", after="0" * 16)

    def event(self, kind: int, flags: int = 0, name: str = "test", stack: int = 0, **attributes: str) -> int:
        """Append an event about the block."""
        text = self.log.string("\n".join(f"{key}={value}" for key, value in attributes.items()))
        name_id = self.log.string(name) if name else 0
        return self.log.add(
            kind, address=0x1200, size=2048, pool=3, device=0, flags=flags, name_id=name_id, attribute_id=text,
            extra=self.block, python_stack_id=stack,
        )  # fmt: skip

    def change(self, flags: int = 0, **attributes: str) -> int:
        """Append a change; what is not given is that of a call of add that wrote bytes 128 to 255."""
        is_automatic = attributes.get("watch") == "auto"
        defaults = {
            "watch": "tensor", "id": "1", "when": "during", "operator": f"{PREFIX}aten.add.Tensor", "call": "17",
            "source": "aten", "before": "a" * 16, "after": "b" * 16, "changed_bytes": "128", "first": "128", "last": "255",
            "granularity": "1", "ranges": "128-255",
        }  # fmt: skip
        return self.event(WATCH, flags, "" if is_automatic else "test", self.stack, **(defaults | attributes))

    def judged(self) -> WatchResult:
        """Write the log and judge it."""
        return judge_watched_memory(load(self.log.write()))


@pytest.fixture
def log(tmp_path: Path) -> WatchLog:
    """A log without changes."""
    return WatchLog(tmp_path)


def printed(result: WatchResult) -> str:
    """The report as one line."""
    out = io.StringIO()
    render_watch(result, out, width=100, is_coloured=False)
    return " ".join(out.getvalue().split())


@pytest.mark.parametrize(
    ("flags", "attributes", "verdict"),
    [
        (0, {}, "unexpected"),
        (MAY_WRITE, {}, "legitimate"),
        (MAY_WRITE, {"when": "between"}, "legitimate"),
        (WRITES_UNKNOWN, {}, "unknown"),
        (WRITES_UNKNOWN, {"source": "kernel"}, "unknown"),
        (WRITES_UNKNOWN, {"when": "between"}, "unexpected"),
        (WRITES_UNKNOWN, {"when": "between", "source": "kernel"}, "unknown"),
    ],
)
def test_verdicts(log: WatchLog, flags: int, attributes: dict[str, str], verdict: str) -> None:
    """An operator that may write is legitimate; between two, nobody may, except where copies are not followed."""
    log.change(flags, **attributes)
    result = log.judged()
    assert result.changes.schema == WATCH_CHANGE_SCHEMA
    assert result.changes["verdict"].to_list() == [verdict]
    assert result.unexpected.height == (verdict == "unexpected")
    assert (result.changes["sentence"][0] is None) is (verdict == "legitimate")


TENSOR = "tensor `test` (2.00 KiB on npu:0)"


@pytest.mark.parametrize(
    ("flags", "attributes", "sentence"),
    [
        pytest.param(
            0, {},
            f"{TENSOR} changed during aten.add.Tensor (call 17), which does not list it among its outputs: bytes 128..255",
            id="during",
        ),
        pytest.param(
            32, {"when": "between", "previous": f"{PREFIX}aten.sin.default", "previous_call": "3"},
            f"{TENSOR} changed outside of any operator, between aten.sin.default (call 3) and aten.add.Tensor (call 17): "
            "bytes 128..255",
            id="between",
        ),
        pytest.param(
            32, {"when": "between"},
            f"{TENSOR} changed outside of any operator, before aten.add.Tensor (call 17): bytes 128..255",
            id="before the first operator",
        ),
        pytest.param(
            0, {"ranges": "0-1,4-5,8-9,12-13,16-17", "last": "17", "concurrent": "2"},
            f"{TENSOR} changed during aten.add.Tensor (call 17), which does not list it among its outputs: "
            "bytes 0..1, 4..5, 8..9, 12..13 and more, up to 17; 2 other operators ran at that time",
            id="many ranges",
        ),
        pytest.param(
            0, {"ranges": "0-1,4-5,8-9,12-13", "last": "13", "concurrent": "1"},
            f"{TENSOR} changed during aten.add.Tensor (call 17), which does not list it among its outputs: "
            "bytes 0..1, 4..5, 8..9, 12..13; 1 other operator ran at that time",
            id="as many ranges as are listed",
        ),
        pytest.param(
            0, {"ranges": "0-1,4-", "last": "9"},
            f"{TENSOR} changed during aten.add.Tensor (call 17), which does not list it among its outputs: "
            "bytes 0..1 and more, up to 9",
            id="ranges that were cut off",
        ),
        pytest.param(
            0, {"ranges": "", "first": "3", "last": "9"},
            f"{TENSOR} changed during aten.add.Tensor (call 17), which does not list it among its outputs: bytes 3..9",
            id="no ranges",
        ),
        pytest.param(
            32, {"watch": "address", "when": "between", "source": "kernel", "previous": "Cast", "previous_call": "3"},
            "memory `test` (2.00 KiB on npu:0) changed outside of any kernel, between Cast (call 3) and aten.add.Tensor "
            "(call 17): bytes 128..255",
            id="between kernels",
        ),
        pytest.param(
            0, {"ranges": "0-1,...", "last": "90", "watch": "window", "output": "1", "granularity": "1024"},
            "output 1 of test (2.00 KiB on npu:0) changed during aten.add.Tensor (call 17), which does not list it among "
            "its outputs: bytes 0..1 and more, up to 90 (known to 1.00 KiB)",
            id="output",
        ),
        pytest.param(
            32, {"source": "kernel"},
            f"{TENSOR} changed during aten.add.Tensor (call 17), which may or may not write there: bytes 128..255",
            id="unknown",
        ),
        pytest.param(
            32,
            {"watch": "auto", "id": "0", "exact": "0", "when": "between", "previous": f"{PREFIX}aten.sin.default",
             "previous_call": "3"},
            "block of aten.ones.default (2.00 KiB on npu:0, 0x1200) changed at some time from aten.sin.default (call 3) on, "
            "and was found changed before aten.add.Tensor (call 17): bytes 128..255",
            id="not exact",
        ),
        pytest.param(
            0, {"watch": "auto", "id": "0", "exact": "1", "beside": "1"},
            "block of aten.ones.default (2.00 KiB on npu:0, 0x1200) was written by aten.add.Tensor (call 17) beside what "
            "that may write, such as in its padding: bytes 128..255",
            id="padding",
        ),
        pytest.param(
            0, {"watch": "auto", "id": "0", "exact": "1", "more_blocks": "2", "more_until": "9000", "concurrent": "1"},
            "block of aten.ones.default (2.00 KiB on npu:0, 0x1200) changed during aten.add.Tensor (call 17), which does not "
            "list it among its outputs: bytes 128..255; the same write reached 2 more blocks behind it; 1 other operator ran "
            "at that time",
            id="several blocks",
        ),
    ],
)  # fmt: skip
def test_sentences(log: WatchLog, flags: int, attributes: dict[str, str], sentence: str) -> None:
    """One sentence names the memory, the operator with its call, and the bytes."""
    log.change(flags, **attributes)
    assert log.judged().changes["sentence"].to_list() == [sentence]


def test_declared_writes_name_who_wrote_what_is_watched_by_name(log: WatchLog) -> None:
    """Each line once, with its last write; neither what nobody named nor what may not write is among them."""
    for call in ("3", "9"):
        log.change(MAY_WRITE, operator=f"{PREFIX}aten.mul_.Tensor", call=call)
    log.change(MAY_WRITE, writer=f"{PREFIX}aten.copy_.default", writer_call="5", watch="address", id="2")
    log.change(MAY_WRITE, watch="window", id="3")
    log.change(MAY_WRITE, watch="auto", id="0")
    log.change()
    result = log.judged()
    assert result.declared.schema == DECLARED_WRITE_SCHEMA
    sentences = [
        "memory `test` (2.00 KiB on npu:0) was written by aten.copy_.default (call 5), which may write it",
        f"{TENSOR} was written 2 times, last by aten.mul_.Tensor (call 9), which may write it",
    ]
    assert result.declared["sentence"].to_list() == sentences
    assert result.declared["call_site"].to_list() == ["/home/me/train.py(12): main"] * 2
    text = printed(result)
    assert all(f"{sentence[1:]}. at /home/me/train.py(12): main" in text for sentence in sentences)


@pytest.mark.parametrize("is_trained", [True, False])
def test_an_optimizer_writes_what_it_trains(log: WatchLog, *, is_trained: bool) -> None:
    """That is no news; what it writes elsewhere is, and so is what others write into parameters."""
    log.event(WATCH_START, watch="tensor", id="2", content="light", after="0" * 16, trained=str(int(is_trained)))
    line = log.log.code("/home/me/train.py", "main", 12)
    optimizer = log.log.code("/usr/lib/python3.11/site-packages/torch/optim/optimizer.py", "wrapper", 400)
    of_program, log.stack = log.stack, log.log.python_stack((optimizer, 0), (line, 0))
    log.change(MAY_WRITE, id="2")
    assert log.judged().declared.is_empty() is is_trained
    log.stack = of_program
    log.change(MAY_WRITE, id="2")
    assert log.judged().declared["writes"].to_list() == [1 if is_trained else 2]


@pytest.mark.parametrize("is_written", [True, False])
def test_the_block_that_was_overrun(log: WatchLog, *, is_written: bool) -> None:
    """A neighbour is the likely culprit only if the operator may write it."""
    log.change(
        watch="auto", id="0", exact="1", neighbour=str(log.before), neighbour_address=str(0x1000), neighbour_size="512",
        written_neighbour=str(int(is_written)),
    )  # fmt: skip
    (change,) = log.judged().changes.iter_rows(named=True)
    likely = "; likely it ran over the end of what it writes, the block of aten.zeros.default (512 bytes, 0x1000) right before"
    assert change["sentence"].endswith(likely) is is_written
    assert change["neighbour_operator"] == f"{PREFIX}aten.zeros.default"
    assert change["neighbour_is_written"] is is_written


def test_a_block_far_before_was_not_overrun(log: WatchLog) -> None:
    """Whatever lies before the victim somewhere in memory is no suspect: bytes between would have changed too."""
    log.change(
        watch="auto", id="0", exact="1", neighbour=str(log.before), neighbour_address=str(0x1000), neighbour_size="256",
        written_neighbour="1",
    )  # fmt: skip
    (change,) = log.judged().changes.iter_rows(named=True)
    assert change["sentence"].endswith("bytes 128..255")


def test_what_was_watched_is_counted(log: WatchLog) -> None:
    """Changes by verdict for each watch, of two that have the same name too, and how each ended."""
    log.event(WATCH_START, watch="tensor", id="2", content="light", after="0" * 16)
    for flags in (MAY_WRITE, MAY_WRITE, WRITES_UNKNOWN, 0):
        log.change(flags)
    log.change(id="2")
    log.event(WATCH_STOP, watch="tensor", id="1", reason="removed")
    result = log.judged()
    assert result.watched.schema == WATCHED_SCHEMA
    assert result.watched.select("watch_id", "legitimate", "unexpected", "unknown", "end_reason").rows() == [
        (1, 2, 1, 1, "removed"),
        (2, 0, 1, 0, None),
    ]
    assert result.to_polars().height == 5


def test_the_report(log: WatchLog) -> None:
    """Unexpected changes with their line and checksums; the others as counts."""
    for flags in (MAY_WRITE, MAY_WRITE, WRITES_UNKNOWN):
        log.change(flags)
    for _ in range(MOST_CHANGES + 2):
        log.change()
    text = printed(log.judged())
    assert text.startswith(f"ERROR: {MOST_CHANGES + 2} unexpected changes of watched memory Tensor `test` (2.00 KiB")
    assert (
        text.count("does not list it among its outputs: bytes 128..255. at /home/me/train.py(12): main") == MOST_CHANGES
    )
    assert f"checksum {'a' * 16}, then {'b' * 16}" in text
    assert "... and 2 more unexpected changes: aten.add.Tensor (2)" in text
    assert "2 changes by operators that may write it: aten.add.Tensor (2)." in text
    assert "1 change whose legitimacy is not known" in text


def test_many_changes_make_a_short_report(log: WatchLog) -> None:
    """Each change has its row and its sentence; of the report, the length does not depend on their number."""
    repeats = 2_857 if NIGHT else 572
    count = 7 * repeats + 1
    for number in range(count):
        call = {"operator": f"{PREFIX}aten.add{number % 7}.Tensor", "call": str(number)}
        log.change(0, ranges=f"{number}-{number + 1}", first=str(number), last=str(number + 1), **call)
        log.change(MAY_WRITE, **call)
    result = log.judged()
    assert result.changes.height == 2 * count
    assert result.unexpected["sentence"].n_unique() == count
    assert result.unexpected["sentence"][-1].endswith(
        f"aten.add{(count - 1) % 7}.Tensor (call {count - 1}), which does not list it among its outputs: bytes {count - 1}..{count}"
    )
    out = io.StringIO()
    render_watch(result, out, width=100, is_coloured=False)
    assert len(out.getvalue().splitlines()) <= 5 * MOST_CHANGES
    text = " ".join(out.getvalue().split())
    # The twenty that are listed are three of the first operator, which has one more than the last, and two of the last.
    rest = f"{repeats - 2:,}"
    assert (
        f"... and {count - 20:,} more unexpected changes: aten.add0.Tensor ({rest}), aten.add6.Tensor ({rest})" in text
    )
    assert f"{count:,} changes by operators that may write it" in text


def test_a_window_that_never_began_is_said(log: WatchLog) -> None:
    """Also where nothing else was watched: otherwise the report would say that watching was not asked for."""
    log.log.fact("watch.window_never_began", f"{PREFIX}aten.addmn.default")
    for name in ("aten.addmm.default", "aten.convolution.default"):
        log.log.add(EventKind.ATEN_START, name_id=log.log.string(f"{PREFIX}{name}"))
    sentence = "aten.addmn.default never ran: none of its outputs was watched; what did run: aten.addmm.default."
    assert log.judged().extent == (sentence,)
    assert sentence in printed(log.judged())


def test_incomplete_files_are_said(log: WatchLog) -> None:
    """From the fact of this process; a forked child has that of its parent, and files of its own."""
    log.log.fact("watch.files_ended", "process=17,bytes=1,reason=of the parent")
    log.log.fact("watch.files_ended", f"process={log.log.process_id},bytes=2048,reason=a, b=c")
    result = log.judged()
    (sentence,) = result.files
    assert sentence.startswith(
        "Files of watched memory are incomplete: nothing more was written after 2.00 KiB (a, b=c)."
    )
    assert sentence in printed(result)


def test_no_checksum_where_it_says_nothing(log: WatchLog) -> None:
    """Of what was written beside an output, the legitimate bytes are not told apart."""
    log.change(watch="auto", id="0", beside="1", after="a" * 16)
    text = printed(log.judged())
    assert "was written by aten.add.Tensor (call 17) beside" in text
    assert "checksum" not in text


def test_a_clean_watch_and_none(log: WatchLog, tmp_path: Path) -> None:
    """Nothing is said to be unexpected; and where nothing was watched, that is said."""
    text = printed(log.judged())
    assert text == "Watched memory: no unexpected change Watched: 1 piece of memory, test."
    unwatched = EventLogBuilder(tmp_path / "other")
    unwatched.malloc(0x1000, 64)
    result = judge_watched_memory(load(unwatched.write()))
    assert not result.was_watched
    assert result.coverage.is_answered
    assert printed(result) == "No memory was watched"
    dump = dataclasses.replace(load(unwatched.write()), form="csv")
    assert judge_watched_memory(dump).coverage.missing == (NO_CHANGES_IN_DUMPS,)


def test_coverage_of_automatic_watching(log: WatchLog) -> None:
    """From the fact; and a sentence if the process could not write it any more."""
    log.log.fact("setting.watch", "auto")
    log.log.fact("watch.coverage", ALL_BLOCKS.format(7))
    (sentence,) = log.judged().extent
    assert (
        "all live blocks were looked at before each of 7 operators (4.00 KiB in all, at most 1.00 KiB at once)"
        in sentence
    )
    (sentence,) = coverage_sentences({"watch.coverage": (ALL_BLOCKS.format(2),)})
    assert "before 2 of 7 operators" in sentence
    assert "blocks took turns, 3 times in full" in sentence
    assert "--watch-budget (now 4.00 MiB)" in sentence
    (sentence,) = coverage_sentences({"setting.watch": ("auto,full-content",)})
    assert "not known" in sentence
    assert coverage_sentences({"setting.watch": ("torch._ops.aten.sin.default",)}) == ()
