"""The state of a process at one moment, in plain values. They become text, cells and JSON elsewhere."""

from __future__ import annotations

import dataclasses
from enum import Enum


class Life(str, Enum):
    """Whether the program still runs; the value is the word for people."""

    RUNNING = "running"
    ELSEWHERE = "running, not on this machine"
    ENDED = "has ended"
    KILLED = "was killed, or left without an orderly end"
    STOPPED = "runs; recording has stopped"
    FAILED = "has ended; recording had stopped before"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self in {Life.ENDED, Life.KILLED, Life.FAILED}


@dataclasses.dataclass(frozen=True)
class OwnerInUse:
    """The memory of an owner now."""

    owner: str
    size_bytes: int
    block_count: int


@dataclasses.dataclass(frozen=True)
class SiteInUse:
    """The memory in use of a call site now."""

    site: str
    """The line of the program, `file(line): function`; a native function or an operator where no Python stack was taken."""
    operator: str
    """The outermost operator of most of it; empty for none."""
    size_bytes: int
    block_count: int
    largest_bytes: int
    stack: tuple[str, ...]
    """Of the largest block, innermost first: Python frames, or native ones where there are none."""


@dataclasses.dataclass(frozen=True)
class PoolNow:
    """A pool on a device."""

    device: str
    pool: str
    in_use_bytes: int
    reserved_bytes: int | None
    """The driver's memory that it holds; None where nothing says so."""
    peak_bytes: int
    block_count: int
    growth_per_step_bytes: int | None
    """How much more is in use after a step than after the one before, of the latest steps; None without steps."""
    history_bytes: tuple[int, ...]
    """The most in use in stretches of time of `history_stretch_ns` each, from the first event on."""
    history_stretch_ns: int
    owners: tuple[OwnerInUse, ...]
    """The largest first."""
    sites: tuple[SiteInUse, ...]
    """The largest first; not all of them."""
    other_sites_bytes: int
    """In use of call sites that are not among these."""

    @property
    def name(self) -> str:
        """Names of device and pool, for people."""
        return f"{self.device} ({self.pool})"


@dataclasses.dataclass(frozen=True)
class HostNow:
    """The resident memory of the process."""

    resident_bytes: int
    peak_bytes: int
    group_bytes: int | None
    """That its control group uses; None without a limit."""
    group_limit_bytes: int | None
    """Of its control group; None without one."""


@dataclasses.dataclass(frozen=True)
class FailedNow:
    """Attempts to get memory that failed, and the latest of them."""

    attempt_count: int
    device: str
    size_bytes: int
    """Bytes that were asked for."""
    function: str
    """The function that failed; empty if not known."""
    site: str
    timestamp_ns: int
    """CLOCK_REALTIME."""


@dataclasses.dataclass(frozen=True)
class ProcessNow:
    """A process."""

    source: str
    """Its capture folder."""
    process_id: int
    program: str
    """Its command line."""
    life: Life
    recorded_ns: int
    """From its start up to now, or to its end."""
    event_count: int
    """Events that were read."""
    events_per_second: float
    step_count: int
    step_source: str
    behind_ns: int
    """How long ago the latest event was that has been read, if there are more; 0 if all were read."""
    unread_events: int
    """Of events that were not read yet; 0 if all were."""
    missed_events: int
    """Events that the flight recorder gave back before they could be read."""
    missed_before_events: int
    """The same of those that were gone when reading began."""
    lost_events: int
    """Events that the program could not write."""
    late_events: int
    """Events that were read behind later ones: a peak between them may be a little off."""
    problems: tuple[str, ...]
    """The parts of the log that could not be read."""
    failed: FailedNow | None
    host: HostNow | None
    """None before the first figure of it."""
    pools: tuple[PoolNow, ...]
    """The one with the most in use first."""
