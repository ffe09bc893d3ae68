"""The horizontal axis of memory over time: where each event stands on it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Positions: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


@dataclasses.dataclass(frozen=True, eq=False)
class TimeAxis:
    """When each event of a process happened: nanoseconds, or numbers of events where the input has no times."""

    sequences: Numbers
    """Of all events, ascending."""
    moments: Positions
    """Of each: since the first event, never falling."""
    is_time: bool
    """Whether moments are nanoseconds."""
    begin_ns: int
    """CLOCK_REALTIME of moment 0; 0 without times."""

    @classmethod
    def of(cls, recording: Recording) -> TimeAxis:
        """Return the axis of a process."""
        sequences = recording.events["sequence"].to_numpy()
        times = recording.events["timestamp_ns"].to_numpy()
        # Threads read the clock in another order than numbers are drawn.
        times = np.maximum.accumulate(times) if len(times) else times
        if len(times) and times[0] and times[-1] > times[0]:
            begin_ns = int(times[0])
            times -= times[0]  # ours, and one copy of so many is enough
            return cls(sequences, times.astype(np.float64), is_time=True, begin_ns=begin_ns)
        first = sequences[0] if len(sequences) else 0
        return cls(sequences, (sequences - first).astype(np.float64), is_time=False, begin_ns=0)

    @property
    def length(self) -> float:
        """The moment of the last event."""
        return float(self.moments[-1]) if len(self.moments) else 0.0

    def of_events(self, sequences: Numbers) -> Positions:
        """Return the moments of events; one that the input has no row of stands where the next one does.

        Args:
            sequences: Their numbers.
        """
        if not len(self.moments):
            return np.zeros(len(sequences))
        places = np.minimum(np.searchsorted(self.sequences, sequences), len(self.moments) - 1)
        found: Positions = self.moments[places]
        return found

    def columns_of(self, sequences: Numbers, count: int) -> Numbers:
        """Return which of `count` equally wide columns each event lies in; ascending where the events are.

        Args:
            sequences: Their numbers.
            count: Columns.
        """
        if self.length <= 0:
            return np.zeros(len(sequences), dtype=np.int64)
        columns = np.floor(self.of_events(sequences) * (count / self.length)).astype(np.int64)
        return np.minimum(columns, count - 1)
