"""The values of the options about watched memory: `--watch` and those that go with it."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from msmemscope.configuration.settings import CONTROL_CHARACTERS, WatchChecksum
from msmemscope.errors import UsageError
from msmemscope.units import format_bytes, parse_size_bytes

if TYPE_CHECKING:
    import enum

LONGEST_OPERATOR_NAME = 254
"""Bytes of the name of an operator."""
MAXIMUM_OUTPUT = 2**31 - 1
MINIMUM_WATCH_BUDGET_BYTES = 3 << 20
"""The budget is spent in pieces of 1 MiB, in three shares."""

AUTO = "auto"
FULL_CONTENT = "full-content"

_SEPARATORS = re.compile("[,\N{FULLWIDTH COMMA}]")
_NO_OPERATOR = re.compile("[^A-Za-z_]*|true|false|yes|no|on|off", re.IGNORECASE | re.ASCII)
"""Numbers and switches: other programs mean these by an option of this name."""
_OPERATOR_NAME = re.compile(
    r"torch\._ops\.\w.*|(?:aten|npu|prims|c10d)\.\w.*|op\d*|aclnn\w+|\w+(?:Operation|AiCore|AiCpu|Kernel)\w*|\w+(?:/\w+)+",
    re.ASCII,
)
"""How operators are called that the dump files name: of torch, paths of ATB, kernels; and as in the documents."""
_OUTPUT = re.compile("(?:out)?(0|[1-9][0-9]{0,9})", re.ASCII)
_NAMES_HINT = "operators are called as in the dump files: torch._ops.aten.add.Tensor, a path of ATB, a kernel"


@dataclasses.dataclass(frozen=True)
class WatchWindow:
    """The value of `--watch`."""

    start: str = ""
    """The operator whose outputs are watched; empty: those that the program names itself."""
    output: int | None = None
    """The number of the only output that is watched."""
    end: str = ""
    """The operator after which watching ends; empty only with `is_automatic`."""
    is_full: bool = False
    """Whether contents are written, and not only their checksums."""
    is_automatic: bool = False
    """Whether every live block is watched."""

    def to_text(self) -> str:
        """The value in its shortest form; the native core and the event log have it like this."""
        start = self.start if self.output is None else f"{self.start}:{self.output}"
        words = (AUTO if self.is_automatic else "", start, self.end, FULL_CONTENT if self.is_full else "")
        return ",".join(word for word in words if word)


def parse_watch(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read `--watch`; an empty value watches nothing."""
    words = [word.strip() for word in _SEPARATORS.split(text) if word.strip()]
    if not words:
        return {"watch": ""}

    def refuse(message: str, value: str = text, hint: str | None = None) -> UsageError:
        return UsageError(message, option=spelling, value=value, accepted=accepted, hint=hint)

    is_full = words[-1] == FULL_CONTENT
    names = words[:-1] if is_full else words
    if FULL_CONTENT in names:
        message = "full-content stands last, and once"
        raise refuse(message)
    if names == [AUTO]:
        return {"watch": WatchWindow(is_full=is_full, is_automatic=True).to_text()}
    if AUTO in names:
        message = "auto watches everything and stands without operators"
        raise refuse(message)
    if not names:
        message = "names no operator at whose end watching ends"
        raise refuse(message, hint=_NAMES_HINT)
    if len(names) > 2:  # noqa: PLR2004 - a first and a last one
        message = f"names {len(names)} operators"
        raise refuse(message, hint="only full-content can stand behind the last operator")
    start, output = _split_output(names[0], refuse) if len(names) > 1 else ("", None)
    end = names[-1]
    if ":" in end and "::" not in end:
        message = "only the first operator has the number of an output"
        raise refuse(message, end, "the outputs that are watched are those of the first operator: start:0,end")
    for name in filter(None, (start, end)):
        _check_name(name, refuse)
    return {"watch": WatchWindow(start, output, end, is_full).to_text()}


def names_operators(text: str) -> bool:
    """Whether a value of `--watch` says by itself that operators are meant: behind a program, the word alone does not.

    Args:
        text: A value that `parse_watch` accepts.
    """
    window = window_of(str(parse_watch("", "", text)["watch"]))
    names = [name for name in (window.start, window.end) if name]
    return window.is_full or (bool(names) and all(_OPERATOR_NAME.fullmatch(name) for name in names))


def _split_output(word: str, refuse: Any) -> tuple[str, int | None]:
    name, colon, number = word.rpartition(":")
    if not colon or name.endswith(":"):
        return word, None
    found = _OUTPUT.fullmatch(number.strip())
    if found is None or int(found[1]) > MAXIMUM_OUTPUT:
        message = "not the number of an output"
        raise refuse(message, number, "outputs count from 0: torch._ops.aten.topk.default:1, or :out1")
    if not name.strip():
        message = "an output without its operator"
        raise refuse(message, word)
    return name.strip(), int(found[1])


def _check_name(name: str, refuse: Any) -> None:
    if "::" in name:
        namespace, _, rest = name.partition("::")
        overload = rest if "." in rest else f"{rest}.default"
        message = "not the name of an operator"
        raise refuse(message, name, f"write torch._ops.{namespace}.{overload}")
    if ":" in name or _NO_OPERATOR.fullmatch(name):
        message = "not the name of an operator"
        raise refuse(message, name, _NAMES_HINT)
    if CONTROL_CHARACTERS.search(name):
        message = "contains a control character or is not valid UTF-8"
        raise refuse(message, name)
    if len(name.encode()) > LONGEST_OPERATOR_NAME:
        message = f"a name of more than {LONGEST_OPERATOR_NAME} bytes"
        raise refuse(message, f"{name[:40]}…")


def window_of(watch: str) -> WatchWindow:
    """Read a value of `Config.watch` back.

    Raises:
        UsageError: If it is none.
    """
    words = [word for word in watch.split(",") if word]
    is_full = bool(words) and words[-1] == FULL_CONTENT
    names = words[:-1] if is_full else words
    if names == [AUTO]:
        return WatchWindow(is_full=is_full, is_automatic=True)
    start, output = ("", None)
    if len(names) > 1:
        name, colon, number = names[0].rpartition(":")
        start, output = (name, int(number)) if colon else (names[0], None)
    return WatchWindow(start, output, names[-1] if names else "", is_full)


def parse_watch_budget(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read how many bytes automatic watching may look at around one operator."""
    size_bytes = parse_size_bytes(text, option=spelling)
    if size_bytes < MINIMUM_WATCH_BUDGET_BYTES:
        message = "too small to look at anything"
        hint = f"give at least {format_bytes(MINIMUM_WATCH_BUDGET_BYTES)}"
        raise UsageError(message, option=spelling, value=text, accepted=accepted, hint=hint)
    return {"watch_budget": size_bytes}


def parse_watch_max_size(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read how many bytes of contents a process may write."""
    size_bytes = parse_size_bytes(text, option=spelling)
    if size_bytes == 0:
        message = "leaves no room for anything"
        raise UsageError(message, option=spelling, value=text, accepted=accepted, hint="leave out full-content")
    return {"watch_max_size": size_bytes}


def parse_watch_checksum(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read which checksum is written."""
    words: dict[str, enum.Enum] = {member.value: member for member in WatchChecksum}
    if text.strip() not in words:
        message = "not a checksum"
        raise UsageError(message, option=spelling, value=text, accepted=accepted)
    return {"watch_checksum": words[text.strip()]}
