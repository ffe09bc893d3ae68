"""The memory in use now and at most: events are summed up as they come, in memory that does not grow with their number.

A `Recording` of the same events says the same. All work is done on whole columns.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from msmemscope.formats.event_log.event_frame import devices_of
from msmemscope.formats.event_log.followed_log import KEPT_SEGMENT
from msmemscope.live.attribute_facts import NO_MODULE, AttributeFacts
from msmemscope.live.live_blocks import PLACE_BITS, LiveBlocks, places_of
from msmemscope.live.live_labels import NO_LABELS, LabelSets
from msmemscope.live.live_steps import LiveSteps
from msmemscope.live.memory_history import MemoryHistory
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    Numbers = np.ndarray[Any, np.dtype[Any]]

_STEP_KINDS: Final = (int(EventKind.STEP), int(EventKind.IMPLIED_STEP))
_PINNED_PLACE = DEVICE_CPU << PLACE_BITS | int(Pool.HAL)


class Meanings(Protocol):
    """The meanings of the ids of events; more and more are known."""

    @property
    def strings(self) -> Mapping[int, str]:
        """String id to text."""

    def attribute_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return at least the rows of these ids of `recording.schema.ATTRIBUTE_SCHEMA`."""


@dataclasses.dataclass
class PoolState:
    """A pool on a device."""

    in_use_bytes: int = 0
    peak_bytes: int = 0
    reserved_bytes: int | None = None
    """The driver's memory that it holds, in use or not; None if nothing says so."""
    history: MemoryHistory = dataclasses.field(default_factory=MemoryHistory)


@dataclasses.dataclass
class HostState:
    """The resident memory of the process, as its latest figure has it."""

    private_bytes: int = 0
    """That belongs to no file and is not shared."""
    other_bytes: int = 0
    """Of files, and shared."""
    peak_bytes: int = 0
    attribute_id: int = 0
    """Of the latest figure that says more; 0 for none."""

    @property
    def resident_bytes(self) -> int:
        """All of it."""
        return self.private_bytes + self.other_bytes


@dataclasses.dataclass(frozen=True)
class FailedAttempt:
    """An attempt to get memory that failed."""

    timestamp_ns: int
    device: int
    size_bytes: int
    name_id: int
    """The function that failed."""
    python_stack_id: int
    native_stack_id: int


@dataclasses.dataclass(frozen=True)
class _Changes:
    """The bytes in use in one place, after each of its changes in a part of the events."""

    sequences: Numbers
    in_use: Numbers


class LiveState:
    """Sums events up.

    Args:
        meanings: Of the ids of events. Those of an event are known when it is folded.
    """

    def __init__(self, meanings: Meanings) -> None:
        """Start before the first event."""
        self._meanings = meanings
        self.blocks = LiveBlocks()
        self.pools: dict[int, PoolState] = {}
        """By place, see `live_blocks.device_and_pool`."""
        self.attributes = AttributeFacts(meanings.attribute_frame)
        self.labels = LabelSets(self.text_of)
        self.steps = LiveSteps(self.text_of, self.attributes.step_source)
        self.host = HostState()
        self.event_count = 0
        self.newest_sequence = 0
        self.newest_ns = 0
        """When the latest event was, as CLOCK_REALTIME has it."""
        self.failed_attempts = 0
        self.latest_failure: FailedAttempt | None = None
        self.late_events = 0
        """Events that were read behind one with a larger number: a peak between the two may be a little off."""

    def text_of(self, string_id: int) -> str:
        """Return the text of a string id, the empty one if it is not known."""
        return self._meanings.strings.get(string_id, "")

    def fold(self, records: Numbers, segments: Numbers) -> None:
        """Take further events in.

        Args:
            records: `layout.RECORD`, in sequence order, each event once.
            segments: The segment that each is from, or KEPT_SEGMENT.
        """
        if not len(records):
            return
        self.event_count += len(records)
        self.late_events += int((records["sequence"] < self.newest_sequence).sum())
        self.newest_sequence = max(self.newest_sequence, int(records["sequence"][-1]))
        self.newest_ns = max(self.newest_ns, int(records["timestamp_ns"].max()))
        before = {place: pool.in_use_bytes for place, pool in self.pools.items()}
        changes = self._fold_blocks(records, segments)
        self._fold_last_values(records)
        self._fold_host(records)
        self._fold_failures(records)

        def use_at(sequence: int) -> dict[int, int]:
            found = dict(before)
            for place, change in changes.items():
                row = int(np.searchsorted(change.sequences, sequence, side="right")) - 1
                if row >= 0:
                    found[place] = int(change.in_use[row])
            return found

        self.steps.fold(records, use_at)

    def reconcile(self, firsts: Numbers, kept: Numbers) -> None:
        """Correct the blocks in use after the flight recorder gave events back before they were read.

        Blocks in use with a missed allocation become known; blocks with a missed end go.

        Args:
            firsts: By segment, the number of the first record that it still has.
            kept: Records of allocations that were kept, in order; read behind `firsts`.
        """
        sequences = kept["sequence"]
        rows = self.blocks.are_gone(firsts, sequences)
        gone_places, gone_sizes = self.blocks["place"][rows], self.blocks["size"][rows]
        for place in np.unique(gone_places).tolist():
            self.pools[place].in_use_bytes -= int(gone_sizes[gone_places == place].sum())
        self.blocks.end(rows)
        _, is_known = self.blocks.rows_of(sequences)
        missed = kept[~is_known]
        self._fold_blocks(missed, np.full(len(missed), KEPT_SEGMENT, np.uint32))

    def _fold_blocks(self, records: Numbers, segments: Numbers) -> dict[int, _Changes]:
        """Return the bytes in use after each change, by place."""
        kinds = records["kind"]
        begins = np.flatnonzero(kinds == EventKind.MALLOC)
        ends = np.flatnonzero(kinds == EventKind.FREE)
        named = records["extra"][ends]
        ends = ends[(named != 0) & (named < records["sequence"][ends])]
        begun = records[begins]
        if len(begun) and len(self.blocks) and begun["sequence"][0] < self.blocks["sequence"][-1]:
            is_new = ~self.blocks.already_freed(begun["sequence"])
            begins, begun = begins[is_new], begun[is_new]
        self._add_blocks(begun, segments[begins])
        rows, is_known = self.blocks.rows_of(records["extra"][ends])
        self.blocks.wait_for(records["extra"][ends[~is_known]])
        ends = ends[is_known]
        # A damaged log may end a block twice: it was freed the first time.
        rows, first = np.unique(rows, return_index=True)
        ends = ends[first]
        self._fold_labels(records)
        begin_rows, _ = self.blocks.rows_of(begun["sequence"])
        moments = np.concatenate([begins, ends])
        order = np.argsort(moments, kind="stable")
        moments = moments[order]
        sizes = np.concatenate([begun["size"], -self.blocks["size"][rows]])[order]
        places = np.concatenate([self.blocks["place"][begin_rows], self.blocks["place"][rows]])[order]
        self.blocks.end(rows)
        sequences, times_ns = records["sequence"][moments], records["timestamp_ns"][moments]
        return {
            place: self._change(place, sequences[is_here], times_ns[is_here], sizes[is_here])
            for place in np.unique(places).tolist()
            for is_here in [places == place]
        }

    def _change(self, place: int, sequences: Numbers, times_ns: Numbers, sizes: Numbers) -> _Changes:
        """Take the changes of one place in."""
        pool = self.pools.setdefault(place, PoolState())
        in_use = pool.in_use_bytes + np.cumsum(sizes)
        pool.in_use_bytes = int(in_use[-1])
        pool.peak_bytes = max(pool.peak_bytes, int(in_use.max()))
        pool.history.add(times_ns, in_use)
        return _Changes(sequences, in_use)

    def _add_blocks(self, begun: Numbers, segments: Numbers) -> None:
        is_pinned, modules = self.attributes.of_blocks(begun["attribute_id"])
        # Pinned memory of the host is the driver's, on the cpu; recordings say the same.
        places = np.where(is_pinned, _PINNED_PLACE, places_of(begun))
        texts, text_places = np.unique(begun["extra"], return_inverse=True)
        sets = [
            self.labels.given(NO_LABELS, text_id, adds=False) if text_id else NO_LABELS for text_id in texts.tolist()
        ]
        labels = np.array(sets, np.int32)[text_places]
        self.blocks.add(
            sequence=begun["sequence"],
            size=begun["size"],
            python_stack_id=begun["python_stack_id"],
            native_stack_id=begun["native_stack_id"],
            name_id=begun["name_id"],
            place=places,
            labels=labels,
            module=np.where(is_pinned, NO_MODULE, modules),
            segment=segments,
            flags=begun["flags"],
        )

    def _fold_labels(self, records: Numbers) -> None:
        labelled = records[(records["kind"] == EventKind.OWNER) & (records["attribute_id"] != 0)]
        rows, is_known = self.blocks.rows_of(labelled["extra"])
        texts = labelled["attribute_id"][is_known]
        while len(rows):
            _, first = np.unique(rows, return_index=True)  # of each block the first; the others afterwards
            held = self.blocks["labels"][rows[first]].astype(np.uint64)
            pairs, places = np.unique(held << np.uint64(32) | texts[first], return_inverse=True)
            given = [self.labels.given(pair >> 32, pair & 0xFFFFFFFF, adds=True) for pair in pairs.tolist()]
            self.blocks.label(rows[first], np.array(given, np.int32)[places])
            is_left = np.ones(len(rows), np.bool_)
            is_left[first] = False
            rows, texts = rows[is_left], texts[is_left]

    def _fold_last_values(self, records: Numbers) -> None:
        reserved = records[records["kind"] == EventKind.RESERVED]
        places = places_of(reserved)
        # Of equal values the last one stays in a dict.
        for place, size in dict(zip(places.tolist(), reserved["size"].tolist(), strict=True)).items():
            pool = self.pools.setdefault(place, PoolState())
            pool.reserved_bytes = size if size >= 0 else None

    def _fold_host(self, records: Numbers) -> None:
        """Take figures of resident memory in: those of steps have its private part alone (`host_figures`)."""
        is_figure = records["kind"] == EventKind.HOST_MEMORY
        private = np.where(is_figure, records["size"], records["extra"].astype(np.int64))
        figures = np.flatnonzero((is_figure | np.isin(records["kind"], _STEP_KINDS)) & (private > 0))
        if not len(figures):
            return
        found, private, is_figure = records[figures], private[figures], is_figure[figures]
        told = np.flatnonzero(is_figure & (found["extra"] > 0))
        latest = np.searchsorted(told, np.arange(len(found)), side="right") - 1
        others = np.concatenate([found["extra"][told].astype(np.int64), [self.host.other_bytes]])[latest]
        self.host.private_bytes, self.host.other_bytes = int(private[-1]), int(others[-1])
        self.host.peak_bytes = max(self.host.peak_bytes, int((private + others).max()))
        saying = found[is_figure & (found["attribute_id"] != 0)]
        if len(saying):
            self.host.attribute_id = int(saying["attribute_id"][-1])

    def _fold_failures(self, records: Numbers) -> None:
        failures = np.flatnonzero(records["kind"] == EventKind.OOM)
        if not len(failures):
            return
        self.failed_attempts += len(failures)
        latest = records[failures[-1] :][:1]
        self.latest_failure = FailedAttempt(
            timestamp_ns=int(latest["timestamp_ns"][0]),
            device=int(devices_of(latest)[0]),
            size_bytes=int(latest["size"][0]),
            name_id=int(latest["name_id"][0]),
            python_stack_id=int(latest["python_stack_id"][0]),
            native_stack_id=int(latest["native_stack_id"][0]),
        )
