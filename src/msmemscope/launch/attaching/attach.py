"""Recording a process for a while that runs already: attach, wait, detach, and find what was recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.configuration import Config, with_keywords
from msmemscope.errors import MsmemscopeError
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.recording_of_log import recording_of_capture
from msmemscope.launch import messages
from msmemscope.launch.attaching.exchange import recording
from msmemscope.launch.attaching.remote_call import RECORD, AttachError, load_and_call
from msmemscope.launch.preload import native_directory
from msmemscope.model.events import EventKind
from msmemscope.recording.recording import STEP_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from msmemscope.launch.attaching.exchange import Exchange
    from msmemscope.launch.attaching.target_process import TargetProcess

ATTACH_LIBRARY: Final = "lib64/libmsmemscope_attach.so"
_POLL_S: Final = 0.05
_PATIENCE_S: Final = 5.0
_BEGIN_S: Final = 180.0
"""A program can hold Python's lock for long, again and again: our code needs it for each module that it imports."""
_TIMES_OF_COUNTING: Final = 4
"""By which the pause is longer than counting steps takes: the log is read for it."""
_COUNTED: Final = (*STEP_KINDS, EventKind.START_TRACE)
_LEAST_COUNTING_S: Final = 0.3


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The outcome of one attachment."""

    directory: Path | None
    """The capture; None where nothing was recorded."""
    paused_seconds: float
    """For which one thread of the process stood still."""


def record_for_a_while(
    target: TargetProcess, settings: Mapping[str, str], *, seconds: float | None, steps: int | None
) -> Recorded:
    """Attach to a process, record, and detach; a KeyboardInterrupt ends the recording earlier.

    Args:
        target: The process.
        settings: Keyword arguments of `msmemscope.config`.
        seconds: After which it ends; None for no limit.
        steps: Ended steps after which it ends; None for no limit.

    Raises:
        ConfigurationError: A setting is not accepted. Nothing was done to the process.
        AttachError: Nothing was recorded. The process goes on.
    """
    config = with_keywords(Config(), settings)
    folders = package_folders()
    library = attach_library(folders)
    absolute = {**settings, "output": str(Path(config.output).absolute())}
    with contextlib.closing(_exchange(target, absolute, folders)) as exchange:
        paused_s = load_and_call(target, library, RECORD, str(exchange.folder))
        _wait_for_begin(target, exchange)
        messages.note(f"attached to process {target.process_id}: {target.program[:80]}")
        with contextlib.suppress(KeyboardInterrupt):
            _wait(target, Path(absolute["output"]), seconds, steps)
        exchange.stop()
        directory = _wait_for_end(target, exchange)
    if directory is None:
        directory = _capture_of(target, Path(absolute["output"]))
    return Recorded(directory, paused_s)


def _exchange(target: TargetProcess, settings: Mapping[str, str], folders: Sequence[str]) -> Exchange:
    with named_error():
        return recording(target.user_id, settings, folders, sys.version_info[:2])


@contextlib.contextmanager
def named_error() -> Iterator[None]:
    """Say what an OSError means for a folder of temporary files."""
    try:
        yield
    except OSError as error:
        message = f"no folder for temporary files can be made: {error.strerror}"
        raise AttachError(message, hint="make room, or name another folder in TMPDIR") from error


def package_folders() -> list[str]:
    """Return the folder of this package, and that of the compiled extension if it is another one."""
    spec = importlib.util.find_spec("msmemscope")
    package = str(Path((spec.origin if spec is not None else "") or "").parent)
    return [package, *filter(None, [native_directory(package)])]


def attach_library(folders: Sequence[str]) -> Path:
    """Return the library that is loaded into processes.

    Raises:
        AttachError: It is not there.
    """
    for folder in folders:
        path = Path(folder) / ATTACH_LIBRARY
        if path.is_file():
            return path
    message = f"{ATTACH_LIBRARY} is missing: this msmemscope was not built for Linux"
    raise AttachError(message)


def _wait_for_begin(target: TargetProcess, exchange: Exchange) -> None:
    began_s = time.monotonic()
    is_told = False
    while exchange.begun is None:
        if not target.is_alive():
            message = f"process {target.process_id} has ended"
            raise AttachError(message)
        waited_s = time.monotonic() - began_s
        if waited_s >= _PATIENCE_S and not is_told:
            is_told = True
            messages.note(f"process {target.process_id} is in a long call; waiting until it lets Python code run")
        if waited_s >= _BEGIN_S:
            exchange.stop()
            message = f"process {target.process_id} did not let Python code run for {_BEGIN_S:.0f} s"
            raise AttachError(message, hint="it holds Python's lock in a long call; try again when that has returned")
        time.sleep(_POLL_S)
    error = exchange.begun.get("error")
    if error:
        exchange.stop()
        message = f"process {target.process_id} was left alone: {error}"
        version = ".".join(map(str, sys.version_info[:2]))
        hint = None
        if "it runs Python" in error:
            hint = f"this msmemscope is for Python {version}: install it for that one, and attach with it"
        raise AttachError(message, hint=hint)


def _wait(target: TargetProcess, output: Path, seconds: float | None, steps: int | None) -> None:
    began_s = time.monotonic()
    count_s = began_s + _LEAST_COUNTING_S
    while target.is_alive() and (seconds is None or time.monotonic() - began_s < seconds):
        time.sleep(_POLL_S)
        if steps is not None and time.monotonic() >= count_s:
            before_s = time.monotonic()
            if _steps(target, output) >= steps:
                return
            took_s = time.monotonic() - before_s
            count_s = time.monotonic() + max(_LEAST_COUNTING_S, _TIMES_OF_COUNTING * took_s)


def _steps(target: TargetProcess, output: Path) -> int:
    """The steps that ended since the last begin of collection, as far as they are recorded."""
    directory = _capture_of(target, output)
    if directory is None:
        return 0
    try:
        recording = recording_of_capture(Capture(directory), directory, _COUNTED)
    except MsmemscopeError:
        return 0  # it is being made just now
    starts = recording.events.filter(pl.col("kind") == EventKind.START_TRACE)["sequence"]
    since = int(starts[-1]) if len(starts) else 0
    return recording.steps.filter(pl.col("end_sequence") > since).height


def _wait_for_end(target: TargetProcess, exchange: Exchange) -> Path | None:
    until_s = time.monotonic() + _BEGIN_S
    while exchange.ended is None and target.is_alive() and time.monotonic() < until_s:
        time.sleep(_POLL_S)
    if exchange.ended is None and target.is_alive():
        messages.warning(f"process {target.process_id} has not said that its recording ended: no room on the disk?")
    ended = exchange.ended or {}
    if ended.get("error"):
        messages.warning(f"process {target.process_id} could not end the recording: {ended['error']}")
    return Path(ended["directory"]) if ended.get("directory") else None


def _capture_of(target: TargetProcess, output: Path) -> Path | None:
    """The newest capture of the process in a folder."""
    found = sorted(output.glob(f"msmemscope_{target.process_id}_*_ascend"))
    return found[-1] if found else None
