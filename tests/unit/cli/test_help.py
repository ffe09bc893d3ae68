"""The help text."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmemscope.cli.commands import VERBS, command_named
from msmemscope.cli.help_text import help_text
from msmemscope.cli.main import main
from msmemscope.configuration import OPTION_BY_SPELLING, OPTIONS


def test_help_names_every_option_and_verb() -> None:
    """With all spellings, what is accepted and the default."""
    text = help_text(VERBS)
    flowing = " ".join(text.split())
    for spelling in OPTION_BY_SPELLING:
        assert spelling in text
    for option in OPTIONS:
        assert " ".join(option.summary.split()) in flowing
        assert option.accepted in flowing
        assert option.default in flowing
    for verb in VERBS:
        assert f"  {verb}" in text


def test_help_fits_the_terminal() -> None:
    """80 columns."""
    text = help_text(VERBS)
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("line", [["--help"], ["-h"]])
def test_help_goes_to_stdout(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It was asked for: status 0."""
    assert main(line) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Usage: msmemscope ")
    assert captured.err == ""


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """From the docstring of its class, which knows its name."""
    assert command_named(verb).name == verb
    assert main([verb, "--help"]) == 0
    assert f"usage: msmemscope {verb}" in capsys.readouterr().out


def test_every_verb_has_a_file_of_its_own() -> None:
    """One file per verb, all of them listed."""
    import msmemscope.cli.commands as package

    files = {path.stem for path in Path(str(package.__file__)).parent.glob("*.py")} - {"__init__"}
    assert files == {verb.replace("-", "_") for verb in VERBS}
