"""Each tool by itself, without any protocol."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from msmemscope.agent.toolbox import Toolbox
from msmemscope.analysis.options import QuestionOptions
from msmemscope.cli.main import main
from msmemscope.questions import QUESTIONS
from tests.support.recorded_runs import HELD_BYTES, KEEPING_LINE, KEPT_BYTES, with_dumps, write_run


def answer(name: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool."""
    reply = Toolbox().call(name, arguments)
    assert not reply.is_error, reply.text
    found: dict[str, Any] = json.loads(reply.text)
    return found


def error(name: str, **arguments: Any) -> str:
    """The words with which a tool refuses."""
    reply = Toolbox().call(name, arguments)
    assert reply.is_error, reply.text
    return reply.text


def test_a_new_question_is_a_new_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without further code."""
    monkeypatch.setitem(
        QUESTIONS, "again", dataclasses.replace(QUESTIONS["watch"], name="again", options=QuestionOptions)
    )
    assert "again" in Toolbox().tools
    assert answer("again", path=str(write_run(tmp_path)))["question"] == "again"


def test_what_writes_is_not_offered(tmp_path: Path) -> None:
    """And nothing is written by a question that would write on a command line."""
    dump = with_dumps(write_run(tmp_path))
    before = dump.read_bytes()
    assert answer("inefficient", path=str(dump))["processes"][0]["result"]["findings"]
    assert dump.read_bytes() == before
    assert "no such parameter: 'write_back' (accepted: path, " in error("inefficient", path=str(dump), write_back=True)
    assert "no such parameter: 'csv'" in error("operators", path=str(dump), csv="rows.csv")


def test_questions_answer_as_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same result."""
    capture = write_run(tmp_path)
    assert main(["analyze", "peak", str(capture), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["processes"]
    assert answer("peak", path=str(capture))["processes"][0]["result"] == shown["result"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "path: is missing"),
        ({"path": 3}, "path: not of the right type: '3' (accepted: string)"),
        ({"path": " "}, "path: names nothing"),
        ({"path": "/nowhere/at/all"}, "hint: give a capture folder"),
        ({"path": "x", "idle_treshold": 3}, "did you mean 'idle_threshold'?"),
        ({"path": "x", "idle_threshold": 0}, "a whole number of operators, 1 or more"),
        ({"path": "x", "idle_threshold": True}, "not of the right type"),
        ({"path": "x", "idle_threshold": 1 << 80}, "too large a number"),
        ({"path": "x", "mem_size": "many"}, "mem_size: not a size"),
        ({"path": "x", "inefficient_type": ["lost"]}, "not a kind of inefficient memory"),
        ({"path": "x", "limit": 0}, "limit: not accepted"),
    ],
)
def test_arguments_that_are_not_accepted(arguments: dict[str, Any], words: str) -> None:
    """The error says what is."""
    assert words in error("inefficient", **arguments)


def test_an_unknown_tool() -> None:
    """The ones that there are are named."""
    assert "no such tool: 'leak' (accepted: list_runs, summary, load, compare, leaks" in error("leak")


def test_runs_and_what_lies_there(tmp_path: Path) -> None:
    """From the output folder to a capture, and what it holds."""
    capture = write_run(tmp_path)
    (run,) = answer("list_runs", folder=str(tmp_path))["runs"]
    assert run["paths"] == [str(capture)]
    (process,) = answer("load", path=run["paths"][0])["processes"]
    assert (process["process_id"], process["devices"], process["steps"]["last"]) == (4242, ["cpu"], 6)
    assert "is no folder" in error("list_runs", folder=str(tmp_path / "none"))


def test_the_summary_is_that_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its first line, its verdicts, and what was not judged; of a capture and of a dump."""
    capture = write_run(tmp_path)
    for path in (capture, with_dumps(capture)):
        assert main(["summary", str(path), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["first_line"]
        assert answer("summary", path=str(path)) == shown


def test_compare_steps(tmp_path: Path) -> None:
    """Of one run."""
    capture = str(write_run(tmp_path))
    (pair,) = answer("compare", base=capture, compare=capture, base_step=1, compare_step=3)["pairs"]
    assert pair["result"]["peaks"][0]["difference_bytes"] == 2 * KEPT_BYTES
    assert "step" in error("compare", base=capture, compare=capture, base_step=99)


def test_blocks_around_moments(tmp_path: Path) -> None:
    """An event, a step, and the history of an address."""
    capture = str(write_run(tmp_path))
    around = answer("blocks_around", path=capture, sequence=20)
    assert [block["size"] for block in around["in_use"]] == [KEPT_BYTES]
    assert around == {**answer("blocks_around", path=capture, time_ns=around["time_ns"])}
    during = answer("blocks_around", path=capture, step=2)
    assert [block["size"] for block in during["allocated"]] == [HELD_BYTES, KEPT_BYTES, 4096]
    assert [block["size"] for block in during["freed"]] == [HELD_BYTES, 4096]
    history = answer("blocks_around", path=capture, address="0x1fff")["blocks"]
    assert len(history) == 6
    assert {block["address"] for block in history} == {"0x0000000000001000"}
    assert answer("blocks_around", path=capture, address=0x2000)["blocks"] == []
    assert "one of sequence, time_ns, step, address" in error("blocks_around", path=capture)
    assert "sequence and step are named" in error("blocks_around", path=capture, sequence=1, step=1)
    assert "(accepted: 1 to 108)" in error("blocks_around", path=capture, sequence=999)
    assert "(accepted: 1 to 6)" in error("blocks_around", path=capture, step=7)
    assert "no address" in error("blocks_around", path=capture, address="here")
    assert "(accepted: cpu)" in error("blocks_around", path=capture, step=1, device="npu:0")


def test_several_processes(tmp_path: Path) -> None:
    """All are asked, or the one that is named."""
    for process_id in (1, 2):
        write_run(tmp_path, process_id=process_id)
    found = answer("leaks", path=str(tmp_path))
    assert len(found["processes"]) == 2
    assert found["merged"][0]["site"] == KEEPING_LINE
    assert len(answer("leaks", path=str(tmp_path), process=2)["processes"]) == 1
    assert "(accepted: 1, 2)" in error("leaks", path=str(tmp_path), process=3)
    assert "one must be named" in error("blocks_around", path=str(tmp_path), step=1)
    rows = answer("leaks", path=str(tmp_path), table="processes/1/result/python_stacks")["rows"]
    assert rows[0]["text"].startswith(KEEPING_LINE)


def test_recordings_are_kept_until_they_change(tmp_path: Path) -> None:
    """The second question reads nothing; a file of another time does."""
    from msmemscope.agent.loaded_recordings import LoadedRecordings

    dump = with_dumps(write_run(tmp_path))
    recordings = LoadedRecordings()
    first = recordings.at(str(dump))
    assert recordings.at(str(dump)) is first
    os.utime(dump, ns=(1, 1))
    assert recordings.at(str(dump)) is not first


def test_only_lines_that_stacks_name_are_read(tmp_path: Path) -> None:
    """Of files that are called as source text, also behind links."""
    program, secret, link = tmp_path / "train.py", tmp_path / "secret", tmp_path / "linked.py"
    program.write_text("".join(f"line {number}\n" for number in range(1, 31)), encoding="utf-8")
    secret.write_text("password\n" * 30, encoding="utf-8")
    link.symlink_to(secret)
    capture = str(write_run(tmp_path / "a", program=str(program)))
    found = answer("source_line", path=capture, site=f"{program}(11): keep", around=1)
    assert (found["first_line"], found["lines"]) == (10, ["line 10", "line 11", "line 12"])
    assert "of this file, lines 11, 22" in error("source_line", path=capture, site=f"{program}(12): keep")
    for other in (__file__, secret, link):
        assert "names this file" in error("source_line", path=capture, site=f"{other}(11): keep")
    for other in (secret, link, Path("/dev/zero")):
        hostile = str(write_run(tmp_path / f"of {other.name}", program=str(other)))
        text = error("source_line", path=hostile, site=f"{other}(11): keep")
        assert "no file of source text" in text
        assert "password" not in text
    assert "names no line" in error("source_line", path=capture, site="aten.mm")
