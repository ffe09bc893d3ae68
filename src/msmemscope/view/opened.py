"""The processes that are shown: their indexes are made where there are none yet."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.errors import MsmemscopeError
from msmemscope.launch import messages
from msmemscope.view.index.cache import IndexFolder, UnwritableCacheError
from msmemscope.view.index.make import make_index
from msmemscope.view.index.store import IndexReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msmemscope.view.queries.process_view import ProcessView


def open_processes(
    paths: Sequence[Path],
    failures: list[MsmemscopeError],
    progress: Callable[[str, float], None],
    cache: Path | None = None,
) -> list[ProcessView]:
    """Open every process at some paths.

    Args:
        paths: Captures or files.
        failures: Gets those that cannot be read.
        progress: Called with the next piece of work, and the share of all work that is done, 0 to 1.
        cache: Where indexes are kept; None for the folder of the user's cache. If it cannot be written, they are made
            elsewhere for this process alone, and the user is told.
    """
    readers: list[IndexReader] = []
    with contextlib.ExitStack() as until_opened:
        for number, path in enumerate(paths):

            def share_done(what: str, share: float, number: int = number) -> None:
                progress(what, (number + share) / len(paths))

            try:
                try:
                    readers.extend(_readers(path, cache, share_done))
                except UnwritableCacheError as error:
                    # An index that is open can be removed, and is still there for who has it open.
                    cache = _temporary_cache(until_opened, error)
                    readers.extend(_readers(path, cache, share_done))
            except MsmemscopeError as error:
                failures.append(error)
    # Readers of arrays begin threads; before this, a process was forked.
    from msmemscope.view.queries.process_view import ProcessView

    opened: list[ProcessView] = []
    for index in readers:
        facts = index.facts
        name = facts["place_words"] or f"process {facts['process_id']}"
        opened.append(ProcessView(len(opened), f"{name}: {facts['program']}", index))
    return opened


def _readers(path: Path, cache: Path | None, progress: Callable[[str, float], None]) -> list[IndexReader]:
    """The indexes of the processes at a path, opened at once: making those of other paths may remove them."""
    if not path.exists():
        # The reader explains it better than the index would.
        from msmemscope.formats.reading import load_all

        load_all(path)
    index = IndexFolder(path, cache)
    if not index.parts():
        make_index(path, index, progress)
    return [IndexReader(folder) for folder in index.parts()]


def _temporary_cache(until: contextlib.ExitStack, failure: UnwritableCacheError) -> Path:
    """A folder that is gone when everything in it is open.

    Raises:
        UnwritableCacheError: There is none either.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="msmemscope_view_", ignore_cleanup_errors=True)
    except OSError:
        raise failure from None
    made = Path(until.enter_context(folder))
    messages.warning(f"{failure.message}; it is made in {made.parent} for this time only", hint=failure.hint)
    return made
