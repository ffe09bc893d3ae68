"""Reading the event log of this process piece by piece, each event once.

A test suite asks thousands of times for the events since it asked last. A reader of the whole log would need more time
with each question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log.event_frame import event_frame
from msmemscope.formats.event_log.event_segments import joined
from msmemscope.formats.event_log.followed_segment import FollowedSegment
from msmemscope.formats.event_log.layout import RECORD
from msmemscope.formats.event_log.log_folder import EVENT_LOG_DIRECTORY, process_directory, segment_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

    Records = np.ndarray[Any, np.dtype[Any]]

_ROWS_AT_ONCE: Final = 1 << 16
_LAST: Final = (1 << 64) - 1


class NewEvents:
    """The events of a capture that this process is still writing.

    Args:
        directory: `msmemscope_{pid}_{timestamp}_ascend`, or the `event_log` in it.
    """

    def __init__(self, directory: Path) -> None:
        self._log = process_directory(directory) / EVENT_LOG_DIRECTORY
        self._segments: dict[str, FollowedSegment] = {}

    def read(self, kinds: tuple[int, ...]) -> pl.DataFrame:
        """Return the events of these kinds that were committed since the last call, in sequence order.

        Args:
            kinds: Values of `EventKind`; the same at each call.

        Returns:
            A table of `recording.EVENT_SCHEMA`.

        Raises:
            EventLogError: If the log is gone, or a segment cannot be read.
        """
        try:
            names = segment_names(self._log)["events"]
        except OSError as error:
            message = f"{self._log} cannot be read: {error.strerror}"
            raise EventLogError(message) from error
        for name in names:
            if name not in self._segments:
                segment = FollowedSegment.at(self._log / name, len(self._segments))
                if segment is not None:
                    self._segments[name] = segment
        parts = [np.empty(0, dtype=RECORD)]
        for segment in self._segments.values():
            parts.extend(_new_records(segment, kinds))
        records = joined(parts)
        return event_frame(records.take(np.argsort(records["sequence"], kind="stable")))


def _new_records(segment: FollowedSegment, kinds: tuple[int, ...]) -> Iterator[Records]:
    segment.is_at_end = False
    while not segment.is_at_end:
        segment.fill(_ROWS_AT_ONCE)
        records = segment.take(_LAST)
        yield records.compress(np.isin(records["kind"], kinds))
