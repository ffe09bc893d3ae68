"""The steps of a program as they end, and how much more is in use after each."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
"""Ranges that are open at once; further ones are no steps."""
_OF_IMPLIED: Final = {"optimizer": StepSource.OPTIMIZER, "module": StepSource.MODULE}
_BEST_FIRST: Final = (StepSource.OPTIMIZER, StepSource.MODULE)


class _Step(NamedTuple):
    """A step that has ended."""

    begin: int
    """Sequence number of the begin of a range; 0 of others."""
    device: int
    in_use: Mapping[int, int]
    """The bytes that each place had in use at its end."""


@dataclasses.dataclass
class _Ended:
    """Steps of one source."""

    count: int = 0
    recent: collections.deque[_Step] = dataclasses.field(default_factory=lambda: collections.deque(maxlen=_RECENT))
    """The latest ones."""
    latest: int = 0
    """Sequence number of the latest end."""


@dataclasses.dataclass
class _OpenRange:
    """A range of a step that has begun."""

    begin: int
    device: int
    within: int = 0
    """Steps that have ended within it, and are steps only as long as it has no end."""


class LiveSteps:
    """Counts steps in the same way as `Recording.steps`.

    The program's own words on its steps come first: calls or ranges, whichever were first. Then come steps of an
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
        self._open: dict[int, _OpenRange] = {}
        self._is_step_name: dict[int, bool] = {}

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

    @property
    def latest_end(self) -> int:
        """Sequence number of the event that ended the latest step; 0 before the first."""
        source = self.source
        return self._ended[source].latest if source in self._ended else 0

    def use_after(self, place: int) -> int | None:
        """Return the bytes that a place had in use at the end of the latest step; None before the first."""
        source = self.source
        if source not in self._ended or not self._ended[source].recent:
            return None
        return self._ended[source].recent[-1].in_use.get(place, 0)

    def growth_bytes(self, place: int) -> int | None:
        """Return how much more a place has in use after a step than after the one before, on average of the latest ones.

        None before two steps have ended behind the set-up of the program.
        """
        source = self.source
        if source not in self._ended:
            return None
        ended = self._ended[source]
        judged = min(len(ended.recent), ended.count - WARM_UP_STEPS)
        if judged <= 1:
            return None
        first, last = ended.recent[-judged].in_use, ended.recent[-1].in_use
        return round((last.get(place, 0) - first.get(place, 0)) / (judged - 1))

    def fold(self, records: Numbers, use_at: Callable[[int], Mapping[int, int]]) -> None:
        """Take further events in.

        Args:
            records: `layout.RECORD`, in sequence order.
            use_at: Returns the bytes that each place has in use right after an event.
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
        for record, device in zip(records[rows], devices_of(records[rows]).tolist(), strict=True):
            self._take(record, device, use_at)

    def _take(self, record: Any, device: int, use_at: Callable[[int], Mapping[int, int]]) -> None:
        kind, sequence, number = int(record["kind"]), int(record["sequence"]), int(record["extra"])
        if kind == EventKind.STEP:
            self._marked = self._marked or StepSource.CALLS
            self._end(StepSource.CALLS, _Step(0, device, use_at(sequence)), sequence)
        elif kind == EventKind.IMPLIED_STEP:
            source = _OF_IMPLIED.get(self._implied_source_of(int(record["attribute_id"])) or "")
            if source is not None:
                self._end(source, _Step(0, device, use_at(sequence)), sequence)
        elif kind == EventKind.RANGE_START:
            self._marked = self._marked or StepSource.RANGES
            if len(self._open) < _MOST_OPEN:
                self._open[number] = _OpenRange(sequence, device)
        elif number in self._open:
            self._end_range(self._open.pop(number), use_at(sequence), sequence)

    def _end(self, source: StepSource, step: _Step, sequence: int) -> None:
        self._ended[source].count += 1
        self._ended[source].latest = sequence
        self._ended[source].recent.append(step)

    def _end_range(self, ended: _OpenRange, in_use: Mapping[int, int], sequence: int) -> None:
        """Count a range, and no more those of its device within it: they are part of its step.

        A range that never ends holds nothing, so that one within it counts until then.
        """
        steps = self._ended[StepSource.RANGES]
        is_part = [step.device == ended.device and step.begin > ended.begin for step in steps.recent]
        others = [step for step, is_part_of_it in zip(steps.recent, is_part, strict=True) if not is_part_of_it]
        steps.recent = collections.deque(others, maxlen=_RECENT)
        steps.count -= ended.within
        self._end(StepSource.RANGES, _Step(ended.begin, ended.device, in_use), sequence)
        for around in self._open.values():
            if around.device == ended.device and around.begin < ended.begin:
                around.within += 1 - ended.within

    def _is_step(self, name_id: int) -> bool:
        known = self._is_step_name.get(name_id)
        if known is None:
            known = self._is_step_name[name_id] = self._text_of(name_id).strip('"') == STEP_RANGE_NAME
        return known
