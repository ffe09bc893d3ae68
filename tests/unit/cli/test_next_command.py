"""The line at the end of an answer that says what to type next: for people at a terminal, and for nobody else."""

from __future__ import annotations

import contextlib
import os
import pickle
import pty
import re
import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.analyzer import analyze
from msmemscope.cli.main import main
from msmemscope.questions import QUESTIONS
from tests.integration.test_cuda_snapshot import cuda_snapshot
from tests.support.recorded_runs import write_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that leaks, in a folder whose name a shell takes apart."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "dumb")  # no colours, and no line that comes and goes while something is read
    folder = tmp_path / "a run"
    folder.mkdir()
    return os.path.relpath(write_run(folder), tmp_path)


def at_terminal(monkeypatch: pytest.MonkeyPatch, *, stdout: bool = True, stderr: bool = True) -> None:
    """Have the streams say that they are terminals."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: stdout)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: stderr)


FOLLOWING = [
    (["analyze", "leaks"], "tree PATH --of=leaked"),
    (["analyze", "peak"], "tree PATH"),
    (["analyze", "decompose"], "tree PATH"),
    (["analyze", "card"], "analyze decompose PATH"),
    (["analyze", "oom"], "analyze peak PATH"),
    (["top"], "tree PATH --of=peak"),
    (["top", "--by=churn"], "tree PATH"),
    (["tree"], "view PATH"),
    (["stats"], "top PATH"),
    (["report"], "view PATH"),
    (["export", "--to=speedscope"], "view PATH"),
]


@pytest.mark.parametrize(("words", "following"), FOLLOWING)
def test_at_a_terminal_each_answer_names_what_follows(
    words: list[str],
    following: str,
    run_folder: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As the last line, to be typed as it stands; to stderr, so that the answer itself can still be copied whole."""
    at_terminal(monkeypatch)
    assert main([*words, run_folder]) == 0
    out, err = capsys.readouterr()
    typed = following.replace("PATH", f"'{run_folder}'")
    assert err.splitlines()[-1] == f"next: msmemscope {typed}"
    assert "next: " not in out


@pytest.mark.parametrize("streams", [{"stdout": False}, {"stderr": False}])
def test_nobody_else_sees_it(
    streams: dict[str, bool], run_folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where an answer or the words beside it go to a file, or into a pipe."""
    at_terminal(monkeypatch, **streams)
    assert main(["analyze", "leaks", run_folder]) == 0
    assert main(["top", run_folder]) == 0
    out, err = capsys.readouterr()
    assert "next: " not in out + err


@pytest.mark.parametrize("words", [["analyze", "leaks"], ["top"], ["summary"]])
def test_json_has_none(
    words: list[str], run_folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not on a terminal, either."""
    at_terminal(monkeypatch)
    assert main([*words, "--json", run_folder]) == 0
    out, err = capsys.readouterr()
    assert "next: " not in out + err


def test_a_summary_names_it_once(
    run_folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Itself where it found something, which goes to files as well; else the line is added."""
    at_terminal(monkeypatch)
    assert main(["summary", run_folder]) == 0
    out, err = capsys.readouterr()
    assert len(re.findall("^next: msmemscope analyze leaks ", out, re.MULTILINE)) == 1
    assert "next: " not in err


def out_of_memory(folder: Path) -> list[str]:
    """Snapshots in which memory ran out: for a cause that the question about the peak shows, and for another one."""
    paths = []
    for name, size, free in (("kept", 4 << 20, 8 << 30), ("outside", 40 << 20, 8 << 20)):
        content = cuda_snapshot()
        content["device_traces"][-1][-1].update(size=size, device_free=free)
        path = folder / f"{name}.pickle"
        path.write_bytes(pickle.dumps(content))
        paths.append(str(path))
    return paths


ANSWERS = [
    *(["analyze", name] for name in QUESTIONS),
    ["summary"], ["top"], ["tree"], ["stats"], ["fits"], ["advise"], ["replay"], ["report"], ["export", "--to=speedscope"],
]  # fmt: skip
"""All commands with a next command below their answer, except `view` and `live`, which wait for people."""


@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_nothing_leads_to_itself(
    words: list[str],
    run_folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever an answer says to type next, in its text or below it, is another command: for a leak and out of memory."""
    at_terminal(monkeypatch)
    for path in (run_folder, *out_of_memory(tmp_path)):
        with contextlib.suppress(SystemExit):
            main([*words, path])
        out, err = capsys.readouterr()
        following = re.findall(r"next: msmemscope (.*)", out + err)
        own = [word for word in words if not word.startswith("--")]
        assert [line for line in following if line.split()[: len(own)] == own] == [], (path, following)


def test_most_answers_lead_somewhere(
    run_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that the test above looks at something: those about the peak name the next command exactly once."""
    at_terminal(monkeypatch)
    for path in (run_folder, *out_of_memory(tmp_path)):
        for question in ("peak", "oom"):
            assert main(["analyze", question, path]) == 0
            out, err = capsys.readouterr()
            assert len(re.findall("next: ", out + err)) == 1, (path, question, out + err)


def test_at_a_real_terminal(run_folder: str) -> None:
    """Below the answer."""
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-m", "msmemscope", "top", run_folder])  # noqa: S606 - what is tested
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:  # the end of a terminal
        pass
    os.close(terminal)
    assert os.waitpid(process, 0)[1] == 0
    assert shown.decode().rstrip().splitlines()[-1] == f"next: msmemscope tree '{run_folder}' --of=peak"


def test_out_of_memory_is_a_name_of_the_question(run_folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line and in Python; what it is called elsewhere stays `oom`."""
    assert main(["analyze", "out-of-memory", run_folder]) == 0
    words = capsys.readouterr().out
    assert main(["analyze", "oom", run_folder]) == 0
    assert capsys.readouterr().out == words
    analyze("out-of-memory", input_path=run_folder)
    assert capsys.readouterr().out == words
    assert main(["analyze", "--help"]) == 0
    assert "out-of-memory" not in capsys.readouterr().out
