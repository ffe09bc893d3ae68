"""`msmemscope compare` of results of several processes: pairs by device, or a line that says how to choose."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.commands import compare as command
from msmemscope.cli.main import main
from tests.fakes.event_rows import dataset_of, end, malloc, start
from tests.support.recorded_runs import write_run

if TYPE_CHECKING:
    from msmemscope.recording import Recording


def process(number: int, device: int | None) -> Recording:
    """A process that allocates on a device, or nothing."""
    place = {"device": 0 if device is None else device}
    rows = [start(1, **place), *([] if device is None else [malloc(10, **place)]), end(1, **place)]
    recording = dataset_of(rows)
    return dataclasses.replace(recording, process_id=number, source=f"runs/msmemscope_{number}_2024_ascend")


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Recording, ...]]:
    """The recordings at paths."""
    results: dict[str, tuple[Recording, ...]] = {}
    monkeypatch.setattr(command, "_loaded", lambda side: results[str(side.path)])
    return results


def test_ranks_are_paired_by_their_devices(
    loaded: dict[str, tuple[Recording, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In whatever order they lie there; a helper that allocates nothing is no rank."""
    loaded["A"] = (process(1, 0), process(2, 1), process(9, None))
    loaded["B"] = (process(12, 1), process(11, 0))
    assert main(["compare", "A", "B", f"--output={tmp_path}"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Process ")]
    assert lines == ["Process 1 in base, process 11 in compare", "Process 2 in base, process 12 in compare"]
    assert main(["compare", "A", "B", f"--output={tmp_path}", "--json"]) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert [pair["peaks"][0]["device"] for pair in pairs] == ["npu:0", "npu:1"]


def test_one_process_is_compared_with_that_of_its_device(
    loaded: dict[str, tuple[Recording, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a program with a helper that allocates nothing is one process."""
    loaded["A"] = (process(1, 1),)
    loaded["B"] = (process(11, 0), process(12, 1))
    loaded["C"] = (process(21, 5), process(22, None))
    assert main(["compare", "A", "B", f"--output={tmp_path}"]) == 0
    assert "peak on npu:1: 10 bytes in base, 10 bytes in compare (equal)" in capsys.readouterr().out
    assert main(["compare", "A", "C", f"--output={tmp_path}"]) == 0
    assert "peak on npu:5: 0 bytes in base, 10 bytes in compare" in capsys.readouterr().out


def test_processes_of_the_same_device_must_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the processes, and a command that names one of each side; nothing is written."""
    for number in (41, 42):
        write_run(tmp_path / "runs", process_id=number)
    runs = str(tmp_path / "runs")
    assert main(["compare", runs, runs, f"--output={tmp_path / 'output'}"]) == 2
    captured = capsys.readouterr()
    assert "41 (cpu), 42 (cpu)" in captured.err
    (hint,) = [line for line in captured.err.splitlines() if "msmemscope compare " in line]
    chosen = hint.partition("msmemscope compare ")[2].split()
    assert len(chosen) == 2
    assert all(Path(path).name.startswith("msmemscope_41_") for path in chosen)
    assert not (tmp_path / "output").exists()
    assert main(["compare", *chosen, f"--output={tmp_path / 'output'}"]) == 0
