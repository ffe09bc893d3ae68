"""Memory of this process while a piece of its code runs: collected, then looked at in this very process.

For notebooks and tests, where the result is wanted at once. Polars and NumPy look at it. They are loaded after the
first region has ended, and never while memory is being collected for one.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.session import session
from msmemscope.configuration import SETTINGS_VARIABLE, CollectionItem, CollectMode, Config
from msmemscope.errors import EventLogError

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from msmemscope.analysis.window import MemoryWindow
    from msmemscope.formats.event_log import Capture
    from msmemscope.formats.event_log.new_events import NewEvents


@dataclasses.dataclass(frozen=True)
class FailedAllocation:
    """An allocation for which there was not enough memory, and that was not granted when it was tried again."""

    sequence: int
    """The event of its last attempt."""
    device: int
    size_bytes: int
    is_piece: bool
    """Whether memory was asked for in pieces: more of them may have been wanted."""
    source_line: str


class ObservedRegion:
    """A piece of code between `begin` and `end`.

    Where collection is on already, it stays on and its settings hold. Otherwise it is on from `begin` to `end`.

    Args:
        settings: Keywords of `msmemscope.config`, for where it is not on; without any, the settings in force are used.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._is_own = False
        self.first = 0
        """Sequence number of the first event inside."""
        self.last = 0
        """Sequence number of the first event after it."""
        self._stopped_inside = False

    def begin(self) -> None:
        """Begin to collect.

        Raises:
            ConfigurationError: If a setting is unknown or not accepted; nothing is collected then.
        """
        if not session.is_tracing:
            if self._settings:
                session.configure(**self._settings)
            self.first = _native.next_sequence()
            session.start()
            self._is_own = True
        self.first = self.first or _native.next_sequence()

    def end(self) -> None:
        """Stop what was begun. Blocks that are freed from now on still count as freed."""
        self.last = _native.next_sequence()
        self._stopped_inside = not session.is_tracing
        if self._is_own:
            session.stop()

    def problems(self) -> tuple[str, ...]:
        """Why the figures of this region would be wrong, one line each; empty if they are right."""
        found = list(_ledger.problems)
        if self._stopped_inside:
            found.append("collection was stopped inside (msmemscope.stop())")
        if CollectionItem.ALLOC not in session.config.events:
            found.append("the settings in force leave allocations out (events)")
        if session.config.steps:
            found.append("the settings in force choose steps (steps)")
        return tuple(found)

    def window(self) -> MemoryWindow:
        """The events of memory inside, and the blocks of them that have not been freed up to now.

        To be called after `end`, and before the next region of the process begins.

        Raises:
            EventLogError: If the event log cannot be read.
        """
        from msmemscope.analysis.window import memory_window

        return memory_window(_ledger.blocks(), self.first, self.last)

    def failures(self) -> tuple[FailedAllocation, ...]:
        """The allocations that failed inside for lack of memory, in their order. To be called after `window`."""
        from msmemscope.recording.block_sets import NO_PYTHON_STACK
        from msmemscope.recording.failed_allocations import is_in_pieces
        from msmemscope.recording.source_lines import source_lines

        failed = _ledger.failures()
        failed = failed.filter((failed["sequence"] >= self.first) & (failed["sequence"] < self.last))
        stacks = open_capture().python_stack_frame(failed["python_stack_id"])
        lines = dict(source_lines(stacks).iter_rows())
        return tuple(
            FailedAllocation(
                sequence=row["sequence"],
                device=row["device"],
                size_bytes=row["size"],
                is_piece=is_in_pieces(row["function"]),
                source_line=lines.get(row["python_stack_id"], NO_PYTHON_STACK),
            )
            for row in failed.iter_rows(named=True)
        )


class _Ledger:
    """All blocks that are alive, or were when it was asked last; brought up to date by reading new events only."""

    def __init__(self) -> None:
        self._directory = ""
        self._events: NewEvents | None = None
        self._kept: pl.DataFrame | None = None
        self._attempts: list[pl.DataFrame] = []
        self.problems: tuple[str, ...] = ()

    def blocks(self) -> pl.DataFrame:
        """The blocks that were alive when this was asked last, or came since (`recording.BLOCK_SCHEMA`, no names)."""
        import polars as pl

        from msmemscope.model.events import MEMORY_KINDS, EventKind
        from msmemscope.recording import EVENT_SCHEMA, STRING_SCHEMA, build_blocks
        from msmemscope.recording.failed_allocations import attempts_among

        events = self._events
        if events is None or self._directory != _native.capture_directory():
            events = self._open()
        new = events.read(tuple(int(kind) for kind in (*MEMORY_KINDS, EventKind.OOM, EventKind.SNAPSHOT)))
        capture = open_capture()
        if (new["kind"] == int(EventKind.OOM)).any():
            self._attempts.append(attempts_among(new, capture.string_frame(new["name_id"])))
        known = new if self._kept is None else pl.concat([self._kept, new])
        blocks = build_blocks(known, STRING_SCHEMA.to_frame())
        alive = blocks.filter(pl.col("free_sequence").is_null()).select(sequence="allocation_id")
        mallocs = known.filter(pl.col("kind") == int(EventKind.MALLOC)).select(EVENT_SCHEMA.names())
        self._kept = mallocs.join(alive, on="sequence", how="semi", maintain_order="left")
        self.problems = _losses(capture)
        return blocks

    def failures(self) -> pl.DataFrame:
        """Allocations that failed, up to the last call of `blocks`: the last attempt of each (`attempts_among`)."""
        import polars as pl

        from msmemscope.recording import EVENT_SCHEMA

        if not self._attempts:
            return pl.DataFrame(schema={**EVENT_SCHEMA, "function": pl.String})
        last = [attempts.group_by("call", maintain_order=True).last() for attempts in self._attempts]
        return pl.concat(last).filter(~pl.col("is_served"))

    def _open(self) -> NewEvents:
        """Begin with the log of this process; after a fork it is another one."""
        from pathlib import Path

        from msmemscope.formats.event_log.new_events import NewEvents

        self._directory = _native.capture_directory()
        if not self._directory:
            message = "nothing was recorded in this process"
            raise EventLogError(message)
        self._events = NewEvents(Path(self._directory))
        self._kept = None
        self._attempts = []
        return self._events


_ledger = _Ledger()


def open_capture() -> Capture:
    """The capture of this process, as it is now, for names and stacks.

    Raises:
        EventLogError: If nothing was recorded, or the log cannot be read.
    """
    from msmemscope.formats.event_log import Capture

    directory = _native.capture_directory()
    if not directory:
        message = "nothing was recorded in this process"
        raise EventLogError(message)
    return Capture(directory)


def _losses(capture: Capture) -> tuple[str, ...]:
    header = capture.header
    counts = (
        (header.dropped_failure, "events were not recorded: recording stopped early"),
        (header.dropped_recycled, "events were dropped to stay within max_size"),
        (header.untracked_blocks, "blocks could not be followed"),
    )
    return tuple(f"{count:,} {text}" for count, text in counts if count)


def collect_into_scratch_folder() -> bool:
    """Have the event log written where nobody looks, and removed at the end, unless the program wants results itself.

    It does if it runs under the command line, if it has called `msmemscope.config()`, or if something was recorded
    before.

    Returns:
        Whether it does not, so that nobody else's settings are in force.
    """
    if not session.writes_results:
        return True  # done before
    if SETTINGS_VARIABLE in os.environ or _native.capture_directory() or not _has_default_settings():
        return False
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp(prefix="msmemscope_"))
    session.configure(output=folder)
    session.writes_results = False
    atexit.register(_remove, folder, os.getpid())
    return True


def _has_default_settings() -> bool:
    own: dict[str, Any] = {"session": "", "collect_mode": CollectMode.IMMEDIATE, "utc_offset": 0}
    now: Config = dataclasses.replace(session.config, **own)
    return now == dataclasses.replace(Config(), **own)


def _remove(folder: Path, process_id: int) -> None:
    if os.getpid() == process_id:  # a forked child may end this way too
        import shutil

        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
