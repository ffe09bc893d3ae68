"""The registry of questions: what one entry brings, and findings of several processes as one list."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING

import polars as pl
import pytest

import msmemscope
from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.findings import FINDING_SCHEMA, MERGED_SCHEMA, merge_findings
from msmemscope.analysis.options import QuestionOptions, Size, option, option_words
from msmemscope.analysis.recorded import Need
from msmemscope.cli.main import main
from msmemscope.errors import ConfigurationError
from msmemscope.questions import QUESTIONS, Question
from tests.support.imports import ROOT
from tests.support.recorded_runs import KEEPING_LINE, KEPT_BYTES, with_dumps, write_run
from tests.unit.cli.test_analyze import RESULT_KEYS

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording import Recording

# --- what every question has -------------------------------------------------------------------------------------------


def test_every_question_is_documented_and_tried() -> None:
    """Its keys in JSON, and its name among the tools for agents, in both languages."""
    assert set(RESULT_KEYS) == set(QUESTIONS)
    for page in ("agents.md", "agents.zh.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert [
            name for name in QUESTIONS if not re.search(rf"^\|.*`{name}`.*\(questions\.md\)", text, re.MULTILINE)
        ] == []


# --- a question as somebody would add it: a folder with this, and one line --------------------------------------------

LARGE_BLOCKS = Subject("Large blocks", needed=(Need.ALLOCATIONS,))


@dataclasses.dataclass(frozen=True)
class LargeBlockOptions(QuestionOptions):
    """Which blocks are large."""

    minimum_bytes: int = option(1 << 20, Size(1), "smaller blocks are not large", spelling="--from")


@dataclasses.dataclass(frozen=True)
class LargeBlocks:
    """The large blocks of one process."""

    blocks: pl.DataFrame
    coverage: Coverage

    def to_polars(self) -> pl.DataFrame:
        """Returns the blocks."""
        return self.blocks


def find_large_blocks(recording: Recording, options: LargeBlockOptions) -> LargeBlocks:
    """Choose by size."""
    large = recording.blocks.filter(pl.col("size") >= options.minimum_bytes).select("device", "size", "address")
    return LargeBlocks(large, coverage_of(LARGE_BLOCKS, recording))


LINE = Question("large", "The blocks that are large.", LargeBlockOptions, find_large_blocks)


def test_a_new_question_is_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then it has its verb, options, help, report and JSON, and its place in the Python interface."""
    monkeypatch.setitem(QUESTIONS, LINE.name, LINE)
    capture = write_run(tmp_path)
    assert msmemscope.list_analyzers()[-1] == "large"
    assert msmemscope.get_analyzer_config("large")["parameters"] == ["input_path", "minimum_bytes"]
    result = msmemscope.load(capture).ask("large", minimum_bytes=KEPT_BYTES + 1)
    assert set(result.blocks["size"]) == {1 << 20}
    assert msmemscope.analyze("large", input_path=capture, minimum_bytes=KEPT_BYTES, quiet=True).blocks.height == 12
    with pytest.raises(ConfigurationError, match=r"minimum_bytes: not accepted: '0' .*bytes, 1 or more"):
        msmemscope.analyze("large", input_path=capture, minimum_bytes=0)

    assert main(["analyze", "large", "--help"]) == 0
    assert "--from SIZE" in capsys.readouterr().out
    assert main(["analyze", "large", str(capture), "--from=512K"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "Large blocks: 12 rows"
    assert shown[1].split() == ["device", "size", "address"]
    assert shown[2].split()[:2] == ["cpu", "524288"]
    assert main(["analyze", "large", str(capture), "--from=1M", "--json"]) == 0
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    assert [block["size"] for block in process["result"]["blocks"]] == [1 << 20] * 6
    assert main(["analyze", "large", str(capture), "--from=0"]) == 2
    assert "--from: not accepted: '0'" in capsys.readouterr().err
    assert main(["analyze", "large", str(capture), "--fail-on-findings"]) == 2  # it only describes


@pytest.mark.parametrize("name", QUESTIONS)
def test_options_are_described(name: str) -> None:
    """Each says what it does, and has a spelling of its own; what it needs is there."""
    words = option_words(QUESTIONS[name].options)
    assert all(one.summary for one in words.values())
    spellings = [one.spelling for one in words.values() if one.spelling]
    assert len(spellings) == len(set(spellings))
    assert {one.needs for one in words.values() if one.needs} <= set(words)


def test_asking_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording answers; its dump stays as it is, though `check_inefficient` writes into it."""
    dump = with_dumps(write_run(tmp_path))
    before = dump.read_bytes()
    assert msmemscope.load(dump).inefficient().findings.height == 6
    assert dump.read_bytes() == before
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def found(*rows: tuple[str, str | None, int, int, int]) -> pl.DataFrame:
    """A table of findings."""
    return pl.DataFrame(rows, FINDING_SCHEMA, orient="row")


def test_findings_of_several_processes() -> None:
    """By kind and call site, with the processes and devices that have them; the same id on two hosts is two processes."""
    merged = merge_findings(
        [
            (7, found(("leak", "a.py(1): f", 0, 100, 1), ("leak", "a.py(1): f", 1, 10, 2), ("leak", None, 0, 5, 1))),
            (7, found(("leak", "a.py(1): f", 0, 100, 1), ("growth", "a.py(1): f", 0, 500, 3))),
            (8, found()),
        ],
        [3, 5, None],
    )
    assert merged.schema == MERGED_SCHEMA
    assert merged.rows() == [
        ("growth", "a.py(1): f", 500, 3, [7], [5], [0]),
        ("leak", "a.py(1): f", 210, 4, [7, 7], [3, 5], [0, 1]),
        ("leak", None, 5, 1, [7], [3], [0]),
    ]
    assert merge_findings([]).schema == MERGED_SCHEMA


def test_ranks_that_leak_at_one_line_are_one_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below the reports of the processes, and in JSON."""
    for process_id in range(1001, 1009):
        write_run(tmp_path, process_id=process_id)
    assert main(["analyze", "leaks", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("All 8 processes, by call site")
    assert lines[place + 2].split() == ["16.0", "MiB", "32", "8", "cpu", "leak"]
    assert lines[place + 3].strip() == KEEPING_LINE
    assert main(["analyze", "leaks", str(tmp_path), "--json"]) == 0
    (merged,) = json.loads(capsys.readouterr().out)["merged"]
    assert merged == {
        "kind": "leak",
        "site": KEEPING_LINE,
        "bytes": 8 * 4 * KEPT_BYTES,
        "count": 32,
        "processes": list(range(1001, 1009)),
        "ranks": [],
        "devices": ["cpu"],
    }


def test_one_process_has_nothing_to_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its report ends as it is."""
    assert main(["analyze", "leaks", str(write_run(tmp_path))]) == 0
    assert "processes, by call site" not in capsys.readouterr().out
