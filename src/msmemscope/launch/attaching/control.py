"""Orders for a process that records: begin, stop, take a snapshot, change settings. One piece of Python runs in it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from msmemscope.configuration import OPTION_BY_SPELLING, Config, GivenOption, with_options
from msmemscope.errors import MsmemscopeError, UsageError
from msmemscope.launch.attaching.attach import attach_library, named_error, package_folders
from msmemscope.launch.attaching.exchange import order
from msmemscope.launch.attaching.remote_call import RUN, AttachError, load_and_call
from msmemscope.launch.attaching.target_process import TargetProcess, target_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START: Final = "start"
STOP: Final = "stop"
SNAPSHOT: Final = "snapshot"
SET: Final = "set"
ORDERS: Final[Mapping[str, str]] = {
    START: "begin to collect",
    STOP: "stop collecting; which blocks are alive is followed on",
    SNAPSHOT: "write a row with the memory of each device now",
    SET: "change settings from here on: OPTION=VALUE ...",
}
"""The words that a process can be told, and one line about each."""
_STATEMENTS: Final[Mapping[str, str]] = {
    START: "msmemscope.start()",
    STOP: "msmemscope.stop()",
    SNAPSHOT: "msmemscope.take_snapshot(name='control')",
    SET: "msmemscope.config(**{settings!r})",
}
EXAMPLE: Final = "msmemscope control 4242 set call-stack=python:30"
SETTINGS: Final = "OPTION=VALUE"
SETTABLE: Final = ("--level", "--events", "--call-stack", "--analysis", "--device", "--watch")
_PATIENCE_S: Final = 60.0
"""A program can hold Python's lock for long."""
_POLL_S: Final = 0.01


def checked_order(words: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Read an order: its word, and for SET keyword arguments of `msmemscope.config`.

    Raises:
        UsageError: If it is none, or has settings that are not accepted.
    """
    word, texts = (words[0] if words else ""), words[1:]
    if word not in ORDERS:
        message = "is no order"
        raise UsageError(message, option="ORDER", value=word, accepted=", ".join(ORDERS))
    if (word == SET) != bool(texts):
        message = "is needed for set" if word == SET else f"is not for {word}"
        raise UsageError(message, option=SETTINGS, value=texts[0] if texts else "", accepted=EXAMPLE)
    given = []
    for text in texts:
        name, equals, value = text.partition("=")
        spelling = "--" + name.removeprefix("--")
        if spelling not in SETTABLE or not equals:
            message = "cannot be set in a process that runs"
            accepted = ", ".join(f"{one[2:]}=..." for one in SETTABLE)
            raise UsageError(message, option=SETTINGS, value=text, accepted=accepted)
        given.append(GivenOption(OPTION_BY_SPELLING[spelling], spelling, value))
    with_options(Config(), given)
    return word, {one.spelling[2:].replace("-", "_"): one.value for one in given}


def obey_order(process_id: int, words: Sequence[str]) -> str:
    """Have a process do what an order says; return why that was not done, or an empty text."""
    try:
        word, settings = checked_order(words)
        give_order(target_process(str(process_id), records=True), word, settings)
    except MsmemscopeError as error:
        return str(error)
    return ""


def give_order(target: TargetProcess, word: str, settings: Mapping[str, str]) -> None:
    """Have a process do what it was told, and wait until it is done.

    Args:
        target: The process; it runs under msmemscope, or somebody has attached to it.
        word: One of ORDERS.
        settings: Keyword arguments of `msmemscope.config`, for SET.

    Raises:
        AttachError: It was not done. The process goes on as it was.
    """
    library = attach_library(package_folders())
    with named_error():
        exchange = order(target.user_id, _STATEMENTS[word].format(settings=dict(settings)))
    with contextlib.closing(exchange):
        load_and_call(target, library, RUN, str(exchange.folder))
        until_s = time.monotonic() + _PATIENCE_S
        while exchange.begun is None:
            if not target.is_alive():
                message = f"process {target.process_id} has ended"
                raise AttachError(message)
            if time.monotonic() >= until_s:
                message = f"process {target.process_id} did not let Python code run for {_PATIENCE_S:.0f} s"
                raise AttachError(message, hint="it is done as soon as that long call has returned")
            time.sleep(_POLL_S)
        error = exchange.begun.get("error")
    if error:
        message = f"process {target.process_id} did not {word}: {error}"
        hint = "msmemscope attach records a program that was started without it" if "not record" in error else None
        raise AttachError(message, hint=hint)
