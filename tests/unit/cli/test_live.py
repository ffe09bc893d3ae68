"""The verb `live` without a terminal, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from msmemscope.cli.main import main
from msmemscope.errors import UsageError
from msmemscope.live.capture_choice import captures_of_process
from tests.fakes.event_log_builder import CPU, HOST, EventLogBuilder
from tests.support.golden_text import check_golden

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def write_capture(root: Path, process_id: int = 4242) -> Path:
    """A capture that has ended: two sites, labels, an allocation that failed, steps."""
    end = {"end_ns": 1_700_000_000_002_000_000}
    log = EventLogBuilder(root, process_id=process_id, header_fields=end)
    log.fact("argument", "/usr/bin/python3")
    log.fact("argument", "train.py")
    keep = log.python_stack((log.code("/home/me/train.py", "keep", 7), 0))
    load = log.python_stack((log.code("/home/me/\x1b[31mload.py", "load", 9), 0))
    for number in range(3):
        block = log.malloc(0x1000, 4 * MIB, python_stack_id=keep, name_id=log.string("aten.mm"))
        log.free(log.malloc(0x9000, 32 * MIB), 0x9000, 32 * MIB, segment=1)
        log.add(44, size=number + 1, timestamp_ns=1_700_000_000_000_500_000 * (number < 2) or 1_700_000_000_001_900_000)
    log.owner(block, "3model@weight")
    log.malloc(0x1000, MIB, python_stack_id=load)
    log.add(54, size=64 * MIB, device=CPU, pool=HOST, name_id=log.string("posix_memalign"), python_stack_id=load)
    return log.write()


def test_one_snapshot_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data to stdout, words to stderr."""
    write_capture(tmp_path)
    assert main(["live", "msmemscope_4242_20240101120000_ascend"]) == 0
    captured = capsys.readouterr()
    check_golden("live_80.txt", captured.out)
    assert "\x1b" not in captured.out
    assert captured.err.startswith("msmemscope: this is one snapshot")


def test_one_snapshot_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object, with all processes of a folder, and of the latest run where nothing is named."""
    write_capture(tmp_path / "memscopeDumpResults")
    write_capture(tmp_path / "memscopeDumpResults", 11)
    assert main(["live", "memscopeDumpResults", "--once", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["verb"] == "live"
    assert [process["process_id"] for process in content["processes"]] == [11, 4242]
    (process, _) = content["processes"]
    assert process["life"] == "has ended"
    assert process["failed"]["size_bytes"] == 64 * MIB
    (pool,) = process["pools"]
    assert (pool["device"], pool["pool"], pool["in_use_bytes"], pool["peak_bytes"]) == (
        "cpu",
        "HOST",
        13 * MIB,
        44 * MIB,
    )
    assert pool["growth_per_step_bytes"] == 4 * MIB
    assert main(["live", "--json"]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["processes"]) == 1
    assert "the latest run:" in captured.err


@pytest.mark.parametrize(
    "line, message",
    [
        ([""], "PID|DIR: names nothing: '' (accepted: the number of an observed process, a capture folder"),
        (["/no/such/path"], "PID|DIR: is neither a process nor a folder: '/no/such/path' (accepted:"),
        (["."], "PID|DIR: no capture lies there: '.' (accepted:"),
        (["dump.csv"], "PID|DIR: is neither a process nor a folder: 'dump.csv' (accepted:"),
        (["0"], "PID|DIR: no such process runs on this machine: '0' (accepted:"),
        (["9" * 5000], "PID|DIR: no such process runs on this machine: '999"),
        (["--interval=0", "."], "--interval: must be a number of seconds: '0' (accepted: 0.1 to 3600)"),
        (["--interval=1e3", "."], "--interval: must be a number of seconds: '1e3'"),
        (["--interval=\u0663", "."], "--interval: must be a number of seconds"),
        (["--interval=", "."], "--interval: must be a number of seconds: ''"),
        (["--top"], "unrecognized arguments: --top"),
        ([], "a path is missing, and no run lies in"),
    ],
)
def test_bad_arguments(line: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2; nothing on stdout."""
    (tmp_path / "dump.csv").write_text("ID,Event\n")
    assert main(["live", *line]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert "hint: " in captured.err or "accepted: " in captured.err


def test_a_process_that_is_not_observed(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither itself nor what it has started; and what to do."""
    with subprocess.Popen(["sleep", "60"]) as process:
        assert main(["live", str(process.pid)]) == 2
        process.kill()
    error = capsys.readouterr().err
    assert f"PID|DIR: the process is not observed, nor is any that it has started: '{process.pid}'" in error
    assert "hint: a program is observed from its start on: msmemscope python train.py" in error


def test_a_process_that_has_recorded_nothing_yet(capsys: pytest.CaptureFixture[str]) -> None:
    """It will."""
    prepared = {**os.environ, "MSMEMSCOPE_SETTINGS": "output=/nowhere"}
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", "input()"], env=prepared, stdin=subprocess.PIPE
    ) as process:
        assert main(["live", str(process.pid)]) == 2
        process.kill()
    assert "has not recorded anything yet" in capsys.readouterr().err


def test_a_process_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder may be readable all the same."""

    def refused(*_: object, **__: object) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(UsageError, match="belongs to another user") as caught:
        captures_of_process(str(os.getpid()))
    assert caught.value.hint == "name the folder of its capture"


def test_without_the_package_of_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One clear line; a snapshot needs nothing."""
    capture = str(write_capture(tmp_path))
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "textual" else real(name))
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.setattr(sys, "stdin", _Terminal())
    assert main(["live", capture]) == 2
    monkeypatch.undo()
    error = capsys.readouterr().err
    assert "the screen of msmemscope live needs the package textual, which is not installed" in error
    assert "hint: pip install 'msmemscope[live]'; or --once, for one snapshot without it" in error


class _Terminal:
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""


def test_json_of_a_screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """There is none."""
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.setattr(sys, "stdin", _Terminal())
    assert main(["live", "--json"]) == 2
    monkeypatch.undo()
    assert "--json: stands beside --once" in capsys.readouterr().err


def test_help_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """With an example."""
    assert main(["live", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 80
    assert "example: msmemscope live " in "\n".join(lines)
