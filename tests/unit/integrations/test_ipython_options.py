"""The line of the magic: leading options, then the statement as it was written."""

from __future__ import annotations

import pytest

from msmemscope.errors import UsageError
from msmemscope.integrations.ipython import _number_of_lines, _split


@pytest.mark.parametrize(
    ("line", "options", "statement"),
    [
        ("", {}, ""),
        ("x = f(1, --y)", {}, "x = f(1, --y)"),
        ("--top=3", {"top": "3"}, ""),
        ("--top 3 --device=npu,cpu x = 1", {"top": "3", "device": "npu,cpu"}, "x = 1"),
        ("--output='a folder' y", {"output": "a folder"}, "y"),
        ('--call-stack "python:5,c:3"  z', {"call_stack": "python:5,c:3"}, "z"),
        ("-o out --format=db q", {"output": "out", "data_format": "db"}, "q"),
        ("--events= x", {"events": ""}, "x"),
        ("-- -x", {}, "-x"),
        ("--top=2 -- --x", {"top": "2"}, "--x"),
    ],
)
def test_options_come_first(line: str, options: dict[str, str], statement: str) -> None:
    """With = or a blank; -- ends them."""
    assert _split(line) == (options, statement)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--leak x", r"unknown option: '--leak' \(accepted: --top, --events"),
        ("--help", "unknown option: '--help'"),
        ("-x + 1", "unknown option: '-x'"),
        ("--device", "--device: needs a value"),
    ],
)
def test_other_options_are_refused(line: str, message: str) -> None:
    """With what is accepted."""
    with pytest.raises(UsageError, match=message):
        _split(line)


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1001", "1.5"])
def test_a_number_of_lines_is_a_number(text: str) -> None:
    """From 1 to 1000."""
    with pytest.raises(UsageError, match="--top: not a number of lines"):
        _number_of_lines(text)
    assert _number_of_lines("1000") == 1000
