"""The history of a run under `--max-size`: kept while it runs, and asked when its events are gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import msmemscope
from msmemscope.cli.main import main
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.history_files import kept_moments
from msmemscope.live.history_moments import HistoryKeeper
from tests.support import tool
from tests.support.small_disk import small_disk
from tests.support.targets import SOURCES, environment

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from tests.support.targets import Builder

MOMENTS = 12
OPTIONS = ("--device=cpu", "--max-size=1M", "--history=1s")
PROGRAM = f"""
import glob, sys, time, torch
kept = []
def step(is_leaky):
    for _ in range(200):
        torch.ones(1000)
    if is_leaky:
        kept.append(torch.ones(25600))
end = time.monotonic() + 120
while len(glob.glob(sys.argv[2] + "/*/history/*.parquet")) < {MOMENTS} and time.monotonic() < end:
    step(sys.argv[1] == "leak")
    time.sleep(0.02)
"""


def analyzed(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[str, dict[str, Any]]:
    """The first line of the answer, and its JSON."""
    assert main(["analyze", "history", str(path), *options]) == 0
    text = capsys.readouterr().out
    assert main(["analyze", "history", str(path), *options, "--json"]) == 0
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    return " ".join(text.partition("\n  ")[0].split()), process


def the_capture(output: Path) -> Path:
    """The one capture in a folder."""
    (found,) = output.glob("msmemscope_*_ascend")
    return found


@pytest.mark.torch
@pytest.mark.slow
def test_a_leak_is_named_though_its_events_are_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """100 KiB per step, by its line; the same program without it is flat. Both run at once."""
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    runs = {
        name: subprocess.Popen(
            [
                *tool.TOOL,
                *OPTIONS,
                f"--output={tmp_path / name}",
                sys.executable,
                str(program),
                name,
                str(tmp_path / name),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for name in ("leak", "healthy")
    }
    words = {name: run.communicate(timeout=180)[1] for name, run in runs.items()}
    assert {name: run.returncode for name, run in runs.items()} == {"leak": 0, "healthy": 0}
    assert {name: "warning" in said for name, said in words.items()} == {"leak": False, "healthy": False}
    verdict, answer = analyzed(the_capture(tmp_path / "leak"), capsys)
    assert verdict.startswith("cpu (HOST) grew by ")
    assert "train.py(8): step holds" in verdict
    moments = msmemscope.load(the_capture(tmp_path / "leak")).history.rows.filter(pl.col("kind") == "pool")
    assert Capture(the_capture(tmp_path / "leak")).header.dropped_recycled > 0
    grown = [row for row in answer["result"]["series"] if row["grows"] and row["kind"] == "site"]
    assert [row["name"].rpartition("/")[2] for row in grown] == ["train.py(8): step"]
    # All of the program's bytes are at that line: 100 KiB for each step since the first moment that is judged.
    first, last = moments.row(0, named=True), moments.row(-1, named=True)
    assert last["blocks"] > first["blocks"] + 50
    assert last["bytes"] == pytest.approx(last["blocks"] * 102_400, rel=0.1)
    assert moments["events"].is_sorted()
    verdict, answer = analyzed(the_capture(tmp_path / "healthy"), capsys, "--minimum-size=16M")
    assert verdict.startswith("flat: in use on cpu (HOST) stayed within ")
    assert answer["is_answered"]
    assert not any(row["grows"] for row in answer["result"]["series"] if row["kind"] in {"pool", "site"})


class Target:
    """A program that does what it is told, and is looked at from outside."""

    def __init__(self, library: Path, output: Path, *options: str, prefix: tuple[str, ...] = ()) -> None:
        program = [sys.executable, str(SOURCES / "allocates_on_request.py"), str(library)]
        self.launcher = subprocess.Popen(
            [*prefix, *tool.TOOL, "--device=cpu", f"--output={output}", *options, "--", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.process_id = int(self._answer().split()[1])

    def __enter__(self) -> Self:
        """It runs."""
        return self

    def __exit__(self, *_: object) -> None:
        """It does not outlive a test that fails."""
        self.launcher.kill()
        self.launcher.communicate()

    def does(self, request: str) -> None:
        """Wait until it has done something."""
        assert self.launcher.stdin is not None
        self.launcher.stdin.write(f"{request}\n")
        self.launcher.stdin.flush()
        assert self._answer().strip() == "done"

    def end(self) -> tuple[int, str]:
        """Let it end, and return the status and the words of its launcher."""
        assert self.launcher.stdin is not None
        self.launcher.stdin.write("end\n")
        self.launcher.stdin.flush()
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """The status and the words of its launcher."""
        words = self.launcher.communicate(timeout=60)[1]
        return self.launcher.returncode, words

    def _answer(self) -> str:
        assert self.launcher.stdout is not None
        return self.launcher.stdout.readline()


def wait_for_moments(capture: Path, count: int) -> None:
    """Until a history has so many."""
    deadline = time.monotonic() + 60
    while len(kept_moments(capture)) < count:
        assert time.monotonic() < deadline, kept_moments(capture)
        time.sleep(0.1)


def pools(capture: Path) -> list[int]:
    """The bytes in use at each moment."""
    return msmemscope.load(capture).history.rows.filter(pl.col("kind") == "pool")["bytes"].to_list()


@pytest.mark.slow
def test_a_killed_program_keeps_its_history(target_builder: Builder, tmp_path: Path) -> None:
    """And gets a last moment: as it was when it was killed. One that ends in order does not: it has freed its memory."""
    with Target(target_builder.library(), tmp_path, "--max-size=1M", "--history=1s", "--host=off") as target:
        target.does("allocate 4096")
        wait_for_moments(the_capture(tmp_path), 2)
        target.does("allocate 1048576")
        os.kill(target.process_id, signal.SIGKILL)
        status, words = target.wait()
        assert status == -signal.SIGKILL
        assert "warning" not in words
        found = pools(the_capture(tmp_path))
        assert found[:2] == [4096, 4096]
        assert found[-1] == 4096 + 1048576
    with Target(target_builder.library(), tmp_path / "ended", "--max-size=1M", "--history=1s", "--host=off") as ended:
        ended.does("allocate 4096")
        wait_for_moments(the_capture(tmp_path / "ended"), 1)
        assert ended.end()[0] == 0
        assert set(pools(the_capture(tmp_path / "ended"))) == {4096}


@pytest.mark.slow
@pytest.mark.parametrize("last, kept", [("free", [8192]), ("allocate 4096", [8192, 12288])])
def test_a_program_that_frees_all_before_it_is_killed(
    last: str, kept: list[int], target_builder: Builder, tmp_path: Path
) -> None:
    """As Python does after Ctrl-C, before the signal ends it: that is no last moment."""
    with Target(target_builder.library(), tmp_path, "--host=off") as target:
        target.does("allocate 8192")
        keeper = HistoryKeeper(lambda: [the_capture(tmp_path)])
        assert keeper.take() == []
        target.does(last)
        os.kill(target.process_id, signal.SIGKILL)
        target.wait()
        assert keeper.take() == []
        assert not keeper.has_running()
        assert pools(the_capture(tmp_path)) == kept


@pytest.mark.slow
def test_a_history_that_cannot_be_kept_harms_nothing(target_builder: Builder, tmp_path: Path) -> None:
    """One line says why, once, and the status stays the program's."""
    with Target(target_builder.library(), tmp_path, "--max-size=1M", "--history=1s", "--host=off") as target:
        target.does("allocate 4096")
        (the_capture(tmp_path) / "history").write_text("taken")
        time.sleep(4)
        target.does("allocate 4096")
        status, words = target.end()
        assert status == 0
        lines = [line for line in words.splitlines() if "the history of the run" in line]
        assert len(lines) == 1, words
        assert lines[0].startswith("msmemscope: warning: the history of the run lacks a moment: folder ")
        assert "Traceback" not in words


@pytest.mark.slow
def test_a_full_disk(target_builder: Builder, tmp_path: Path) -> None:
    """No half a file is left, and the verb says so in one line."""
    prefix, disk, copy = small_disk(tmp_path, 512)
    with Target(target_builder.library(), tmp_path / "run", "--max-size=1M", "--history=off", "--host=off") as target:
        target.does("allocate 4096")
        capture = the_capture(tmp_path / "run")
        script = (
            f"cp -a {capture} {disk}/c && (cat /dev/zero > {disk}/full; true) 2>/dev/null; "
            f"{' '.join(tool.TOOL)} history --once {disk}/*"
        )
        moved = disk / "c"
        finished = subprocess.run(
            [*prefix, "bash", "-c", script.replace(f"{disk}/*", str(moved))],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        assert target.end()[0] == 0
        assert finished.returncode == 1, finished.stderr
        assert finished.stderr.count("warning: ") == 1
        assert "No space left on device" in finished.stderr
        assert [path.name for path in (copy / "c").rglob("*.p*") if "history" in path.parts] == []


@pytest.mark.slow
def test_the_verb_follows_what_runs(target_builder: Builder, tmp_path: Path) -> None:
    """From a folder that is empty at first; it finds the program, and ends with it."""
    output = tmp_path / "results"
    output.mkdir()
    keeping = subprocess.Popen(
        [*tool.TOOL, "history", str(output), "--every=1s"], stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert keeping.stderr is not None
    said = keeping.stderr.readline()
    with Target(target_builder.library(), output, "--host=off") as target:
        target.does("allocate 4096")
        wait_for_moments(the_capture(output), 2)
        assert target.end()[0] == 0
        words = keeping.communicate(timeout=60)[1]
        assert keeping.returncode == 0
        assert (said, words) == (f"msmemscope: history of {output}, which has no capture yet, every 1s\n", "")
        assert set(pools(the_capture(output))) == {4096}


@pytest.mark.slow
def test_a_program_in_another_container(
    target_builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number means nothing here, so its events say that it runs: without new ones there is no new moment."""
    with Target(target_builder.library(), tmp_path, "--host=off") as target:
        target.does("allocate 4096")
        capture = the_capture(tmp_path)
        for module in ("followed_capture", "history_moments"):
            monkeypatch.setattr(f"msmemscope.live.{module}.is_process_alive", lambda _: False)
        keeper = HistoryKeeper(lambda: [capture])
        for allocated in (4096, 8192):
            assert keeper.take() == []
            assert keeper.has_running()
            assert pools(capture)[-1] == allocated
            target.does("allocate 4096")
        keeper.take()
        assert keeper.take() == []
        assert not keeper.has_running()
        assert pools(capture) == [4096, 8192, 12288]
        assert target.end()[0] == 0


@pytest.mark.slow
def test_one_moment_by_the_number_of_a_process(target_builder: Builder, tmp_path: Path) -> None:
    """The program is not touched, and a run without `--max-size` has no history of itself."""
    with Target(target_builder.library(), tmp_path, "--host=off") as target:
        target.does("allocate 4096")
        finished = tool.run([*tool.TOOL, "history", target.process_id, "--once"], output=tmp_path)
        assert (finished.returncode, finished.stderr) == (0, "")
        assert pools(the_capture(tmp_path)) == [4096]
        assert target.end()[0] == 0
        # It has ended in order: there is nothing to keep.
        finished = tool.run([*tool.TOOL, "history", the_capture(tmp_path), "--once"], output=tmp_path)
        assert (finished.returncode, finished.stderr) == (0, "")
        assert len(kept_moments(the_capture(tmp_path))) == 1


@pytest.mark.parametrize(
    "arguments, status",
    [(["--every=1"], 2), (["--every=0s"], 2), (["nowhere"], 2), (["99999999"], 2)],
)
def test_wrong_words_are_refused(
    arguments: list[str],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With what is accepted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("msmemscope.cli.commands.history._give_way", lambda: None)  # not this process
    assert main(["history", *arguments, "--once"]) == status
    assert "accepted: " in capsys.readouterr().err
