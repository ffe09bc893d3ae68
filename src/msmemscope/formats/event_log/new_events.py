"""Reading the event log of this process piece by piece, each event once.

A test suite asks thousands of times what has happened since it asked last: reading the whole log each time would take
longer every time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log.capture import EVENT_LOG_DIRECTORY
from msmemscope.formats.event_log.event_frame import event_frame
from msmemscope.formats.event_log.layout import EVENT_SEGMENT_MAGIC, RECORD, SEGMENT_DATA_OFFSET
from msmemscope.formats.event_log.segment_file import SegmentFile, open_segment, read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    Records = np.ndarray[Any, np.dtype[Any]]

_SEGMENT_NAME: Final = re.compile(r"events_\d+\.segment")
_BLOCK_BYTES: Final = 4 << 20


class NewEvents:
    """The events of a capture that this process is still writing.

    Args:
        directory: `msmemscope_{pid}_{timestamp}_ascend`, or the `event_log` in it. Of this machine, so that its byte
            order is ours.
    """

    def __init__(self, directory: Path) -> None:
        inside = directory / EVENT_LOG_DIRECTORY
        self._log = inside if inside.is_dir() else directory
        self._places: dict[str, tuple[int, int]] = {}

    def read(self, kinds: tuple[int, ...]) -> pl.DataFrame:
        """Return the events of these kinds that were committed since the last call, in sequence order.

        Args:
            kinds: Values of `EventKind`; the same at each call.

        Returns:
            A table of `recording.EVENT_SCHEMA`.

        Raises:
            EventLogError: If the log is gone, or a segment cannot be read.
        """
        parts = [np.empty(0, dtype=RECORD)]
        try:
            paths = sorted(self._log.iterdir())
        except OSError as error:
            message = f"{self._log} cannot be read: {error.strerror}"
            raise EventLogError(message) from error
        for path in paths:
            if _SEGMENT_NAME.fullmatch(path.name):
                segment = open_segment(path, EVENT_SEGMENT_MAGIC)
                if segment is not None:
                    parts.extend(self._read_segment(path.name, segment, kinds))
        records = np.concatenate(parts)
        return event_frame(records[np.argsort(records["sequence"], kind="stable")])

    def _read_segment(self, name: str, segment: SegmentFile, kinds: tuple[int, ...]) -> list[Records]:
        """Records of one segment, in which sequence numbers rise; what is not committed yet is read again next time."""
        place, newest = self._places.get(name, (SEGMENT_DATA_OFFSET, 0))
        resume: int | None = None
        end = place
        found = []
        for extent in segment.extents:
            position = max(extent.start, place)
            while position + RECORD.itemsize <= extent.end:
                content = read_bytes(segment, position, min(_BLOCK_BYTES, extent.end - position))
                records = np.frombuffer(content[: len(content) - len(content) % RECORD.itemsize], dtype=RECORD)
                if len(records) == 0:
                    break
                missing = np.flatnonzero(records["sequence"] == 0)
                if resume is None and len(missing):
                    resume = position + int(missing[0]) * RECORD.itemsize
                position += len(records) * RECORD.itemsize
                end = position
                records = records[records["sequence"] > newest]
                if len(records):
                    newest = int(records["sequence"][-1])
                    found.append(records[np.isin(records["kind"], kinds)])
        self._places[name] = (end if resume is None else resume, newest)
        return found
