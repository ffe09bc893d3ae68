"""The source of dump files: the event log of a process, or any recording under the same interface."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import polars as pl

from msmemscope.formats.attributes import pairs_of_texts
from msmemscope.formats.event_log.definitions import UNKNOWN_TEXT
from msmemscope.formats.event_log.event_frame import written_devices
from msmemscope.model.devices import DEVICE_NONE
from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from msmemscope.recording import Recording


_BATCH_ROWS: Final = 262_144


class RecordedProcess(Protocol):
    """The process that was recorded."""

    @property
    def process_id(self) -> int:
        """0 if not known."""

    @property
    def dropped_recycled(self) -> int:
        """Events that the flight recorder overwrote."""


class RecordedEvents(Protocol):
    """The part of `formats.event_log.Capture` that dump files are made of."""

    @property
    def directory(self) -> Path:
        """Where dump files go."""

    @property
    def header(self) -> RecordedProcess:
        """The process."""

    @property
    def facts(self) -> Mapping[str, tuple[str, ...]]:
        """The facts that were noted, by key."""

    @property
    def module_changes(self) -> tuple[int, ...]:
        """Sequence numbers from which on an address of a native stack can mean another module than before."""

    def event_count(self) -> int:
        """Return the number of events."""

    def kind_counts(self) -> Mapping[int, int]:
        """Return the number of events by `EventKind` value."""

    def devices(self) -> tuple[int, ...]:
        """Return the devices that events name: accelerators in order, then the cpu; "none" left out."""

    def event_batches(self, rows: int = ...) -> Iterator[pl.DataFrame]:
        """Yield all events in sequence order, as tables of `EVENT_SCHEMA`, none of them empty."""

    def restricted_to(self, kinds: Collection[int]) -> RecordedEvents:
        """Return the same events, but `event_batches` yields only some kinds."""

    def string_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the texts of string ids: `id`, `text`."""

    def attribute_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the attributes of some ids, as `ATTRIBUTE_SCHEMA`."""

    def attribute_pairs(self, ids: pl.Series) -> pl.DataFrame:
        """Return the same in the order in which it was recorded, as `formats.attributes.PAIR_SCHEMA`."""

    def python_stack_text(self, stack_id: int) -> str:
        """Return a frame per line, innermost first; empty for 0."""

    def native_stack_text(self, stack_id: int, sequence: int = ...) -> str:
        """Return a frame per line, innermost first, as an event of that sequence number has it; empty for 0."""

    def function_text(self, code_id: int) -> str:
        """Return the text of a traced function."""


class _Process(NamedTuple):
    process_id: int
    dropped_recycled: int


class EventsOfRecording:
    """A recording that was read from anything, as `RecordedEvents`.

    Calls of functions are left out: a recording has numbers of functions, and not their names.

    Args:
        recording: Any.
        directory: Where dump files go.
    """

    def __init__(self, recording: Recording, directory: Path) -> None:
        self.directory = directory
        self.header = _Process(recording.process_id, 0)
        self.facts = recording.facts
        self.module_changes: tuple[int, ...] = ()
        self._recording = recording
        devices = pl.Series("device", written_devices(recording.events["device"].to_numpy()))
        self._events = recording.events.with_columns(devices).filter(pl.col("kind") != EventKind.FUNCTION_CALL)
        self._python_stacks = _by_id(recording.python_stacks)
        self._native_stacks = _by_id(recording.native_stacks)

    def event_count(self) -> int:
        """Return the number of events."""
        return self._events.height

    def kind_counts(self) -> Mapping[int, int]:
        """Return the number of events by `EventKind` value."""
        return dict(self._events["kind"].value_counts().iter_rows())

    def devices(self) -> tuple[int, ...]:
        """Return the devices that events name, as `RecordedEvents.devices`."""
        named = (device for device in self._events["device"].unique() if device != DEVICE_NONE)
        return tuple(sorted(named, key=lambda device: (device < 0, device)))

    def event_batches(self, rows: int = _BATCH_ROWS) -> Iterator[pl.DataFrame]:
        """Yield the events."""
        return self._events.iter_slices(rows)

    def restricted_to(self, kinds: Collection[int]) -> EventsOfRecording:
        """Return the same with the events of some kinds alone."""
        restricted = copy.copy(self)
        restricted._events = self._events.filter(pl.col("kind").is_in([int(kind) for kind in kinds]))  # noqa: SLF001 - a copy
        return restricted

    def string_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the texts of string ids."""
        wanted = pl.DataFrame({"id": ids.unique().cast(pl.UInt32)}).filter(pl.col("id") != 0)
        return wanted.join(self._recording.strings.select("id", "text"), on="id", how="left").with_columns(
            pl.col("text").fill_null(UNKNOWN_TEXT)
        )

    def attribute_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the attributes of some ids."""
        return self._recording.attributes.filter(pl.col("attribute_id").is_in(ids.unique().implode()))

    def attribute_pairs(self, ids: pl.Series) -> pl.DataFrame:
        """Return the same as pairs."""
        wanted = pl.DataFrame({"id": ids.unique(maintain_order=True).cast(pl.UInt32)}).filter(pl.col("id") != 0)
        texts = wanted.join(self._recording.strings.select("id", "text"), on="id", maintain_order="left")
        return pairs_of_texts(texts)

    def python_stack_text(self, stack_id: int) -> str:
        """Return the text of a Python stack."""
        return self._python_stacks.get(stack_id, "")

    def native_stack_text(self, stack_id: int, sequence: int = 0) -> str:
        """Return the text of a native stack, whatever the event."""
        del sequence
        return self._native_stacks.get(stack_id, "")

    def function_text(self, code_id: int) -> str:
        """Calls are left out, so nobody asks.

        Raises:
            KeyError: Always.
        """
        raise KeyError(code_id)


def _by_id(texts: pl.DataFrame) -> dict[int, str]:
    return dict(texts.select("id", "text").iter_rows())
