"""Makes the index of everything at a path, in a process of its own: what reading takes of memory goes back with it."""

from __future__ import annotations

import json
import multiprocessing
from typing import TYPE_CHECKING, Any

from msmemscope.errors import InputError, MsmemscopeError
from msmemscope.view.index.store import FACTS_FILE, IndexWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from msmemscope.view.index.cache import IndexFolder


def make_index(path: Path, index: IndexFolder, progress: Callable[[str, float], None]) -> None:
    """Make the index of a path.

    Args:
        path: A capture folder, or a file.
        index: Where it shall be.
        progress: Called with what is done next, and the share of the work that is behind it, 0 to 1.

    Raises:
        InputError: It cannot be read.
    """
    with index.made() as folder:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        # Nothing has been read yet, so that there are no threads that a fork would lose.
        worker = multiprocessing.get_context("fork").Process(target=_work, args=(path, folder, theirs))
        worker.start()
        theirs.close()
        try:
            _follow(ours, progress)
        finally:
            worker.join()
        if worker.exitcode:
            message = f"the index of {path} was not made: its process ended with status {worker.exitcode}"
            raise InputError(message, hint="it may have run out of memory: about 450 bytes per event are needed")


def _follow(worker: Connection, progress: Callable[[str, float], None]) -> None:
    while True:
        try:
            what, value = worker.recv()
        except EOFError:
            return
        if what == "failure":
            message, hint = value
            raise InputError(message, hint=hint)
        progress(what, value)


def _work(path: Path, folder: Path, parent: Connection) -> None:
    try:
        build_indexes(path, folder, lambda what, share: parent.send((what, share)))
    except MsmemscopeError as error:
        parent.send(("failure", (error.message, error.hint)))


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
    from msmemscope.launch.faults import faults_as_errors
    from msmemscope.launch.html_report import report_parts
    from msmemscope.reports.html.document import report_document
    from msmemscope.reports.html.source_excerpts import SourceExcerpts
    from msmemscope.view.index.build import IndexBuilder

    progress("reading", 0.0)
    with faults_as_errors(during=str(path), send=str(path)):
        recordings = load_all(path)
        for number, recording in enumerate(recordings):

            def share_done(what: str, share: float, number: int = number) -> None:
                progress(what, (number + 0.2 + 0.8 * share) / len(recordings))

            writer = IndexWriter(folder / str(number))
            (part,) = report_parts([recording], has_pictures=False)
            excerpts = SourceExcerpts(part.summary.start_ns)
            document = report_document([part], excerpts, source=recording.source, version=__version__)
            writer.put_content("document", document)
            facts: dict[str, Any] = IndexBuilder(recording, writer, share_done).build()
            facts["program"] = part.summary.program
            facts["rank"] = part.summary.rank
            facts["is_one_of_several"] = len(recordings) > 1
            (folder / str(number) / FACTS_FILE).write_text(json.dumps(facts), encoding="utf-8")
