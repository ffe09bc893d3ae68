"""`recover` and `events` on event logs of every state."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main
from msmemscope.configuration import Config
from msmemscope.reports.process_report import REPORT_FILE
from tests.fakes.event_log_builder import ATEN_END, ATEN_START, STATE_OPEN, EventLogBuilder

if TYPE_CHECKING:
    from pathlib import Path


def write_capture(
    root: Path, *, process_id: int = 4242, state: int = 2, settings: Config | None = None, rank: str | None = None
) -> Path:
    """A capture with two blocks inside one operator. One of them is freed."""
    log = EventLogBuilder(root, process_id=process_id, state=state)
    for line in (settings or Config(output=str(root), devices=("cpu",))).to_settings_text().split("\n"):
        key, _, value = line.partition("=")
        log.fact(f"setting.{key}", value)
    if rank is not None:
        log.fact("process.rank", rank)
    log.fact("argument", "/usr/bin/python3")
    log.fact("argument", "train.py")
    log.fact("observed.torch_cpu", "posix_memalign, free")
    log.fact("unobserved.operators", "PyTorch is too old")
    operator = log.string("aten.mm")
    stack = log.python_stack((log.code("/home/me/train.py", "step", 7), 0))
    log.add(ATEN_START, name_id=operator)
    kept = log.malloc(0x1000, 4096, name_id=operator, python_stack_id=stack)
    freed = log.malloc(0x9000, 1 << 20, name_id=operator, python_stack_id=stack)
    log.add(ATEN_END, name_id=operator)
    log.free(freed, 0x9000, 1 << 20)
    assert kept
    return log.write()


def dumps_in(capture: Path) -> list[str]:
    """Names of the dump files of a capture."""
    return sorted(path.name.partition("_2")[0] + path.suffix for path in capture.glob("device_*/dump/*"))


@pytest.mark.parametrize("planted", ["hard link", "symbolic link", "fifo", "text"])
def test_a_report_takes_the_place_of_what_has_its_name(planted: str, tmp_path: Path) -> None:
    """Nothing is written through a link, and nobody waits for a reader of a pipe."""
    capture = write_capture(tmp_path / "output")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    report = capture / REPORT_FILE
    if planted == "hard link":
        report.hardlink_to(victim)
    elif planted == "symbolic link":
        report.symlink_to(victim)
    elif planted == "fifo":
        os.mkfifo(report)
    else:
        report.write_text("of an earlier time")
    assert main(["recover", str(capture)]) == 0
    assert victim.read_text() == "precious"
    assert report.is_file()
    assert not report.is_symlink()
    assert report.read_text().startswith("Process 4242: python3 train.py\n")


def test_a_report_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says so, the dump files are there, and the summary does not name it among them."""
    capture = write_capture(tmp_path)
    (capture / REPORT_FILE / "of somebody else").mkdir(parents=True)
    main(["recover", str(capture)])
    text = capsys.readouterr().err
    assert "".join(text.split()).count(f"{REPORT_FILE}cannotbewritten") == 1
    assert dumps_in(capture) == ["memscope_dump.csv"]
    assert f"\n  {REPORT_FILE}\n" not in text
    assert list(capture.glob("*.partial")) == []


@pytest.mark.parametrize("rank", ["9" * 5000, "-1", "\u0663", "", "1e9", "seven"])
def test_what_is_no_rank(rank: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Environments and damaged logs can say anything."""
    for process_id in (1, 2):
        write_capture(tmp_path, process_id=process_id, rank=rank)
    assert main(["recover", str(tmp_path)]) == 0
    assert "rank " not in capsys.readouterr().err


def test_recover_one_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Dump files appear, and the summary says what is in them and how the process ended."""
    capture = write_capture(tmp_path, state=STATE_OPEN)
    assert main(["recover", str(capture)]) == 0
    assert dumps_in(capture) == ["memscope_dump.csv"]
    assert (capture / "config.json").is_file()
    captured = capsys.readouterr()
    assert captured.out == ""
    text = captured.err
    assert "5 events of 1 process" in text
    assert "memscope_dump_" in text
    assert "Peak on cpu (HOST): 1.00 MiB in 2 blocks" in text
    assert "aten.mm" in text
    assert "/home/me/train.py(7): step" in text
    assert "not observed: operators: PyTorch is too old" in text
    assert "the process was killed, aborted, left by _exit or replaced by exec" in text
    assert "leaks not judged: no steps were seen" in text
    report = (capture / "report.txt").read_text()
    assert "Never freed on cpu (HOST): 4.00 KiB in 1 block" in report
    assert "observed: torch_cpu: posix_memalign, free" in report


def test_recover_a_root_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every capture under it, with one table; what was exported before is left alone."""
    first, second = write_capture(tmp_path, process_id=1001), write_capture(tmp_path, process_id=1002)
    assert main(["recover", str(first)]) == 0
    before = sorted(first.rglob("*"))
    capsys.readouterr()
    assert main(["recover", str(tmp_path)]) == 0
    assert sorted(first.rglob("*")) == before
    assert dumps_in(second) == ["memscope_dump.csv"]
    text = capsys.readouterr().err
    assert "10 events of 2 processes" in text
    assert "1001 python3 train.py" in text
    assert "1002 python3 train.py" in text


def test_recover_keeps_the_settings_of_the_run(tmp_path: Path) -> None:
    """The format is the one that was asked for; an override exports once more."""
    write_capture(tmp_path, settings=Config(output=str(tmp_path)))
    capture = next(tmp_path.iterdir())
    assert main(["recover", str(capture), "--data-format=db"]) == 0
    assert dumps_in(capture) == ["memscope_dump.db"]
    assert main(["recover", str(capture)]) == 0
    assert dumps_in(capture) == ["memscope_dump.db"]
    assert main(["recover", str(capture), "--call-stack=python"]) == 0
    assert dumps_in(capture) == ["memscope_dump.csv", "memscope_dump.db"]
    (dump,) = capture.glob("device_cpu/dump/*.csv")
    assert "/home/me/train.py(7): step" in dump.read_text()


def test_recover_one_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs that stop recording by themselves ask to recover one session.

    If nothing was recorded, that is no error.
    """
    capture = write_capture(tmp_path)
    assert main(["recover", str(tmp_path), "--session=00000000000000ff"]) == 0
    assert dumps_in(capture) == []
    assert "nothing was recorded" in capsys.readouterr().err
    assert main(["recover", str(tmp_path), "--session", "0000000000000000"]) == 0
    assert dumps_in(capture) == ["memscope_dump.csv"]


def test_recover_takes_the_event_log_for_its_capture(tmp_path: Path) -> None:
    """Tab completion leads there."""
    capture = write_capture(tmp_path)
    assert main(["recover", str(capture / "event_log")]) == 0
    assert dumps_in(capture) == ["memscope_dump.csv"]


def test_recover_cleans_up_after_a_launcher_that_was_killed(tmp_path: Path) -> None:
    """Its directory goes, that of a living one stays."""
    write_capture(tmp_path)
    stale, living = tmp_path / ".launch_999999999_20240101120000", tmp_path / ".launch_1_20240101120000"
    stale.mkdir()
    living.mkdir()
    assert main(["recover", str(tmp_path)]) == 0
    assert not stale.exists()
    assert living.is_dir()


def test_recover_goes_on_after_a_damaged_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that cannot be read is named; the others are exported."""
    damaged, good = write_capture(tmp_path, process_id=1001), write_capture(tmp_path, process_id=1002)
    (damaged / "event_log" / "process.header").write_bytes(b"nonsense" * 100)
    assert main(["recover", str(tmp_path)]) == 0
    assert dumps_in(good) == ["memscope_dump.csv"]
    assert "1001" in capsys.readouterr().err


def test_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, some of them, or those of one kind by either of its names."""
    capture = write_capture(tmp_path)

    def lines(*options: str) -> list[str]:
        assert main(["events", str(capture), *options]) == 0
        return [line for line in capsys.readouterr().out.splitlines() if line[:1].isdigit()]

    assert len(lines()) == 5
    assert len(lines("--limit=2")) == 2
    assert lines("--limit", "0") == []
    assert len(lines("--kind=malloc")) == 2
    assert len(lines("--kind=MALLOC", "--kind=free")) == 3
    assert len(lines("--kind=op_launch")) == 2
    assert len(lines("--kind=aten-start")) == 1


def test_events_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of our own, not a traceback."""
    assert main(["events", str(tmp_path)]) == 1
    assert "holds no event log" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """`msmemscope events DIR | head` is quiet."""
    log = EventLogBuilder(tmp_path)
    for number in range(20_000):
        log.malloc(0x1000 + 64 * number, 64)
    command = [sys.executable, "-m", "msmemscope", "events", str(log.write())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
