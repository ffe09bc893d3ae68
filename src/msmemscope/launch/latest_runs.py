"""Finding the latest runs in an output folder: a verb is about these where no path is given."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.errors import EventLogError, UsageError
from msmemscope.formats.event_log import Capture

if TYPE_CHECKING:
    from pathlib import Path

_CAPTURES: Final = "msmemscope_*_ascend*"


@dataclasses.dataclass(frozen=True)
class Run:
    """The captures of one launch, or of one process that was not launched."""

    captures: tuple[Path, ...]
    """The folders of its processes, in the order of their start."""
    begun_ns: int
    """When the first of them began."""

    def __str__(self) -> str:
        more = len(self.captures) - 1
        others = f" and {more} more of the same run" if more else ""
        return f"{self.captures[0]}{others}"


def runs_in(output: Path) -> list[Run]:
    """Return the runs below an output folder, the latest one last."""
    captures = [
        known for folder in output.glob(_CAPTURES) if folder.is_dir() and (known := _beginning(folder)) is not None
    ]
    found: dict[object, list[tuple[int, Path]]] = {}
    for begun_ns, folder, session in sorted(captures):
        found.setdefault(session or folder, []).append((begun_ns, folder))
    runs = [Run(tuple(folder for _, folder in parts), parts[0][0]) for parts in found.values()]
    return sorted(runs, key=lambda run: run.begun_ns)


def _beginning(folder: Path) -> tuple[int, Path, int] | None:
    """Return when a capture began, and its session; None of a folder without a log, or one that is gone meanwhile."""
    try:
        header = Capture(folder).header
        return header.start_ns or folder.stat().st_mtime_ns, folder, header.session
    except (EventLogError, OSError):
        return None


def latest_runs(output: Path, count: int = 1) -> list[Run]:
    """Return the latest runs, the last one last.

    Raises:
        UsageError: There are not so many.
    """
    runs = runs_in(output)
    if len(runs) < count:
        found = {0: "no run lies", 1: "one run lies"}.get(len(runs), f"{len(runs)} runs lie")
        message = f"a path is missing, and {found} in {output}"
        raise UsageError(message, hint="name a capture folder (msmemscope_*_ascend) or a dump file")
    return runs[-count:]
