"""The values that options accept: one parser per option.

Each parser takes three texts: the words for what is accepted, the user's spelling of the option, and the value. It
returns the fields of `Config` that follow from the value, or raises `UsageError` naming all three.
"""

from __future__ import annotations

import enum
import os
import re
from typing import TYPE_CHECKING, Any, TypeVar

from msmemscope.configuration.settings import (
    CONTROL_CHARACTERS,
    DEFAULT_HOST_SAMPLE_BYTES,
    DEFAULT_OOM_TOP,
    DEFAULT_STACK_DEPTH,
    LEAST_HOST_SAMPLE_BYTES,
    MAXIMUM_HOLDER_TIME_MS,
    MAXIMUM_OOM_TOP,
    MAXIMUM_STACK_DEPTH,
    MOST_HOST_SAMPLE_BYTES,
    WHOLE_NUMBER,
    Analysis,
    CollectionItem,
    CollectMode,
    DataFormat,
    HostSampling,
    Level,
    LogLevel,
    is_device,
)
from msmemscope.errors import UsageError
from msmemscope.model.devices import CPU_WORD, KIND_WORDS
from msmemscope.units import parse_size_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

MAXIMUM_STEPS = 5
MAXIMUM_STEP = 2**32 - 1
MAXIMUM_PATH_LENGTH = 4096
MAXIMUM_PATH_COMPONENT_BYTES = 255
MINIMUM_LOG_BYTES = 1 << 20
MOST_LETTERS_OF_ROLE = 80

_RANKS = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?", re.ASCII)
_SAMPLE = re.compile(r"\s*(\d{1,7})\s*/\s*(\d{1,7})\s*", re.ASCII)
_MOST_OF_SAMPLE = 1_000_000
_MOST_LETTERS_OF_RANKS = 4096

_SEPARATORS = re.compile("[,\N{FULLWIDTH COMMA}]")
_NONE = ["none"]
_NONE_HINT = "'none' stands alone"
_EnumType = TypeVar("_EnumType", bound=enum.Enum)


def split_list(text: str) -> list[str]:
    """Split at half-width and full-width commas; blanks around a value and empty values do not count."""
    return [token.strip() for token in _SEPARATORS.split(text) if token.strip()]


def _refuse(accepted: str, spelling: str, value: str, message: str, hint: str | None = None) -> UsageError:
    return UsageError(message, option=spelling, value=value, accepted=accepted, hint=hint)


def _chosen(
    accepted: str, spelling: str, text: str, values: Mapping[str, _EnumType], *, message: str
) -> frozenset[_EnumType]:
    """The members named in a list; `none` alone, and an empty list, choose nothing."""
    tokens = split_list(text)
    if tokens == _NONE:
        return frozenset()
    for token in tokens:
        if token not in values:
            raise _refuse(accepted, spelling, token, message, _NONE_HINT if token in _NONE else None)
    return frozenset(values[token] for token in tokens)


def _one(accepted: str, spelling: str, text: str, values: Mapping[str, _EnumType], *, message: str) -> _EnumType:
    if text.strip() not in values:
        raise _refuse(accepted, spelling, text, message)
    return values[text.strip()]


LEVELS = {"0": Level.OP, "op": Level.OP, "1": Level.KERNEL, "kernel": Level.KERNEL}
EVENTS = {member.value: member for member in CollectionItem}
ANALYSES = {member.value: member for member in Analysis}
COLLECT_MODES = {member.value: member for member in CollectMode}
HOST_SAMPLINGS = {member.value: member for member in HostSampling}
DATA_FORMATS = {member.value: member for member in DataFormat}
LOG_LEVELS = {**{member.value: member for member in LogLevel}, "warning": LogLevel.WARN}


def parse_steps(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the steps to collect; an empty list means all of them."""
    tokens = split_list(text)
    for token in tokens:
        if not WHOLE_NUMBER.fullmatch(token) or not 1 <= int(token) <= MAXIMUM_STEP:
            raise _refuse(accepted, spelling, token, "not a step")
    steps = sorted({int(token) for token in tokens})
    if len(steps) > MAXIMUM_STEPS:
        raise _refuse(accepted, spelling, text, f"{len(steps)} steps are too many")
    return {"steps": tuple(steps)}


def parse_device(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the devices; a kind makes single devices of it needless."""
    tokens = split_list(text)
    if not tokens:
        raise _refuse(accepted, spelling, text, "names no device")
    for token in tokens:
        if not is_device(token):
            kind, _, index = token.partition(":")
            is_too_high = kind in KIND_WORDS and kind != CPU_WORD and WHOLE_NUMBER.fullmatch(index) is not None
            message, hint = (
                ("no index of a device", f"{kind} observes all of them") if is_too_high else ("not a device", None)
            )
            raise _refuse(accepted, spelling, token, message, hint)
    tokens = [token for token in tokens if token in KIND_WORDS or token.partition(":")[0] not in tokens]
    return {"devices": tuple(dict.fromkeys(tokens))}


def parse_level(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the levels of launches."""
    return {"level": _chosen(accepted, spelling, text, LEVELS, message="not a level")}


def parse_events(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read what to collect, before couplings."""
    return {"events": _chosen(accepted, spelling, text, EVENTS, message="not an event")}


def parse_holder_time(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the limit of searches for holders of memory."""
    if not WHOLE_NUMBER.fullmatch(text) or int(text) > MAXIMUM_HOLDER_TIME_MS:
        raise _refuse(accepted, spelling, text, "not a number of milliseconds")
    return {"holder_time": int(text)}


def parse_analysis(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the analyses to run; `oom:20` also says how many blocks to show."""
    names = []
    oom_top = 0
    for token in split_list(text):
        name, colon, number = (part.strip() for part in token.partition(":"))
        if name == Analysis.OOM.value:
            is_count = WHOLE_NUMBER.fullmatch(number) and 1 <= int(number) <= MAXIMUM_OOM_TOP
            if colon and not is_count:
                raise _refuse(accepted, spelling, token, "not a number of blocks")
            oom_top = int(number) if colon else DEFAULT_OOM_TOP
            names.append(name)
        else:
            names.append(token)
    chosen = _chosen(accepted, spelling, ",".join(names), ANALYSES, message="not an analysis")
    return {"analysis": chosen, "named_analyses": chosen, "oom_top": oom_top}


def parse_call_stack(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the call stacks to write and their depths.

    Without the Python stack in the list, Python stacks are still collected for the summary;
    an empty list collects none at all.
    """
    tokens = split_list(text)
    if tokens in ([], _NONE):
        return {
            "python_stack": False, "python_stack_depth": 0, "native_stack": False, "native_stack_depth": 0, "stack_scopes": (),
        }  # fmt: skip
    depths: dict[str, int] = {}
    for token in tokens:
        kind, colon, number = (part.strip() for part in token.partition(":"))
        if kind not in {"python", "c"}:
            raise _refuse(accepted, spelling, token, "not a call stack")
        if colon and (not WHOLE_NUMBER.fullmatch(number) or int(number) > MAXIMUM_STACK_DEPTH):
            raise _refuse(accepted, spelling, token, "not a depth")
        depth = int(number) if colon else DEFAULT_STACK_DEPTH
        if depths.setdefault(kind, depth) != depth:
            raise _refuse(accepted, spelling, text, f"{kind} is given two depths")
    return {
        "python_stack": "python" in depths,
        "python_stack_depth": depths.get("python", DEFAULT_STACK_DEPTH),
        "native_stack": "c" in depths,
        "native_stack_depth": depths.get("c", 0),
        "stack_scopes": (),
    }


def parse_collect_mode(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read when collection begins."""
    return {"collect_mode": _one(accepted, spelling, text, COLLECT_MODES, message="not a collection mode")}


def parse_host(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read which allocations of host memory are recorded: a word, and behind `sampled:` the bytes of one sample."""
    word, colon, size = text.partition(":")
    sampling = _one(accepted, spelling, word, HOST_SAMPLINGS, message="no way to observe host memory")
    if not colon:
        return {"host": sampling, "host_sample_bytes": DEFAULT_HOST_SAMPLE_BYTES}
    sample_bytes = parse_size_bytes(size, option=spelling)
    if sampling is not HostSampling.SAMPLED or not LEAST_HOST_SAMPLE_BYTES <= sample_bytes <= MOST_HOST_SAMPLE_BYTES:
        raise _refuse(accepted, spelling, text, "no way to observe host memory")
    return {"host": sampling, "host_sample_bytes": sample_bytes}


def parse_data_format(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the format of dump files."""
    return {"data_format": _one(accepted, spelling, text, DATA_FORMATS, message="not a data format")}


def parse_log_level(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the least important messages to print."""
    return {"log_level": _one(accepted, spelling, text, LOG_LEVELS, message="not a log level")}


def parse_output(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the output root and make it absolute; nothing is created."""
    if not text.strip():
        raise _refuse(accepted, spelling, text, "names no directory")
    try:
        # Lexical, so that the path printed is the path given: symbolic links are judged when the directory is made.
        path = os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111
    except OSError as error:
        raise _refuse(accepted, spelling, text, f"the current directory is gone ({error.strerror})") from error
    if CONTROL_CHARACTERS.search(path):
        raise _refuse(accepted, spelling, path, "contains a control character or is not valid UTF-8")
    if len(os.fsencode(path)) > MAXIMUM_PATH_LENGTH:
        raise _refuse(accepted, spelling, f"{text[:40]}…", f"too long with {len(os.fsencode(path))} bytes")
    if any(len(os.fsencode(part)) > MAXIMUM_PATH_COMPONENT_BYTES for part in path.split("/")):
        raise _refuse(accepted, spelling, text, "a name in the path is too long")
    return {"output": path}


def parse_maximum_size(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read the largest event log."""
    size_bytes = parse_size_bytes(text, option=spelling)
    if 0 < size_bytes < MINIMUM_LOG_BYTES:
        raise _refuse(accepted, spelling, text, "too small to hold anything")
    return {"maximum_size": size_bytes}


def parse_ranks(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read which ranks are observed; nothing stands for all."""
    parts = []
    for word in split_list(text):
        match = _RANKS.fullmatch(word)
        if match is None:
            raise _refuse(accepted, spelling, word, "neither a rank nor a range of ranks")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise _refuse(accepted, spelling, word, "a range that ends before it begins")
        parts.append(str(first) if match[2] is None else f"{first}-{last}")
    ranks = ",".join(parts)
    if len(ranks) > _MOST_LETTERS_OF_RANKS:
        raise _refuse(accepted, spelling, f"{text[:40]}…", "too long", hint="use ranges, or --sample-ranks")
    return {"ranks": ranks}


def parse_sample_ranks(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read which part of the ranks is observed; nothing stands for all."""
    if not text.strip():
        return {"sample_ranks": ""}
    match = _SAMPLE.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= _MOST_OF_SAMPLE:
        raise _refuse(accepted, spelling, text, "no part of the ranks")
    return {"sample_ranks": f"{int(match[1])}/{int(match[2])}"}


def parse_role(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read what the user calls the processes."""
    role = text.strip()
    if not role.isprintable() or len(role) > MOST_LETTERS_OF_ROLE or CONTROL_CHARACTERS.search(role):
        raise _refuse(accepted, spelling, text[:MOST_LETTERS_OF_ROLE], "no name for a role")
    return {"role": role}
