"""Makes the index of everything at a path, in a process of its own: the memory of reading goes back with it."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import signal
from typing import TYPE_CHECKING, Final

from msmemscope.errors import InputError, MsmemscopeError
from msmemscope.launch.faults import faults_as_errors
from msmemscope.view.index.store import FACTS_NAME, IndexWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from msmemscope.view.index.cache import IndexFolder

BYTES_PER_EVENT: Final = 160
"""Of memory, about, while an index is made."""


def make_index(path: Path, index: IndexFolder, progress: Callable[[str, float], None]) -> None:
    """Make the index of a path.

    Args:
        path: A capture folder, or a file.
        index: Where it shall be.
        progress: Called with the next piece of work, and the share of all work that is done, 0 to 1.

    Raises:
        InputError: It cannot be read, or its index cannot be written; of both nothing is left behind.
    """
    with index.made() as folder:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        # Nothing has been read yet, so that there are no threads that a fork would lose.
        worker = multiprocessing.get_context("fork").Process(
            target=_work, args=(path, folder, ours, theirs), daemon=True
        )
        try:
            with _interrupts_later():
                worker.start()
            theirs.close()
            _follow(ours, progress)
        except BaseException:
            if worker.pid is not None:
                worker.kill()
            raise
        finally:
            if worker.pid is not None:
                worker.join()
        if worker.exitcode:
            raise _ended(path, worker.exitcode)


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl+C waits until the end. To block the signal is not enough: another thread would get it."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        for number in came[:1]:
            signal.raise_signal(number)


def _follow(worker: Connection, progress: Callable[[str, float], None]) -> None:
    while True:
        try:
            what, value = worker.recv()
        except (EOFError, OSError):  # it ended, maybe in the middle of a word
            return
        if what == "failure":
            message, hint = value
            raise InputError(message, hint=hint)
        progress(what, value)


def _ended(path: Path, status: int) -> InputError:
    """Why there is no index: its process could not say it itself."""
    message = f"the index of {path} was not made: its process ended with status {status}"
    if -status not in {signal.SIGKILL, signal.SIGABRT}:
        return InputError(message)
    message = f"the index of {path} was not made: its process was ended by {signal.Signals(-status).name}"
    hint = f"where memory runs out, processes are ended so: about {BYTES_PER_EVENT} bytes per event are needed"
    return InputError(message, hint=hint)


def _work(path: Path, folder: Path, read_end: Connection, parent: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches both processes: the other one ends this one
    read_end.close()  # so that we see it when nobody listens any more
    try:
        try:
            with faults_as_errors(during=str(path), send=str(path)):
                build_indexes(path, folder, lambda what, share: parent.send((what, share)))
        except MsmemscopeError as error:
            parent.send(("failure", (error.message, error.hint)))
    except BrokenPipeError:
        shutil.rmtree(folder, ignore_errors=True)  # whoever wanted it was killed


def build_indexes(path: Path, folder: Path, progress: Callable[[str, float], None]) -> None:
    """Build the index of each process at a path.

    Args:
        path: A capture folder, or a file.
        folder: Gets a folder for each: `0`, `1` ...
        progress: As for `make_index`.

    Raises:
        MsmemscopeError: It cannot be read.
    """
    from msmemscope import __version__
    from msmemscope.formats.reading import load_all
    from msmemscope.launch.html_report import report_parts
    from msmemscope.reports.html.document import report_document
    from msmemscope.reports.html.source_excerpts import SourceExcerpts
    from msmemscope.view.index.build import IndexBuilder

    progress("reading", 0.0)
    recordings = list(load_all(path))
    count = len(recordings)
    for number in range(count):

        def share_done(what: str, share: float, number: int = number) -> None:
            progress(what, (number + 0.5 + 0.5 * share) / count)

        writer = IndexWriter(folder / str(number), folder.parent)
        progress("findings", (number + 0.1) / count)
        (part,) = report_parts(recordings[:1], has_pictures=False)
        excerpts = SourceExcerpts(part.summary.start_ns)
        document = report_document([part], excerpts, source=recordings[0].source, version=__version__)
        writer.put_content("document", document)
        of_program = {
            "program": part.summary.program,
            "rank": part.summary.rank,
            "place_words": part.summary.place.words,
            "is_one_of_several": count > 1,
        }
        # The findings, and then the recording, would be a large part of the memory that the rest needs.
        del part, document
        facts = IndexBuilder(recordings.pop(0), writer, share_done).build()
        writer.put_content(FACTS_NAME, {**facts, **of_program})
