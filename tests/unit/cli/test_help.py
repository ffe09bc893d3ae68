"""Both texts of help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.arguments import LaunchRequest, parse_command_line
from msmemscope.cli.commands import VERBS, VERBS_BY_PURPOSE, command_named
from msmemscope.cli.help_text import MOST_USED, help_on_a_screen, whole_help
from msmemscope.cli.main import main
from msmemscope.configuration import OPTION_BY_SPELLING, OPTIONS, Config, with_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


LINES_OF_A_SCREEN = 40


def test_the_help_fits_one_screen() -> None:
    """It has all verbs, each once and below what one wants to do, and leads to the options that it leaves out."""
    lines = help_on_a_screen(VERBS_BY_PURPOSE).splitlines()
    assert len(lines) <= LINES_OF_A_SCREEN
    for purpose, verbs in VERBS_BY_PURPOSE.items():
        begin = lines.index(f"{purpose}:") + 1
        found = [line.split(maxsplit=1) for line in lines[begin : begin + len(verbs)]]
        assert found == [list(verb) for verb in verbs.items()]
    assert sum(map(len, VERBS_BY_PURPOSE.values())) == len(VERBS)
    assert "--help-all" in lines[-1]


def test_options_on_the_screen_can_be_typed() -> None:
    """As they stand there."""
    request = parse_command_line([*(option for option, _ in MOST_USED), "true"], verbs=VERBS)
    assert isinstance(request, LaunchRequest)
    assert len(request.given) == len(MOST_USED)
    config = with_options(Config(), request.given)
    assert config.output.endswith("DIR")
    screen = help_on_a_screen(VERBS_BY_PURPOSE)
    for option, description in MOST_USED:
        assert re.search(f"^  {option} +{re.escape(description)}$", screen, re.MULTILINE)


def test_the_whole_help_names_every_option_and_verb() -> None:
    """With all spellings, what is accepted and the default."""
    text = whole_help(VERBS_BY_PURPOSE)
    flowing = " ".join(text.split())
    for spelling in OPTION_BY_SPELLING:
        assert spelling in text
    for option in OPTIONS:
        assert " ".join(option.summary.split()) in flowing
        assert option.accepted in flowing
        assert option.default in flowing
    for verb in VERBS:
        assert f"  {verb}" in text


@pytest.mark.parametrize("layout", [help_on_a_screen, whole_help])
def test_help_fits_the_terminal(layout: Callable[[Mapping[str, Mapping[str, str]]], str]) -> None:
    """80 columns."""
    assert [line for line in layout(VERBS_BY_PURPOSE).splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    "word, layout",
    [("--help", help_on_a_screen), ("-h", help_on_a_screen), ("help", help_on_a_screen), ("--help-all", whole_help)],
)
def test_help_goes_to_stdout(
    word: str, layout: Callable[[Mapping[str, Mapping[str, str]]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It was asked for: status 0."""
    assert main([word]) == 0
    captured = capsys.readouterr()
    assert captured.out == layout(VERBS_BY_PURPOSE)
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
