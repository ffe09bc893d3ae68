"""Values of options, their couplings and limits."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest

from msmemscope.configuration import (
    OPTION_BY_SPELLING,
    OPTIONS,
    Analysis,
    CollectionItem,
    CollectMode,
    Config,
    DataFormat,
    GivenOption,
    Level,
    LogLevel,
    with_keywords,
    with_options,
)
from msmemscope.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    import os

ALLOC, FREE = CollectionItem.ALLOC, CollectionItem.FREE
LAUNCH, ACCESS, TRACEBACK = CollectionItem.LAUNCH, CollectionItem.ACCESS, CollectionItem.TRACEBACK
ALLOCATOR = CollectionItem.ALLOCATOR


def configured(**values: str) -> Config:
    """A configuration made from options, in their order."""
    spellings = {name: f"--{name.replace('_', '-')}" for name in values}
    given = [GivenOption(OPTION_BY_SPELLING[spellings[name]], spellings[name], value) for name, value in values.items()]
    return with_options(Config(), given)


@pytest.mark.parametrize("comma", [",", "，"])
def test_both_commas_separate(comma: str) -> None:
    """Half-width and full-width commas mean the same in every list, also mixed."""
    assert configured(steps=f"3{comma}1{comma}2").steps == (1, 2, 3)
    assert configured(level=f"0{comma}kernel").level == {Level.OP, Level.KERNEL}
    assert configured(device=f"npu:2{comma}npu:7").devices == ("npu:2", "npu:7")
    assert configured(events=f"launch{comma}traceback").events == {LAUNCH, TRACEBACK}
    assert configured(analysis=f"leaks{comma}decompose").analysis == {Analysis.LEAKS, Analysis.DECOMPOSE}
    config = configured(call_stack=f"c:20{comma}python:10")
    assert (config.native_stack_depth, config.python_stack_depth) == (20, 10)


def test_lists_are_split_by_characters() -> None:
    """Characters whose UTF-8 form shares bytes with the full-width comma do not separate."""
    assert configured(output="/tmp/开,发，目录").output == "/tmp/开,发，目录"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("alloc", {ALLOC, FREE}),
        ("free", {ALLOC, FREE}),
        ("access", {ALLOC, FREE, ACCESS}),
        ("launch", {LAUNCH}),
        ("traceback", {TRACEBACK}),
        ("allocator", {ALLOC, FREE, ALLOCATOR}),
        ("alloc,launch", {ALLOC, FREE, LAUNCH}),
        (" alloc , , launch ,", {ALLOC, FREE, LAUNCH}),
        ("", set()),
        ("none", set()),
    ],
)
def test_events_come_with_what_they_need(text: str, expected: set[CollectionItem]) -> None:
    """With alloc comes free and the reverse, access brings both, and nothing means nothing."""
    assert configured(events=text).events == expected


@pytest.mark.parametrize(
    "analysis, expected",
    [
        ("leaks", {ALLOC, FREE, LAUNCH}),
        ("decompose", {ALLOC, FREE, LAUNCH, ACCESS}),
        ("oom", {ALLOC, FREE, LAUNCH}),
        ("oom:20", {ALLOC, FREE, LAUNCH}),
        ("inefficient", {ALLOC, FREE, LAUNCH, ACCESS}),
        ("", {ALLOC, FREE, LAUNCH}),
    ],
)
def test_analyses_bring_their_events(analysis: str, expected: set[CollectionItem]) -> None:
    """On top of the default events."""
    assert configured(analysis=analysis).events == expected


def test_an_analysis_that_is_asked_for_brings_events_that_are_left_out() -> None:
    """Whatever the order of the two options."""
    assert configured(events="launch", analysis="leaks").events == {ALLOC, FREE, LAUNCH}
    assert configured(analysis="inefficient", events="").events == {ALLOC, FREE, LAUNCH, ACCESS}


def test_analyses_switch_events_on() -> None:
    """Leaks, decompose and oom alloc and free; what decompose needs besides stays out of the dump files."""
    assert configured(events="launch", analysis="leaks").unwritten == frozenset()
    assert configured(events="", analysis="oom").unwritten == frozenset()
    assert configured(events="launch", analysis="decompose").unwritten == {ACCESS}
    assert configured(events="", analysis="decompose").unwritten == {ACCESS, LAUNCH}
    assert configured(analysis="decompose").unwritten == {ACCESS}
    assert configured(analysis="inefficient", events="").unwritten == frozenset()
    assert configured(events="access", analysis="decompose").unwritten == {LAUNCH}
    assert configured(events="", analysis="leaks", watch="op").unwritten == frozenset()
    assert configured().unwritten == frozenset()
    # Choices of a program under the command line begin from there.
    launched = configured(analysis="decompose")
    assert with_keywords(launched, {"log_level": "info"}).unwritten == {ACCESS}
    assert with_keywords(launched, {"events": "access,launch"}).unwritten == frozenset()


def test_decomposition_does_not_take_the_place_of_leaks() -> None:
    """It says whose memory is, not what is wrong with it."""
    assert configured(analysis="decompose").analysis == {Analysis.DECOMPOSE, Analysis.LEAKS}
    assert configured(analysis="oom").analysis == {Analysis.OOM}


@pytest.mark.parametrize(
    ("spelling", "level"),
    [("-q", LogLevel.ERROR), ("--quiet", LogLevel.ERROR), ("--verbose", LogLevel.INFO), ("--debug", LogLevel.DEBUG)],
)
def test_switches_of_messages(spelling: str, level: LogLevel) -> None:
    """They are values of --log-level; the last one holds."""
    switch = GivenOption(OPTION_BY_SPELLING[spelling], spelling, "")
    assert with_options(Config(), [switch]).log_level is level
    warn = GivenOption(OPTION_BY_SPELLING["--log-level"], "--log-level", "warn")
    assert with_options(Config(), [switch, warn]).log_level is LogLevel.WARN
    assert with_options(Config(), [warn, switch]).log_level is level


def test_the_default_analysis_gives_way_to_chosen_events() -> None:
    """Nobody asked for leaks: collecting what was not chosen would be worse than not analysing it."""
    config = configured(events="launch")
    assert config.events == {LAUNCH}
    assert config.analysis == frozenset()
    assert configured(events="").events == frozenset()


@pytest.mark.parametrize("text", ["", "none"])
def test_analysis_can_be_switched_off(text: str) -> None:
    """Empty as in the documents, `none` as in newer versions."""
    assert configured(analysis=text).analysis == frozenset()


@pytest.mark.parametrize(
    "text, python, native",
    [
        ("python", (True, 50), (False, 0)),
        ("python:7", (True, 7), (False, 0)),
        ("c", (False, 50), (True, 50)),
        ("c:10", (False, 50), (True, 10)),
        ("c:0,python:1000", (True, 1000), (True, 0)),
        ("python:5,python:5", (True, 5), (False, 0)),
        ("", (False, 0), (False, 0)),
        ("none", (False, 0), (False, 0)),
    ],
)
def test_call_stacks(text: str, python: tuple[bool, int], native: tuple[bool, int]) -> None:
    """A stack that is not asked for is not written; Python stacks are still collected unless the list is empty."""
    config = configured(call_stack=text)
    assert (config.python_stack, config.python_stack_depth) == python
    assert (config.native_stack, config.native_stack_depth) == native


@pytest.mark.parametrize(
    "text, devices",
    [
        ("npu", ("npu",)),
        ("npu:0,npu:31", ("npu:0", "npu:31")),
        ("npu:3,npu", ("npu",)),
        ("npu,cpu,npu:3", ("npu", "cpu")),
        ("cpu", ("cpu",)),
        ("npu:1,npu:1", ("npu:1",)),
    ],
)
def test_devices(text: str, devices: tuple[str, ...]) -> None:
    """All NPUs make single ones needless."""
    assert configured(device=text).devices == devices


def test_plain_choices() -> None:
    """One value each; the level has two names for each of its values."""
    assert configured(level="1").level == configured(level="kernel").level == {Level.KERNEL}
    assert configured(level="0").level == configured(level="op").level == {Level.OP}
    assert configured(collect_mode="deferred").collect_mode is CollectMode.DEFERRED
    assert configured(data_format="db").data_format is DataFormat.DB
    assert configured(log_level="info").log_level is LogLevel.INFO
    assert configured(log_level="warning").log_level is LogLevel.WARN
    assert configured(max_size="2G").maximum_size == 2 * 1024**3
    assert configured(max_size="0").maximum_size == 0
    assert configured(steps="").steps == ()
    assert configured(steps="2,2,1").steps == (1, 2)
    assert configured(steps="4294967295").steps == (2**32 - 1,)


def test_the_last_of_two_holds() -> None:
    """As everywhere on command lines."""
    option = OPTION_BY_SPELLING["--level"]
    given = [GivenOption(option, "--level", value) for value in ("op", "kernel")]
    assert with_options(Config(), given).level == {Level.KERNEL}


def test_output_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    """As seen from the current directory, without `..`, and with the home directory in place of a tilde."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert configured(output="a/../b").output == f"{tmp_path}/b"
    assert configured(output="~/b").output == "/home/somebody/b"
    assert configured(output="/x//y/./z/").output == "/x/y/z"


@pytest.mark.parametrize(
    "spelling, documented",
    [
        ("--output-path", "output"),
        ("-o", "output"),
        ("--format", "data-format"),
        ("--input-path", "input"),
        ("-i", "input"),
        ("-v", "version"),
        ("-h", "help"),
    ],
)
def test_newer_and_short_spellings(spelling: str, documented: str) -> None:
    """They lead to the documented option."""
    assert OPTION_BY_SPELLING[spelling].name == documented


def test_every_option_has_a_description() -> None:
    """The help is made from the table: what takes a value says which, unless this version does not have it."""
    for option in OPTIONS:
        assert option.summary.endswith("."), option.name
        assert not option.accepted or option.metavar, option.name


def test_python_callers_get_the_same_validation() -> None:
    """Keywords instead of options, and a ValueError that names the keyword."""
    config = with_keywords(Config(), {"call_stack": "c:10,python:5", "data_format": "db", "output_path": "/tmp/x"})
    assert (config.native_stack_depth, config.python_stack_depth) == (10, 5)
    assert config.data_format is DataFormat.DB
    assert config.output == "/tmp/x"
    with pytest.raises(ValueError, match=r"level: not a level: '7' \(accepted: 0, op, 1, kernel") as caught:
        with_keywords(Config(), {"level": "7"})
    assert isinstance(caught.value, ConfigurationError)
    with pytest.raises(ConfigurationError, match="unknown setting: 'colour'"):
        with_keywords(Config(), {"colour": "red"})


@pytest.mark.parametrize(
    "keyword, value, text",
    [
        ("steps", 3, "3"),
        ("steps", [1, 2], "1,2"),
        ("steps", (2,), "2"),
        ("events", {"alloc"}, "alloc"),
        ("events", ["alloc", "launch"], "alloc,launch"),
        ("level", 1, "1"),
        ("device", ["npu:0", "cpu"], "npu:0,cpu"),
        ("call_stack", {"python": 10, "c": 5}, "python:10,c:5"),
        ("call_stack", True, "python"),
        ("call_stack", False, ""),
        ("output", pathlib.Path("/tmp/results"), "/tmp/results"),
        ("max_size", 1 << 30, str(1 << 30)),
        ("analysis", ["leaks", "oom:5"], "leaks,oom:5"),
        ("analysis", [], ""),
    ],
)
def test_python_callers_may_pass_values(keyword: str, value: object, text: str) -> None:
    """Lists, numbers, paths and switches mean what their text means."""
    base = Config()
    assert with_keywords(base, {keyword: value}) == with_keywords(base, {keyword: text})


@pytest.mark.parametrize(
    "keyword, value, reason",
    [
        ("steps", 1.5, r"steps: cannot be a float: '1\.5'"),
        ("events", True, "events: cannot be a bool"),
        ("output", b"/tmp", "output: cannot be a bytes"),
        ("steps", [0], "steps: not a step: '0'"),
        ("analysis", "oom:0", "analysis: not a number of blocks: 'oom:0'"),
        ("analysis", "oomx", "analysis: not an analysis: 'oomx'"),
    ],
)
def test_values_that_python_callers_may_not_pass(keyword: str, value: object, reason: str) -> None:
    """The keyword, the value, what is accepted."""
    with pytest.raises(ConfigurationError, match=reason) as caught:
        with_keywords(Config(), {keyword: value})
    assert caught.value.accepted


def test_keywords_that_are_none_are_not_given() -> None:
    """A caller may pass its own options on."""
    assert with_keywords(Config(), {"steps": None, "output": None}) == with_keywords(Config(), {})


def test_overrides_keep_what_they_do_not_name() -> None:
    """A capture is exported again with another format; the rest stays."""
    base = Config(events=frozenset({LAUNCH}), analysis=frozenset(), steps=(4,))
    option = OPTION_BY_SPELLING["--data-format"]
    changed = with_options(base, [GivenOption(option, "--data-format", "db")])
    assert (changed.data_format, changed.events, changed.steps) == (DataFormat.DB, frozenset({LAUNCH}), (4,))


def test_error_fields() -> None:
    """The parts of a message can also be read one by one."""
    with pytest.raises(UsageError) as caught:
        configured(data_format="xml")
    error = caught.value
    assert (error.option, error.value, error.accepted) == ("--data-format", "xml", "csv or db")
    assert error.exit_status == 2
