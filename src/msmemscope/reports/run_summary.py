"""The data of the summary at the end of a run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.model.place import Place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msmemscope.analysis.host.host_ledger import HostLedger
    from msmemscope.analysis.inefficient.inefficient import InefficientResult
    from msmemscope.analysis.judged import NotJudged
    from msmemscope.analysis.leaks.overview import LeakOverview
    from msmemscope.analysis.owners.decomposition import Decomposition
    from msmemscope.analysis.peak.overview import MemoryOverview
    from msmemscope.analysis.reserved.reserved import ReservedResult
    from msmemscope.analysis.watch.verdict import WatchResult

_MOST_NAMES: Final = 6


@dataclasses.dataclass(frozen=True)
class ResultFile:
    """One file that was written."""

    path: Path
    rows: int | None = None
    """Rows of a table; None for other files."""


@dataclasses.dataclass(frozen=True, eq=False)
class ProcessSummary:
    """One observed process; the same only as itself."""

    process_id: int
    program: str
    """Its command line, for people."""
    directory: Path
    """Its capture directory; of other inputs, the path that was read."""
    form: str = "event log"
    """The format of its input, see `Recording.form`."""
    files: tuple[ResultFile, ...] = ()
    overview: MemoryOverview | None = None
    """None if the capture could not be read."""
    decomposition: Decomposition | None = None
    """None if it was not asked for."""
    leaks: LeakOverview | None = None
    """None if they were not asked for, or cannot be judged."""
    lists_leaks: bool = False
    """Whether leaks were asked for by name: then their lines for scripts stand in the summary of the run, too."""
    reserved: ReservedResult | None = None
    """None if it was not asked for, or was not done."""
    inefficient: InefficientResult | None = None
    """None if it was not asked for, or was not done."""
    watch: WatchResult | None = None
    """None if no memory was watched."""
    not_judged: tuple[NotJudged, ...] = ()
    """The subjects that are not judged where nothing is found."""
    analysis_remarks: tuple[str, ...] = ()
    """Analyses that were asked for and could not be done, and why: one sentence each."""
    place: Place = dataclasses.field(default_factory=Place)
    """In a distributed job; empty if it is not in one."""
    start_ns: int = 0
    """CLOCK_REALTIME when recording began; 0 if not known."""
    is_running: bool = False
    killed_at_bytes: int | None = None
    """The limit of its control group, 0 without one, where the kernel ended it for lack of memory; None elsewhere."""
    was_lost_near_limit: bool = False
    """Whether it left without a word when its control group was near its limit."""
    host_memory: HostLedger | None = None
    """The parts of its host memory; None if it was not asked for, or no figure of it was recorded."""
    is_damaged: bool = False
    """Whether a part of its event log had to be left out."""
    remarks: tuple[str, ...] = ()
    """How the process or its recording ended, and the losses: one sentence each."""
    observed: tuple[str, ...] = ()
    """Sources that were observed, with details."""
    unobserved: tuple[str, ...] = ()
    """Sources that could not be observed, and why."""
    tool_memory_bytes: int = 0
    """Memory of the tool inside the process."""
    tool_memory_limit_bytes: int = 0
    """The most that it could ever have been."""
    log_bytes: int = 0
    """Size of the event log."""

    @property
    def judges_leaks(self) -> bool:
        """Whether leaks were judged."""
        from msmemscope.analysis.judged import LEAKS

        return self.leaks is not None and not any(one.subject == LEAKS for one in self.not_judged)

    @property
    def judges_failures(self) -> bool:
        """Whether a failed allocation would have been seen."""
        from msmemscope.analysis.judged import FAILURES

        return self.overview is not None and not any(one.subject == FAILURES for one in self.not_judged)

    @property
    def rank(self) -> int | None:
        """Among the processes of a distributed job; None if it is not in one."""
        return self.place.rank

    @property
    def leaked_bytes(self) -> int:
        """Bytes of its leaks, slow ones and the cause of a failure too; 0 if leaks were not judged."""
        from msmemscope.reports.run_verdicts import leaks_of_process

        return sum(one.size_bytes for one in leaks_of_process(self))

    @property
    def peak_bytes(self) -> int:
        """The highest use of any one pool."""
        return max((peak.peak_bytes for peak in self.overview.peaks), default=0) if self.overview else 0

    @property
    def event_count(self) -> int:
        """Events of any kind."""
        return self.overview.event_count if self.overview else 0


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """A whole run: all observed processes, and the known facts about those that were not."""

    processes: tuple[ProcessSummary, ...]
    unrecorded: tuple[str, ...] = ()
    """Programs that were started under observation and had nothing to record, each name once."""
    unrecorded_count: int = 0
    """How many processes that were."""
    nothing_recorded: tuple[str, ...] = ()
    """Why nothing could be recorded, one sentence each, as far as it is known."""
    removed: tuple[str, ...] = ()
    """Results that somebody took away before they were finished, one sentence each."""
    unobservable: tuple[str, ...] = ()
    """Programs that could not be observed at all, and why."""
    not_observed: tuple[NotJudged, ...] = ()
    """Devices that were asked for and not observed in any process."""
    recover_command: str = "msmemscope recover DIR"
    """The command that finishes the captures of processes that still run."""

    @property
    def unseen(self) -> tuple[str, ...]:
        """Programs that could not be observed, and those that had nothing to record: one sentence each."""
        texts = [
            *(one.sentence for one in self.not_observed),
            *(f"not observed: {reason}" for reason in self.unobservable),
        ]
        if self.unrecorded_count:
            are = "process" if self.unrecorded_count == 1 else "processes"
            texts.append(f"nothing to record in {self.unrecorded_count} {are}: {listed(self.unrecorded)}")
        return tuple(texts)


def listed(names: Sequence[str]) -> str:
    """Return names in a row; of many, only the first ones."""
    more = len(names) - _MOST_NAMES
    return f"{', '.join(names[:_MOST_NAMES])} and {more} more" if more > 0 else ", ".join(names)
