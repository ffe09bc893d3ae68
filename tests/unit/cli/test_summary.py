"""The verb `summary`: the screen at the end of a run, of whatever it can be read from."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.cli.main import main
from tests.support.golden_text import check_golden
from tests.support.recorded_runs import KEPT_BYTES, with_dumps, write_run

if TYPE_CHECKING:
    from pathlib import Path

VERDICT = "msmemscope: leak: 2.00 MiB in 4 blocks on cpu at /home/me/train.py(11):"


pytestmark = pytest.mark.usefixtures("in_folder_of_test")


def summarized(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The output of the verb."""
    capsys.readouterr()
    assert main(["summary", *line]) == 0
    return capsys.readouterr().out


def content(capsys: pytest.CaptureFixture[str], *line: str) -> dict[str, Any]:
    """The same for scripts."""
    found: dict[str, Any] = json.loads(summarized(capsys, *line, "--json"))
    return found


def test_it_is_the_summary_that_the_run_ended_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line what `recover` says when it finishes a run, and nothing is written."""
    capture = write_run(tmp_path / "runs")
    capsys.readouterr()
    assert main(["recover", str(capture)]) == 0
    at_end = capsys.readouterr().err
    before = sorted(tmp_path.rglob("*"))
    assert VERDICT in at_end
    of_verb, of_run = (text.partition("Files in ")[0] for text in (summarized(capsys, str(capture)), at_end))
    assert of_verb == of_run
    assert sorted(tmp_path.rglob("*")) == before


def test_as_it_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A capture that has no dump files yet, at 80 columns."""
    write_run(tmp_path / "runs")
    check_golden("summary_run_80.txt", summarized(capsys, "runs"))


def test_the_event_log_in_a_capture_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `analyze` has it."""
    capture = write_run(tmp_path / "runs")
    assert summarized(capsys, str(capture / "event_log")) == summarized(capsys, str(capture))


@pytest.mark.parametrize("data_format", ["csv", "db"])
def test_a_dump_alone_is_summed_up(data_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its leaks are found, and it is named as what was read: there is no folder of results."""
    dump = with_dumps(write_run(tmp_path / "runs"), data_format)
    dump.rename(tmp_path / f"dump.{data_format}")
    text = summarized(capsys, f"dump.{data_format}")
    assert text.startswith("\nmsmemscope: leak: 2.00 MiB in 4 blocks on cpu at aten.ones")
    assert f"next: msmemscope analyze leaks dump.{data_format}\n" in text
    assert f"\nRead from dump.{data_format} ({data_format})\n" in text
    assert "report.txt" not in text


def test_a_snapshot_of_torch_is_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An exported snapshot is summed up with its peak."""
    capture = write_run(tmp_path / "runs")
    assert main(["export", str(capture), "--to=torch-snapshot", "-o", "snapshot.pickle"]) == 0
    text = summarized(capsys, "snapshot.pickle")
    assert "Peak on " in text
    assert "Read from snapshot.pickle (torch snapshot)" in text


def test_several_processes_are_one_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings that ranks share are said once. Captures with a damaged log are read from their dumps."""
    for rank in range(2):
        damaged = write_run(tmp_path / "runs", process_id=100 + rank, rank=rank)
    text = summarized(capsys, "runs")
    assert "leak: 4.00 MiB in 8 blocks" in text
    assert "(ranks 0-1)" in " ".join(text.split())
    with_dumps(damaged)
    for segment in (damaged / "event_log").iterdir():
        segment.write_bytes(b"damaged")
    found = content(capsys, "runs")
    assert [process["form"] for process in found["processes"]] == ["event log", "csv"]
    assert "the event log cannot be read, its dumps were read instead" in found["processes"][1]["coverage"][0]


def test_one_that_cannot_be_read_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are summed up; without any the error is that of reading it."""
    write_run(tmp_path / "runs", process_id=100)
    broken = write_run(tmp_path / "runs", process_id=200)
    for segment in (broken / "event_log").iterdir():
        segment.write_bytes(b"damaged")
    assert main(["summary", "runs"]) == 0
    captured = capsys.readouterr()
    assert VERDICT in captured.out
    assert "warning" in captured.err
    assert main(["summary", str(broken)]) == 1
    assert capsys.readouterr().err.startswith("msmemscope: error: ")


def test_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdicts with their bytes, and the figures of each process."""
    capture = write_run(tmp_path / "runs")
    found = content(capsys, str(capture))
    (verdict,) = found["verdicts"]
    assert (verdict["kind"], verdict["size_bytes"], verdict["block_count"]) == ("leak", 4 * KEPT_BYTES, 4)
    (process,) = found["processes"]
    assert (process["process_id"], process["program"]) == (4242, "python3 train.py")
    assert [peak["peak_bytes"] for peak in process["peaks"]] == [process["peaks"][0]["peak_bytes"]]
    shutil.rmtree(capture)
    healthy = write_run(tmp_path / "runs", leaks=False)
    assert content(capsys, str(healthy))["nothing_found"].startswith("nothing found: no leak over 6 steps")


def test_names_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They come from the program."""
    capture = write_run(tmp_path / "runs", program="/tmp/\x1b[31mred\u202e.py")
    text = summarized(capsys, str(capture))
    assert not {"\x1b", "\u202e"} & set(text)


def test_without_a_path_it_is_the_latest_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the output folder; without one, that is said."""
    assert main(["summary"]) == 2
    assert "a path is missing" in capsys.readouterr().err
    write_run(tmp_path / "memscopeDumpResults")
    assert main(["summary"]) == 0
    captured = capsys.readouterr()
    assert "the latest run: " in captured.err
    assert VERDICT in captured.out
