"""The work on one capture, on any machine: find its kept summary, else read the capture and sum it up.

Nothing is raised and nothing is printed: any fault is the outcome.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

import polars as pl

from msmemscope.cluster.captures import bring, fingerprint, is_url, remote_fingerprint
from msmemscope.cluster.rank_analysis import analyze_rank
from msmemscope.cluster.summary import SUMMARY_VERSION, packed, summaries_of
from msmemscope.configuration import LogLevel
from msmemscope.errors import InputError, MsmemscopeError
from msmemscope.formats.reading import load_all
from msmemscope.launch import messages
from msmemscope.launch.faults import faults_as_errors

_SUFFIX: Final = ".summary"


@dataclasses.dataclass(frozen=True)
class TaskOptions:
    """Options of all captures."""

    cache: str | None
    """The folder that summaries are kept in; None keeps none."""


@dataclasses.dataclass(frozen=True)
class CaptureOutcome:
    """The outcome of one capture."""

    location: str
    content: bytes = b""
    """Summaries of its processes: an Arrow stream of `summary.SUMMARY_SCHEMA`."""
    failure: str = ""
    """Why there are none, in one line."""


def summarise_capture(location: str, options: TaskOptions) -> CaptureOutcome:
    """Sum up the processes of a capture.

    Args:
        location: A path or URL.
        options: Common to all.
    """
    try:
        # The summary of a capture has all that is to be said of it.
        with messages.printed_from(LogLevel.ERROR), faults_as_errors(send=location):
            return CaptureOutcome(location, _content(location, options))
    except MsmemscopeError as error:
        return CaptureOutcome(location, failure=" ".join(error.message.split()))


def _content(location: str, options: TaskOptions) -> bytes:
    with contextlib.ExitStack() as stack:
        path = Path(location)
        made_of = remote_fingerprint(location) if is_url(location) else fingerprint(path)
        kept = None if options.cache is None else Path(options.cache) / f"{_key(made_of)}{_SUFFIX}"
        known = None if kept is None else _kept(kept, location)
        if known is not None:
            return known
        if is_url(location):
            path = bring(location, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="msmemscope-"))))
        content = _summed_up(path, location, made_of)
        if kept is not None:
            _keep(kept, content)
        return content


def _summed_up(path: Path, location: str, made_of: str) -> bytes:
    recordings = load_all(path)
    return packed(pl.concat([analyze_rank(one, source=location, fingerprint=made_of).row for one in recordings]))


def _key(made_of: str) -> str:
    """The name of a kept summary: another version of ours may see something else in the same files."""
    from msmemscope import __version__

    return hashlib.blake2b(f"{SUMMARY_VERSION} {__version__} {made_of}".encode(), digest_size=16).hexdigest()


def _kept(file: Path, location: str) -> bytes | None:
    """The summaries that were kept, named as they are asked for; None where there are none, or they are damaged."""
    try:
        rows = summaries_of([(str(file), file.read_bytes())])
    except (OSError, InputError):
        return None
    return packed(rows.with_columns(source=pl.lit(location)))


def _keep(file: Path, content: bytes) -> None:
    """Keep summaries; a cache that cannot be written costs time the next time, and nothing else."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, part = tempfile.mkstemp(prefix=file.name, dir=file.parent)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(content)
            Path(part).replace(file)
        except OSError:
            Path(part).unlink(missing_ok=True)
            raise
