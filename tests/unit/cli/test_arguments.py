"""A command line is divided into our options and the program with its own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.arguments import (
    HelpRequest,
    LaunchRequest,
    VerbRequest,
    VersionRequest,
    parse_command_line,
)
from msmemscope.configuration import OPTIONS
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def parsed(line: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Our options as (name, value), and the program's words."""
    request = parse_command_line(line.split(), verbs=["events", "recover"])
    assert isinstance(request, LaunchRequest)
    return [(one.option.name, one.value) for one in request.given], list(request.program)


@pytest.mark.parametrize(
    "line, given, program",
    [
        ("bash user.sh", [], ["bash", "user.sh"]),
        ("--level=0 bash user.sh", [("level", "0")], ["bash", "user.sh"]),
        ("--level 0 bash user.sh", [("level", "0")], ["bash", "user.sh"]),
        ("--level=0 -- bash user.sh", [("level", "0")], ["bash", "user.sh"]),
        ("-o out python a.py", [("output", "out")], ["python", "a.py"]),
        ("-oout python a.py", [("output", "out")], ["python", "a.py"]),
        ("-o=out python a.py", [("output", "out")], ["python", "a.py"]),
        ("--output-path=out --format db a", [("output", "out"), ("data-format", "db")], ["a"]),
        ("--events= python a.py", [("events", "")], ["python", "a.py"]),
        # The forms that documents print after the program.
        (
            "python a.py --watch=op0:1,op1,full-content --lr=3",
            [("watch", "op0:1,op1,full-content")],
            ["python", "a.py", "--lr=3"],
        ),
        ("python a.py --analysis=inefficient x", [("analysis", "inefficient")], ["python", "a.py", "x"]),
        ("python a.py --analysis= x", [("analysis", "")], ["python", "a.py", "x"]),
        ("python a.py --steps=2 --level=kernel x", [("steps", "2"), ("level", "kernel")], ["python", "a.py", "x"]),
        ("python a.py --steps=2,3 --level=op", [("steps", "2,3"), ("level", "op")], ["python", "a.py"]),
        (
            "--analysis=leaks python a.py --analysis=oom",
            [("analysis", "leaks"), ("analysis", "oom")],
            ["python", "a.py"],
        ),
        # Everything else is the program's.
        (
            "python t.py --device cpu --output runs/1 --steps 1000",
            [],
            ["python", "t.py", "--device", "cpu", "--output", "runs/1", "--steps", "1000"],
        ),
        (
            "python t.py --device=cpu --output=runs/1 --steps=1000 --level=3 --events=alloc",
            [],
            ["python", "t.py", "--device=cpu", "--output=runs/1", "--steps=1000", "--level=3", "--events=alloc"],
        ),
        ("python a.py --level=kernel --steps=2", [], ["python", "a.py", "--level=kernel", "--steps=2"]),
        ("python a.py --steps=2 x --level=kernel", [], ["python", "a.py", "--steps=2", "x", "--level=kernel"]),
        ("python a.py --steps=0 --level=kernel", [], ["python", "a.py", "--steps=0", "--level=kernel"]),
        ("python a.py --analysis leaks --watch op1", [], ["python", "a.py", "--analysis", "leaks", "--watch", "op1"]),
        ("python a.py --analysis --watch", [], ["python", "a.py", "--analysis", "--watch"]),
        ("python a.py --analysis=pca --watch=5", [], ["python", "a.py", "--analysis=pca", "--watch=5"]),
        ("python a.py --watch=true --watch=a:b", [], ["python", "a.py", "--watch=true", "--watch=a:b"]),
        ("python a.py --analysis2=leaks", [], ["python", "a.py", "--analysis2=leaks"]),
        ("python a.py -o out -v -h -i x", [], ["python", "a.py", "-o", "out", "-v", "-h", "-i", "x"]),
        ("python --version --help", [], ["python", "--version", "--help"]),
        (
            "python a.py --input=x --input-path y --compare",
            [],
            ["python", "a.py", "--input=x", "--input-path", "y", "--compare"],
        ),
        # Habits of people who know another profiler.
        ("run a.py x", [], ["python", "a.py", "x"]),
        ("run --level=0 a.py --level=1", [("level", "0")], ["python", "a.py", "--level=1"]),
        ("run -m package.train --lr=1", [], ["python", "-m", "package.train", "--lr=1"]),
        ("-o out -m package.train -m x", [("output", "out")], ["python", "-m", "package.train", "-m", "x"]),
        ("run python a.py", [], ["python", "a.py"]),
        ("run -- a.py --analysis=leaks", [], ["python", "a.py", "--analysis=leaks"]),
        ("run ./a.out run", [], ["./a.out", "run"]),
        ("run", [], []),
        ("-- run a.py", [], ["run", "a.py"]),
        ("./run a.py", [], ["./run", "a.py"]),
        # -- ends ours.
        ("-- python a.py --analysis=leaks", [], ["python", "a.py", "--analysis=leaks"]),
        ("--level=1 -- python --level=0 -- x", [("level", "1")], ["python", "--level=0", "--", "x"]),
        ("python a.py --watch=op -- --watch=b", [("watch", "op")], ["python", "a.py", "--", "--watch=b"]),
        ("-- --strange", [], ["--strange"]),
        ("-- events", [], ["events"]),
        ("./events x", [], ["./events", "x"]),
        ("python events", [], ["python", "events"]),
        ("", [], []),
        ("--level=0", [("level", "0")], []),
        ("--level=0 --", [("level", "0")], []),
    ],
)
def test_parting(line: str, given: list[tuple[str, str]], program: list[str]) -> None:
    """Every rule of the module's docstring."""
    assert parsed(line) == (given, program)


def test_options_taken_from_the_program_are_remembered() -> None:
    """As they were written, for the note that says so."""
    request = parse_command_line(["python", "a.py", "--steps=5", "--level=op", "--lr", "1", "--analysis=oom:3"])
    assert isinstance(request, LaunchRequest)
    assert request.taken_from_program == ("--steps=5", "--level=op", "--analysis=oom:3")


def test_help_version_and_verbs() -> None:
    """The first of them that is met before the program decides."""
    for line in ("-h", "--help", "--level=0 --help", "--help --nonsense"):
        assert parse_command_line(line.split()) == HelpRequest()
    assert parse_command_line(["--help-all", "--help"]) == HelpRequest(is_whole=True)
    for line in ("-v", "--version", "--level=9 -v"):
        assert parse_command_line(line.split()) == VersionRequest()
    assert parse_command_line(["events", "--level=0"], verbs=["events"]) == VerbRequest("events", ("--level=0",))
    assert parse_command_line(["help"], verbs=["events"]) == HelpRequest()
    assert parse_command_line(["help", "nothing"], verbs=["events"]) == HelpRequest()
    assert parse_command_line(["help", "events"], verbs=["events"]) == VerbRequest("events", ("--help",))


def test_without_python_in_the_path_it_is_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Some systems have python3 alone."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert parsed("-m package") == ([], [sys.executable, "-m", "package"])


@pytest.mark.parametrize(
    "line, message, hint",
    [
        ("--levl=0 python a.py", "unknown option '--levl'", "did you mean --level?"),
        ("--out=x python a.py", "unknown option '--out'", "did you mean --output?"),
        ("--call_stack=c python a.py", "unknown option '--call_stack'", "did you mean --call-stack?"),
        ("-x python a.py", "unknown option '-x'", "--help-all"),
        ("--level", "--level: needs a value", "--level=LIST"),
        ("--level -- python", "--level: needs a value", "--level=LIST"),
        ("--output --level=0 a", "--output: needs a value", "--output=DIR"),
        ("--help=x", "--help: takes no value: 'x'", None),
        ("--help-all=x", "--help-all: takes no value: 'x'", None),
        ("--compare=x a", "--compare: takes no value: 'x'", None),
        ("-m", "-m: needs the name of a module", "-m package.module"),
        ("--level=0 recover x", "a verb comes first, and its options after it: 'recover'", "--"),
    ],
)
def test_what_cannot_be_parted(line: str, message: str, hint: str | None) -> None:
    """The message names the option; the hint says what to do."""
    with pytest.raises(UsageError) as caught:
        parse_command_line(line.split(), verbs=["recover"])
    assert message in caught.value.message
    assert (hint is None) == (caught.value.hint is None)
    assert hint is None or hint in str(caught.value.hint)


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.metavar], ids=lambda option: option.name)
def test_every_option_with_a_value_in_both_forms(option: object) -> None:
    """`--name value` and `--name=value` before the program; after it both are the program's."""
    name = option.name  # type: ignore[attr-defined]
    for line in (f"--{name} x prog", f"--{name}=x prog"):
        assert parsed(line) == ([(name, "x")], ["prog"])
    if name not in {"watch", "analysis"}:
        for line in (f"prog --{name} x", f"prog --{name}=x"):
            assert parsed(line) == ([], line.split())
