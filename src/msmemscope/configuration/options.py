"""The table of options, and how options turn into a `Config`.

The command line parses with this table and prints it as its whole help; Python callers are
checked against it; tests walk over it.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msmemscope.configuration import option_values as values
from msmemscope.configuration import triggers, watching
from msmemscope.configuration.settings import (
    ACCEPTED_DEVICES,
    DEFAULT_HOLDER_TIME_MS,
    DEFAULT_OUTPUT,
    DEFAULT_STACK_DEPTH,
    DEFAULT_TRIGGER_STEPS,
    MAXIMUM_HOLDER_TIME_MS,
    MAXIMUM_STACK_DEPTH,
    Analysis,
    CollectionItem,
    Config,
    LogLevel,
    WatchChecksum,
    values_of,
)
from msmemscope.errors import ConfigurationError, UsageError
from msmemscope.units import SIZE_FORMS

ValueParser = Callable[[str, str, str], "dict[str, Any]"]
"""From what is accepted (in words), the spelling used and the value, to fields of `Config`."""

_BOTH_BLOCK_EVENTS = frozenset({CollectionItem.ALLOC, CollectionItem.FREE})
_IMPLIED_ITEMS: Mapping[CollectionItem, frozenset[CollectionItem]] = {
    CollectionItem.ALLOC: _BOTH_BLOCK_EVENTS,
    CollectionItem.FREE: _BOTH_BLOCK_EVENTS,
    CollectionItem.ACCESS: _BOTH_BLOCK_EVENTS,
    CollectionItem.ALLOCATOR: _BOTH_BLOCK_EVENTS,
}
_ITEMS_NEEDED_BY_ANALYSIS: Mapping[Analysis, frozenset[CollectionItem]] = {
    Analysis.LEAKS: _BOTH_BLOCK_EVENTS,
    # Accesses and operators tell activations from blocks that live for one operator.
    Analysis.DECOMPOSE: _BOTH_BLOCK_EVENTS | {CollectionItem.ACCESS, CollectionItem.LAUNCH},
    Analysis.OOM: _BOTH_BLOCK_EVENTS,
    Analysis.INEFFICIENT: _BOTH_BLOCK_EVENTS | {CollectionItem.ACCESS, CollectionItem.LAUNCH},
}


_ITEMS_NEEDED_TO_WATCH = _BOTH_BLOCK_EVENTS | {CollectionItem.LAUNCH}


_LEVEL_OF_SWITCH: Mapping[str, LogLevel] = {
    "quiet": LogLevel.ERROR,
    "verbose": LogLevel.INFO,
    "debug": LogLevel.DEBUG,
}


class OptionGroup(enum.Enum):
    """The headings of the help text."""

    COLLECT = "What to collect"
    OUTPUT = "What to do with it"
    WATCH = "Watching memory: who overwrote it"
    COMPARE = "Comparing two results"
    GENERAL = "General"


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of the command line, and the setting of the same name for Python callers."""

    name: str
    """Without dashes: `call-stack`."""
    group: OptionGroup
    summary: str
    """Its purpose: one or two sentences, for the help text."""
    metavar: str = ""
    """The value in the help text; empty for an option without a value."""
    accepted: str = ""
    """The accepted values, in words, for help and error messages."""
    default: str = ""
    """The value in force when the option is not given, in words."""
    parse: ValueParser | None = None
    """Turns the value into fields of `Config`; None for options that the command line handles by itself."""
    other_spellings: tuple[str, ...] = ()
    """Further spellings, with dashes."""

    @property
    def spelling(self) -> str:
        """The spelling that is documented: `--call-stack`."""
        return f"--{self.name}"

    @property
    def is_setting(self) -> bool:
        """Whether it sets fields of `Config`, so that Python callers have it too."""
        return self.parse is not None


def _list_of(words: Iterable[str]) -> str:
    return f"{', '.join(words)}, separated by commas"


OPTIONS: tuple[Option, ...] = (
    Option(
        "events",
        OptionGroup.COLLECT,
        "The events to collect. alloc and free come together, and access brings both, as does allocator: what torch_npu's "
        "caching allocator says of itself (requested sizes, streams, segments). Empty: nothing.",
        "LIST",
        _list_of(values.EVENTS),
        "alloc,free,launch",
        values.parse_events,
    ),
    Option(
        "level",
        OptionGroup.COLLECT,
        "The subject of launch events: operators (0 or op) or kernels (1 or kernel).",
        "LIST",
        _list_of(values.LEVELS),
        "0",
        values.parse_level,
    ),
    Option(
        "device",
        OptionGroup.COLLECT,
        "The devices to observe: all of a kind, one by its index, the memory of CPU tensors.",
        "LIST",
        f"{ACCEPTED_DEVICES}, separated by commas",
        "npu where CANN is set up (ASCEND_HOME_PATH or ASCEND_TOOLKIT_HOME), else cpu, and cuda where its driver is",
        values.parse_device,
    ),
    Option(
        "steps",
        OptionGroup.COLLECT,
        "Collect these steps only.",
        "LIST",
        f"at most {values.MAXIMUM_STEPS} integers >= 1, separated by commas",
        "all steps",
        values.parse_steps,
    ),
    Option(
        "call-stack",
        OptionGroup.COLLECT,
        "The call stacks to write into the dump files, and their depth. Empty: collect none at all.",
        "LIST",
        f"python[:depth], c[:depth], separated by commas; depth from 0 to {MAXIMUM_STACK_DEPTH}",
        f"none written; depth {DEFAULT_STACK_DEPTH} where no depth is given",
        values.parse_call_stack,
    ),
    Option(
        "host",
        OptionGroup.COLLECT,
        "Which allocations of host memory besides tensors are recorded, so that what grows has a line. sampled: one per "
        "512 KiB on average, or per so many bytes behind the colon. all: each one, for short runs. off: none, and no "
        "function of the C library is redirected.",
        "MODE",
        "sampled, sampled:SIZE (1KiB to 1GiB), all or off",
        "sampled",
        values.parse_host,
    ),
    Option(
        "collect-mode",
        OptionGroup.COLLECT,
        "Collect from the start of the program, or from where it calls msmemscope.start().",
        "MODE",
        " or ".join(values.COLLECT_MODES),
        "immediate",
        values.parse_collect_mode,
    ),
    Option(
        "max-size",
        OptionGroup.COLLECT,
        "Keep at most so many bytes of events per process and drop the oldest ones, never the blocks still alive. "
        "0: no limit.",
        "SIZE",
        f"0, or at least 1M; {SIZE_FORMS}",
        "0",
        values.parse_maximum_size,
    ),
    Option(
        "history",
        OptionGroup.COLLECT,
        "Keep the memory of each process, by owner and line, every so often beside its event log. msmemscope analyze "
        "history says what has grown over weeks, also where --max-size has dropped the events.",
        "TIME",
        "1s to 30d: a number with s, min, h or d; or off",
        "1h with --max-size, off without it",
    ),
    Option(
        "trigger",
        OptionGroup.COLLECT,
        "Record details once one of these holds where a step ends. A snapshot is taken, and the next steps have "
        "accesses, operators and both call stacks. That happens at most once an hour.",
        "LIST",
        "rss>SIZE or rss>90%, npu:0>SIZE or npu>90% (cuda likewise), growth>SIZE/h, step_time>2x, oom, "
        "SIGUSR1, SIGUSR2; separated by | or commas",
        "none",
        triggers.parse_trigger,
    ),
    Option(
        "trigger-steps",
        OptionGroup.COLLECT,
        "The number of steps that details are recorded of when --trigger says so.",
        "N",
        f"a number from 1 to {triggers.MAXIMUM_TRIGGER_STEPS}",
        str(DEFAULT_TRIGGER_STEPS),
        triggers.parse_trigger_steps,
    ),
    Option(
        "ranks",
        OptionGroup.COLLECT,
        "Observe the processes of these ranks only; the others run as if msmemscope were not there. A process that does not "
        "find a rank in its environment when it starts is observed.",
        "LIST",
        "numbers from 0 and ranges of them (8-15), separated by commas",
        "all ranks",
        values.parse_ranks,
    ),
    Option(
        "sample-ranks",
        OptionGroup.COLLECT,
        "Observe a part of the ranks only. They are spread evenly, and are the same ones in jobs of every size. Rank 0 is "
        "among them. Those of --ranks are observed besides.",
        "PART",
        "K/N with 1 <= K <= N, N at most 1000000: 1/16",
        "all ranks",
        values.parse_sample_ranks,
    ),
    Option(
        "role",
        OptionGroup.COLLECT,
        "The part of these processes in a job of several kinds: actor, rollout, data loader. Results name and group them by it.",
        "NAME",
        f"at most {values.MOST_LETTERS_OF_ROLE} printable characters",
        "what verl, Ray, vLLM or torchrun --role call it",
        values.parse_role,
    ),
    Option(
        "analysis",
        OptionGroup.OUTPUT,
        "The analyses to run; each collects what it needs, and decompose looks for leaks too. Empty: none.",
        "LIST",
        "leaks, decompose, inefficient, oom[:{1..1000}], separated by commas",
        "leaks",
        values.parse_analysis,
    ),
    Option(
        "holder-time",
        OptionGroup.COLLECT,
        "The limit of a search for holders of leaked memory, in milliseconds of processor time. Where memory outlives "
        "steps, searches are made at step 4, at one twice as far and so on, and at the end. A program without steps is searched "
        "now and then while it runs. The last search may take four "
        "times as long. Names of the findings may take half as long again. The last look at containers that grow has the same limit. 0: none.",
        "MS",
        f"a number from 0 to {MAXIMUM_HOLDER_TIME_MS}",
        str(DEFAULT_HOLDER_TIME_MS),
        values.parse_holder_time,
    ),
    Option(
        "data-format",
        OptionGroup.OUTPUT,
        "The format of the dump files; MindStudio Insight opens db.",
        "FORMAT",
        " or ".join(values.DATA_FORMATS),
        "csv",
        values.parse_data_format,
        ("--format",),
    ),
    Option(
        "output",
        OptionGroup.OUTPUT,
        "The directory for all results; created if it is missing.",
        "DIR",
        f"a path of at most {values.MAXIMUM_PATH_LENGTH} printable characters",
        DEFAULT_OUTPUT,
        values.parse_output,
        ("--output-path", "-o"),
    ),
    Option(
        "gather",
        OptionGroup.OUTPUT,
        "When the program has ended, in whatever way, also write each capture as one compact file to this place for all hosts. "
        "With --output on a disk of the host, a shared file system sees nothing else. Every verb reads the files.",
        "URL",
        "a folder, file://, or with msmemscope[cluster] s3://, gs://, hdfs:// and what else fsspec has a file system for",
        "nothing is gathered",
    ),
    Option(
        "report",
        OptionGroup.OUTPUT,
        "Also write report.html when the program has ended: findings down to the source line, and memory over time.",
    ),
    Option(
        "log-level",
        OptionGroup.OUTPUT,
        "The least important messages to print: info says what was observed and how, error leaves warnings out.",
        "LEVEL",
        values_of(LogLevel),
        "warn",
        values.parse_log_level,
    ),
    Option(
        "watch",
        OptionGroup.WATCH,
        "Watch memory: the outputs of operator START from when it has run until operator END has, and what the program "
        "names with msmemscope.watcher.watch. Before and after every operator its checksum is written, or with "
        "full-content all of it; whatever changes it is recorded. auto: watch every live block instead, and find the "
        "operator that wrote where it may not.",
        "START:OUTID,END,full-content",
        "[START[:OUTID],]END[,full-content], separated by commas, or auto; OUTID: a number from 0, or out0",
        "nothing is watched but what the program names itself",
        watching.parse_watch,
    ),
    Option(
        "watch-budget",
        OptionGroup.WATCH,
        "How much memory --watch=auto looks at around one operator; live blocks take turns.",
        "SIZE",
        f"at least 3M; {SIZE_FORMS}",
        "12M",
        watching.parse_watch_budget,
    ),
    Option(
        "watch-max-size",
        OptionGroup.WATCH,
        "How much watched memory a process may write into files; when it is reached, no more is written.",
        "SIZE",
        SIZE_FORMS,
        "10G",
        watching.parse_watch_max_size,
    ),
    Option(
        "watch-checksum",
        OptionGroup.WATCH,
        "The checksum of watched memory: a 64-bit hash, or the slower one of older tools, to compare with their files.",
        "NAME",
        values_of(WatchChecksum),
        "hash64",
        watching.parse_watch_checksum,
    ),
    Option(
        "compare",
        OptionGroup.COMPARE,
        "Compare two results instead of running a program; --level says whether operators or kernels. The verb compare "
        "does the same and has more options.",
    ),
    Option(
        "input",
        OptionGroup.COMPARE,
        "The two results to compare, the base first.",
        "PATH,PATH",
        "two dump files or capture folders, separated by a comma; :step=N behind one takes a step of it",
        other_spellings=("--input-path", "-i"),
    ),
    Option("quiet", OptionGroup.GENERAL, "Print errors only: --log-level=error.", other_spellings=("-q",)),
    Option("verbose", OptionGroup.GENERAL, "Print what was observed too: --log-level=info."),
    Option("debug", OptionGroup.GENERAL, "Print everything: --log-level=debug."),
    Option(
        "no-project-file",
        OptionGroup.GENERAL,
        "Take no options from msmemscope.toml or pyproject.toml of the current folder or of its parents.",
    ),
    Option("help", OptionGroup.GENERAL, "Show the verbs and the options that are used most.", other_spellings=("-h",)),
    Option("help-all", OptionGroup.GENERAL, "Show every option, with what it accepts."),
    Option("version", OptionGroup.GENERAL, "Show the version.", other_spellings=("-v", "-V")),
)
"""Every option, in the order of the help text."""

OPTION_BY_SPELLING: Mapping[str, Option] = {
    spelling: option for option in OPTIONS for spelling in (option.spelling, *option.other_spellings)
}
"""Every spelling, with its dashes."""


@dataclasses.dataclass(frozen=True)
class GivenOption:
    """An option as a user gave it."""

    option: Option
    spelling: str
    """The spelling used, for messages."""
    value: str


def with_options(base: Config, given: Iterable[GivenOption]) -> Config:
    """Apply options to a configuration; of an option that is given twice, the last holds.

    An analysis that is asked for brings the events it needs, as if alloc and free had been chosen too. Further events
    that decompose needs are not written. Those of inefficient are, because dumps are searched too. The analysis that
    runs by default brings none: where the chosen events leave out some that it needs, it is off. Decompose does not
    take the place of leaks: both are looked for.

    Raises:
        UsageError: If a value is not accepted.
    """
    fields: dict[str, Any] = {}
    for one in given:
        if one.option.parse is not None:
            fields.update(one.option.parse(one.option.accepted, one.spelling, one.value))
        elif one.option.name in _LEVEL_OF_SWITCH:
            fields["log_level"] = _LEVEL_OF_SWITCH[one.option.name]
    written: frozenset[CollectionItem] = fields.get("events", base.events - base.unwritten)
    written = written.union(*(_IMPLIED_ITEMS.get(item, frozenset()) for item in written))
    events = written if "events" in fields else written | base.events
    analyses: frozenset[Analysis] = fields.get("analysis", base.analysis)
    if "analysis" in fields:
        if Analysis.DECOMPOSE in analyses:
            analyses |= {Analysis.LEAKS}
        needed = frozenset[CollectionItem]().union(*(_ITEMS_NEEDED_BY_ANALYSIS[analysis] for analysis in analyses))
        events |= needed
        written |= needed & _BOTH_BLOCK_EVENTS
    elif "events" in fields:
        analyses = frozenset(analysis for analysis in analyses if _ITEMS_NEEDED_BY_ANALYSIS[analysis] <= events)
    if Analysis.INEFFICIENT in analyses:
        written |= _ITEMS_NEEDED_BY_ANALYSIS[Analysis.INEFFICIENT]
    if fields.get("watch", base.watch):
        written |= _ITEMS_NEEDED_TO_WATCH
    events |= written
    fields.update(events=events, unwritten=events - written, analysis=analyses)
    return dataclasses.replace(base, **fields)


OPTION_BY_KEYWORD: Mapping[str, Option] = {
    spelling[2:].replace("-", "_"): option
    for spelling, option in OPTION_BY_SPELLING.items()
    if spelling.startswith("--") and option.is_setting
}
"""The options by their names for Python callers: with underscores."""


def with_keywords(base: Config, keywords: Mapping[str, object]) -> Config:
    """Apply the keyword arguments of a Python caller.

    Args:
        base: The settings that hold where nothing is given.
        keywords: Names of `OPTION_BY_KEYWORD` to text as on the command line, or to a value. A value is an int, a path,
            a list or tuple of words, or a dict of words with their numbers (`{"python": 10}`). It is True for options
            without a value. None stands for "not given".

    Raises:
        ConfigurationError: If a keyword is unknown, or its value is not accepted.
    """
    given = []
    for keyword, value in keywords.items():
        option = OPTION_BY_KEYWORD.get(keyword)
        if option is None:
            message = "unknown setting"
            raise ConfigurationError(message, value=keyword, accepted=", ".join(sorted(OPTION_BY_KEYWORD)))
        if value is None:
            continue
        given.append(GivenOption(option, keyword, option_text(option, keyword, value)))
    try:
        return with_options(base, given)
    except UsageError as error:
        raise ConfigurationError(
            error.reason, option=error.option, value=error.value, accepted=error.accepted, hint=error.hint
        ) from error


def option_text(option: Option, keyword: str, value: object) -> str:
    """A value of a Python caller, or of a project file, as it would be written on the command line.

    Args:
        option: One that takes a value.
        keyword: The caller's name for it, for messages.
        value: As `with_keywords` takes it.

    Raises:
        ConfigurationError: If a value of this type stands for no text.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        words = _WORDS_OF_SWITCHES.get(option.name)
        if words is not None:
            return words[value]
    elif isinstance(value, int):
        return str(value)
    elif isinstance(value, os.PathLike):
        return os.fsdecode(value)
    elif isinstance(value, Mapping):
        return ",".join(f"{word}:{number}" for word, number in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(option_text(option, keyword, item) for item in value)
    message = f"cannot be {'an' if type(value).__name__[0] in 'aeiou' else 'a'} {type(value).__name__}"
    raise ConfigurationError(message, option=keyword, value=repr(value), accepted=option.accepted)


_WORDS_OF_SWITCHES: Mapping[str, tuple[str, str]] = {"call-stack": ("", "python")}
"""Options that a Python caller can switch off and on: the values of False and True."""
