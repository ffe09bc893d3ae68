"""Orders for a process that records: begin, stop, take a snapshot, change settings. One piece of Python runs in it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from msmemscope.launch.attaching.attach import attach_library, named_error, package_folders
from msmemscope.launch.attaching.exchange import order
from msmemscope.launch.attaching.remote_call import RUN, AttachError, load_and_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.launch.attaching.target_process import TargetProcess

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
_PATIENCE_S: Final = 60.0
"""A program can hold Python's lock for long."""
_POLL_S: Final = 0.01


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
