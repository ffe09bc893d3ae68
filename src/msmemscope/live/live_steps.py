"""The steps of a program as they end, and how much more is in use after each."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.formats.event_log.event_frame import devices_of
from msmemscope.model.events import EventKind
from msmemscope.recording.recording import STEP_RANGE_NAME, StepSource
from msmemscope.recording.step_bounds import WARM_UP_STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Numbers = np.ndarray[Any, np.dtype[Any]]

_RECENT: Final = 64
"""Steps that growth is taken from, the latest ones."""
_MOST_OPEN: Final = 1 << 10
"""Ranges that are open at once; what begins beyond that is no step."""
_OF_IMPLIED: Final = {"optimizer": StepSource.OPTIMIZER, "module": StepSource.MODULE}
_BEST_FIRST: Final = (StepSource.OPTIMIZER, StepSource.MODULE)


@dataclasses.dataclass
class _Ended:
    """Steps of one source."""

    count: int = 0
    recent: collections.deque[Mapping[int, int]] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=_RECENT)
    )
    """What each place had in use at the end of the latest ones."""


class LiveSteps:
    """Counts steps as `Recording.steps` takes them.

    What a program says of its steps counts before what it seems to do: calls or ranges, whichever came first; then steps of an
    optimizer, then those of the outermost module. A range counts once it has ended.

    Args:
        text_of: String id to text.
        implied_source_of: Attribute id of an IMPLIED_STEP to the word of its source.
    """

    def __init__(self, text_of: Callable[[int], str], implied_source_of: Callable[[int], str | None]) -> None:
        """Start without steps."""
        self._text_of = text_of
        self._implied_source_of = implied_source_of
        self._ended: dict[StepSource, _Ended] = collections.defaultdict(_Ended)
        self._marked: StepSource | None = None
        self._open: dict[int, int] = {}
        self._is_step_name: dict[int, bool] = {}
        self.latest_call = 0
        """Sequence number of the latest STEP; 0 before the first."""

    @property
    def source(self) -> StepSource:
        """Where steps are taken from."""
        if self._marked is not None:
            return self._marked
        return next((source for source in _BEST_FIRST if source in self._ended), StepSource.NONE)

    @property
    def count(self) -> int:
        """How many have ended."""
        source = self.source
        return self._ended[source].count if source in self._ended else 0

    def growth_bytes(self, place: int) -> int | None:
        """Return how much more a place has in use after a step than after the one before, on average of the latest ones.

        None before two steps have ended behind those that set up what a program needs.
        """
        source = self.source
        if source not in self._ended:
            return None
        ended = self._ended[source]
        judged = min(len(ended.recent), ended.count - WARM_UP_STEPS)
        if judged <= 1:
            return None
        first, last = ended.recent[-judged], ended.recent[-1]
        return round((last.get(place, 0) - first.get(place, 0)) / (judged - 1))

    def fold(self, records: Numbers, use_at: Callable[[int], Mapping[int, int]]) -> None:
        """Take further events in.

        Args:
            records: `layout.RECORD`, in sequence order.
            use_at: What each place has in use right after an event.
        """
        kinds = records["kind"]
        is_begin = kinds == EventKind.RANGE_START
        if is_begin.any():
            names = [name for name in np.unique(records["name_id"][is_begin]).tolist() if self._is_step(name)]
            is_begin &= np.isin(records["name_id"], names)
        is_call = kinds == EventKind.STEP
        is_end = (kinds == EventKind.RANGE_END) if self._open or is_begin.any() else np.zeros(len(kinds), np.bool_)
        is_implied = kinds == EventKind.IMPLIED_STEP
        rows = np.flatnonzero(is_call | is_begin | is_end | is_implied)
        devices = devices_of(records[rows]).tolist()
        ends: dict[StepSource, list[int]] = collections.defaultdict(list)
        for record, device in zip(records[rows], devices, strict=True):
            source = self._ended_by(record, device)
            if source is not None:
                ends[source].append(int(record["sequence"]))
        for source, sequences in ends.items():
            self._ended[source].count += len(sequences)
            self._ended[source].recent.extend(dict(use_at(sequence)) for sequence in sequences[-_RECENT:])

    def _ended_by(self, record: Any, device: int) -> StepSource | None:
        """Returns the source of the step that an event ends; None if it ends none."""
        kind, number = int(record["kind"]), int(record["extra"])
        if kind == EventKind.STEP:
            self._marked = self._marked or StepSource.CALLS
            self.latest_call = int(record["sequence"])
            return StepSource.CALLS
        if kind == EventKind.IMPLIED_STEP:
            return _OF_IMPLIED.get(self._implied_source_of(int(record["attribute_id"])) or "")
        if kind == EventKind.RANGE_START:
            self._marked = self._marked or StepSource.RANGES
            if len(self._open) < _MOST_OPEN:
                self._open[number] = device
            return None
        if number not in self._open:
            return None
        begun = list(self._open)
        device = self._open.pop(number)
        # A range within another one of its device is part of that step.
        is_within = any(self._open[earlier] == device for earlier in begun[: begun.index(number)])
        return None if is_within else StepSource.RANGES

    def _is_step(self, name_id: int) -> bool:
        known = self._is_step_name.get(name_id)
        if known is None:
            known = self._is_step_name[name_id] = self._text_of(name_id).strip('"') == STEP_RANGE_NAME
        return known
