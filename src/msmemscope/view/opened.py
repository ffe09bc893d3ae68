"""The processes that are shown: their indexes are made where there are none yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.errors import MsmemscopeError
from msmemscope.view.index.cache import IndexFolder
from msmemscope.view.index.make import make_index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

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
        progress: Called with what is done next, and the share of the work that is behind it, 0 to 1.
        cache: Where indexes are kept; None for the folder of the user's cache.
    """
    folders: list[Path] = []
    for number, path in enumerate(paths):

        def share_done(what: str, share: float, number: int = number) -> None:
            progress(what, (number + share) / len(paths))

        try:
            if not path.exists():
                # The reader explains it better than the index would.
                from msmemscope.formats.reading import load_all

                load_all(path)
            index = IndexFolder(path, cache)
            if not index.parts():
                make_index(path, index, share_done)
            folders.extend(index.parts())
        except MsmemscopeError as error:
            failures.append(error)
    # What reads arrays begins threads; before this, a process was forked.
    from msmemscope.view.index.store import IndexReader
    from msmemscope.view.queries.process_view import ProcessView

    opened: list[ProcessView] = []
    for folder in folders:
        index_of_process = IndexReader(folder)
        facts = index_of_process.facts
        name = f"rank {facts['rank']}" if facts["rank"] is not None else f"process {facts['process_id']}"
        opened.append(ProcessView(len(opened), f"{name}: {facts['program']}", index_of_process))
    return opened
