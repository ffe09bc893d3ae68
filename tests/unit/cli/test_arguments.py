"""What of a command line is ours, and what is the program's."""

from __future__ import annotations

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
        ("python a.py --events=alloc", [("events", "alloc")], ["python", "a.py"]),
        ("python a.py --events alloc --lr 3", [("events", "alloc")], ["python", "a.py", "--lr", "3"]),
        ("python a.py --lr=3 --steps=1,2 x", [("steps", "1,2")], ["python", "a.py", "--lr=3", "x"]),
        ("python a.py --call-stack= x", [("call-stack", "")], ["python", "a.py", "x"]),
        ("--steps=1 python a.py --steps=2", [("steps", "1"), ("steps", "2")], ["python", "a.py"]),
        # Not exactly ours: the program's.
        ("python a.py --event=alloc", [], ["python", "a.py", "--event=alloc"]),
        ("python a.py --levels=1", [], ["python", "a.py", "--levels=1"]),
        ("python a.py -o out -v -h -i x", [], ["python", "a.py", "-o", "out", "-v", "-h", "-i", "x"]),
        ("python --version --help", [], ["python", "--version", "--help"]),
        (
            "python a.py --input=x --input-path y --compare",
            [],
            ["python", "a.py", "--input=x", "--input-path", "y", "--compare"],
        ),
        # -- ends ours.
        ("-- python a.py --events=alloc", [], ["python", "a.py", "--events=alloc"]),
        ("--level=1 -- python --level=0 -- x", [("level", "1")], ["python", "--level=0", "--", "x"]),
        ("python a.py --level=1 -- --level=0", [("level", "1")], ["python", "a.py", "--", "--level=0"]),
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
    request = parse_command_line(["python", "a.py", "--steps", "5", "--device=cpu", "--lr", "1"])
    assert isinstance(request, LaunchRequest)
    assert request.taken_from_program == ("--steps 5", "--device=cpu")


def test_help_version_and_verbs() -> None:
    """The first of them that is met before the program decides."""
    for line in ("-h", "--help", "--level=0 --help", "--help --nonsense"):
        assert parse_command_line(line.split()) == HelpRequest()
    for line in ("-v", "--version", "--level=9 -v"):
        assert parse_command_line(line.split()) == VersionRequest()
    assert parse_command_line(["events", "--level=0"], verbs=["events"]) == VerbRequest("events", ("--level=0",))


@pytest.mark.parametrize(
    "line, message, hint",
    [
        ("--levl=0 python a.py", "unknown option '--levl'", "did you mean --level?"),
        ("--out=x python a.py", "unknown option '--out'", "did you mean --output?"),
        ("--call_stack=c python a.py", "unknown option '--call_stack'", "did you mean --call-stack?"),
        ("-x python a.py", "unknown option '-x'", "--help"),
        ("--level", "--level: needs a value", "--level=LIST"),
        ("--level -- python", "--level: needs a value", "--level=LIST"),
        ("--output --level=0 a", "--output: needs a value", "--output=DIR"),
        ("python a.py --steps", "--steps: needs a value", "--"),
        ("python a.py --steps --lr=1", "--steps: needs a value", "put -- before the program"),
        ("--help=x", "--help: takes no value: 'x'", None),
        ("--compare=x a", "--compare: takes no value: 'x'", None),
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
    """`--name value` and `--name=value`, before and after the program alike."""
    name = option.name  # type: ignore[attr-defined]
    after_program = option.after_program  # type: ignore[attr-defined]
    for line in (f"--{name} x prog", f"--{name}=x prog"):
        assert parsed(line) == ([(name, "x")], ["prog"])
    for line in (f"prog --{name} x", f"prog --{name}=x"):
        assert (parsed(line) == ([(name, "x")], ["prog"])) is after_program
