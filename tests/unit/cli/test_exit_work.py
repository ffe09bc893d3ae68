"""Work at the end of a run is done once: the log is read twice at most, and a dump is written once."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.cli.main import main
from msmemscope.formats.event_log import event_segments, segment_file
from msmemscope.launch import analyses
from msmemscope.model.events import EventKind
from tests.fakes.event_log_builder import PTA, EventLogBuilder
from tests.support.recorded_runs import write_run
from tests.unit.formats.dump.conftest import csv_rows

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.formats.event_log.segment_file import SegmentFile

EVERYTHING = "leaks,inefficient,decompose,oom"
EVENTS = {"events": "alloc,free,launch,access"}
"""The events that the analyses need."""


class BytesRead:
    """Counts what is read of the events of a log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Begin to count."""
        self.count = 0
        original = segment_file.read_bytes

        def counted(segment: SegmentFile, start: int, size: int) -> bytes:
            content = original(segment, start, size)
            self.count += len(content)
            return content

        monkeypatch.setattr(event_segments, "read_bytes", counted)

    def passes_over(self, capture: Path) -> float:
        """How often the events of a capture were read."""
        pages = 4096  # the header of a segment takes a page
        logs = [*capture.glob("event_log/events_*.segment"), *capture.glob("event_log/kept_*.segment")]
        return self.count / sum(path.stat().st_size - pages for path in logs)


@pytest.mark.parametrize("data_format", ["csv", "db"])
@pytest.mark.parametrize("analysis", ["", "leaks", "inefficient", "decompose", EVERYTHING])
def test_the_log_is_read_twice(
    analysis: str, data_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to see what is in it, and once to write the dumps; whatever was asked for."""
    capture = write_run(tmp_path, analysis=analysis, settings={"data_format": data_format, **EVENTS}, has_trace=True)
    read = BytesRead(monkeypatch)
    assert main(["recover", str(capture)]) == 0
    assert read.passes_over(capture) == 2


def test_a_finished_capture_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its dumps are there."""
    capture = write_run(tmp_path, analysis=EVERYTHING, settings=EVENTS)
    assert main(["recover", str(capture)]) == 0
    read = BytesRead(monkeypatch)
    assert main(["recover", str(capture)]) == 0
    assert read.passes_over(capture) == 1


def test_the_log_of_a_flight_recorder_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flight recorder keeps some events apart, and of some blocks it has only the end.

    A failed allocation costs one more read.
    """
    log = EventLogBuilder(tmp_path, header_fields={"dropped_recycled": 4})
    log.fact("setting.analysis", EVERYTHING)
    npu = {"pool": PTA, "device": 0}
    alive = log.malloc(0x1000, 64, **npu)
    log.free(alive + 1, 0x2000, 64, sequence=alive + 2, **npu)
    log.add(EventKind.OOM, size=4096, extra=2, sequence=alive + 3, **npu)
    log.free(alive, 0x1000, 64, sequence=alive + 10, **npu)
    log.kept[0] = [log.events[0].pop(0)]
    capture = log.write()
    read = BytesRead(monkeypatch)
    assert main(["recover", str(capture)]) == 0
    assert read.passes_over(capture) == 3


def test_events_that_are_too_many_to_keep_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same results: of many, what the summary needs stays in memory; of very many, nothing."""
    texts = []
    summaries = []
    for name, most in (("few", 30_000_000), ("lot", 70), ("all", 5)):
        monkeypatch.setattr(analyses, "MOST_EVENTS", most)
        capture = write_run(tmp_path / name, analysis="decompose", settings=EVENTS)
        assert main(["recover", str(capture)]) == 0
        (dump,) = capture.glob("device_cpu/dump/memscope_dump_*.csv")
        texts.append(dump.read_bytes())
        summaries.append(re.sub(r"\d{14}", "TIME", capsys.readouterr().err.replace(str(tmp_path / name), "ROOT")))
    assert texts[0] == texts[1] == texts[2]
    assert summaries[0] == summaries[1] == summaries[2]
    assert b"owner:HOST@ops@aten" in texts[0]


@pytest.mark.parametrize("data_format", ["csv", "db"])
def test_findings_are_written_with_the_rows_as_they_are_written_back(data_format: str, tmp_path: Path) -> None:
    """The dump of a run is the one that an analysis makes of a dump without findings."""
    rows = []
    for analysis in ("inefficient,decompose", "decompose"):
        capture = write_run(tmp_path / analysis, analysis=analysis, settings={"data_format": data_format, **EVENTS})
        assert main(["recover", str(capture)]) == 0
        (dump,) = capture.glob(f"device_cpu/dump/memscope_dump_*.{data_format}")
        if analysis == "decompose":
            assert b"inefficient_type" not in dump.read_bytes()
            assert main(["analyze", "inefficient", str(dump), "--write-back"]) == 0
        rows.append(_content(dump))
    assert rows[0] == rows[1]
    assert "inefficient_type" in str(rows[0])


def _content(dump: Path) -> Any:
    if dump.suffix == ".csv":
        return dump.read_bytes()
    with closing(sqlite3.connect(dump)) as connection:
        return connection.execute("SELECT rowid, * FROM memscope_dump ORDER BY rowid").fetchall()


@pytest.mark.parametrize("function", ["find_inefficient", "owners_of_capture", "decompose_capture"])
@pytest.mark.parametrize("error", [RuntimeError("surprise"), MemoryError()])
def test_a_fault_of_an_analysis_never_costs_the_dump(
    function: str,
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is there without those findings, and one line says what failed and how to try again."""

    def broken(*_arguments: object, **_options: object) -> object:
        raise error

    monkeypatch.setattr(analyses, function, broken)
    capture = write_run(tmp_path, analysis="leaks,inefficient,decompose", settings=EVENTS)
    assert main(["recover", str(capture)]) == 0
    text = capsys.readouterr().err
    failed = "inefficient" if function == "find_inefficient" else "decompose"
    assert text.count(f"{failed}: failed, ") == 1
    assert f"msmemscopeanalyze{failed}{capture}triesagain" in "".join(text.split())
    assert "====== SUMMARY: 2 Mb(s) leaked in 4 allocation(s) ======" in text
    (dump,) = capture.glob("device_cpu/dump/memscope_dump_*.csv")
    allocations = [row for row in csv_rows(dump) if row["Event"] == "MALLOC"]
    assert len(allocations) == 18
    has_owners, has_kinds = (
        any(word in row["Attr"] for row in allocations) for word in ("owner:", "inefficient_type:")
    )
    assert has_owners == (function != "owners_of_capture")
    assert has_kinds == (function != "find_inefficient")
