"""A process gets its name from the command line that was recorded."""

from __future__ import annotations

import pytest

from msmemscope.launch.captures import program_text


@pytest.mark.parametrize(
    ("arguments", "executables", "text"),
    [
        (("/usr/bin/python3", "train.py", "--name", ""), (), "python3 train.py --name"),
        (("ray::Rollout.work", *[""] * 300), ("/usr/bin/python3",), "ray::Rollout.work"),
        (("", ""), ("/usr/bin/python3",), "/usr/bin/python3"),
        (("sh", "", "a b"), (), "sh '' 'a b'"),
        ((), (), "?"),
    ],
)
def test_a_program_is_called_by_its_command_line(
    arguments: tuple[str, ...], executables: tuple[str, ...], text: str
) -> None:
    """Without the blanks of a process that has given itself a title."""
    assert program_text(arguments, executables) == text
