"""The twelve columns of a dump, from events."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from msmemscope.configuration import CollectionItem
from msmemscope.formats.dump.attributes import AttributeForm, BlockAttributes, attribute_cells, pointer
from msmemscope.formats.dump.block_column import BlockColumn
from msmemscope.formats.dump.carried_values import LastValues, PinnedMemory
from msmemscope.formats.dump.cells import Part, TableRows, TextCells, TextsByKey, decimal, of_program
from msmemscope.formats.dump.columns import COLUMNS
from msmemscope.formats.dump.inefficient_attribute import KEY
from msmemscope.formats.event_log.event_frame import written_devices
from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE, NOT_AVAILABLE, device_word
from msmemscope.model.events import (
    ACCESS_KINDS,
    EVENT_TYPE_WORDS,
    EVENT_WORDS,
    LAUNCH_KINDS,
    MEMORY_KINDS,
    MSTX_KINDS,
    OOM_TRIGGER_NAME,
    ROWLESS_KINDS,
    EventKind,
)
from msmemscope.model.pools import POOL_WORDS, Pool
from msmemscope.recording.schema import EVENT_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from msmemscope.configuration import Config
    from msmemscope.formats.dump.attributes import Events
    from msmemscope.formats.dump.carried_values import RunningTotals
    from msmemscope.formats.dump.cells import Flags, Numbers
    from msmemscope.formats.dump.recorded_events import RecordedEvents

_KINDS_WITH_STACKS: Final = (EventKind.SNAPSHOT, EventKind.OOM)
"""Kinds whose stacks are shown whatever the settings say: they have some only where memory ran out."""
_KINDS_OF_ITEMS: Final = {
    CollectionItem.ALLOC: (EventKind.MALLOC,),
    CollectionItem.FREE: (EventKind.FREE,),
    CollectionItem.ACCESS: ACCESS_KINDS,
    CollectionItem.LAUNCH: LAUNCH_KINDS,
}
"""The events that a choice of `--events` stands for; those of tracebacks are no rows."""
_TEXTS_OF_PROGRAM: Final = frozenset({"Name", "Call Stack(Python)", "Call Stack(C)"})
"""Columns whose texts come from the observed program; those of Attr stand behind a brace."""
_KINDS_WITH_OWN_NAMES: Final = (EventKind.STEP, EventKind.RANGE_END, EventKind.OOM)
"""Kinds some of whose rows have a name that is no text of the log."""


@dataclasses.dataclass(frozen=True)
class BlockFindings:
    """Findings of analyses about blocks, to be shown in the rows of their MALLOCs."""

    owners: pl.DataFrame | None = None
    """`Ownership.owners`; None if rows are not to show them."""
    inefficient: pl.DataFrame | None = None
    """`InefficientResult.kinds_by_block`; None if rows are not to show them."""


NO_FINDINGS: Final = BlockFindings()


class RenderedRows(NamedTuple):
    """Rows of a dump, and what tells which of them go where."""

    rows: TableRows
    """COLUMNS."""
    ids: Numbers
    """Column ID, rising."""
    devices: Numbers
    """As the events have them."""


class DumpRows:
    """The maker of a dump's rows from batches of events.

    Args:
        capture: Where names and stacks are looked up.
        settings: Which stacks are shown.
        form: How attributes are written in this kind of file.
        totals: The totals of the events before the first batch.
        findings: Findings to show in the rows of blocks, beside the recorded facts.
        home: The device that rows of no device name; by default they name none.
    """

    def __init__(
        self,
        capture: RecordedEvents,
        settings: Config,
        form: AttributeForm,
        totals: RunningTotals,
        findings: BlockFindings = NO_FINDINGS,
        *,
        home: int = DEVICE_NONE,
    ) -> None:
        self._home = home
        self._capture = capture
        self._shows_python_stacks = settings.python_stack
        self._shows_native_stacks = settings.native_stack
        self._stack_scopes = settings.stack_scopes
        self._form = form
        self._totals = totals
        self._last_values = LastValues()
        self._pinned = PinnedMemory(capture)
        self._owner = BlockColumn("owner", findings.owners, form)
        self._inefficient = BlockColumn(KEY, findings.inefficient, form)
        unwritten = [EventKind(kind) for item in settings.unwritten for kind in _KINDS_OF_ITEMS.get(item, ())]
        self._is_shown = ~_is_one_of((*ROWLESS_KINDS, *unwritten))
        is_csv = form is AttributeForm.CSV
        self._cell_of = of_program(is_csv)
        self._names, self._recorded, self._devices, self._python, self._native = (
            TextsByKey(is_csv=is_csv) for _ in range(5)
        )
        self._words = TextsByKey.of(_WORDS, is_csv=is_csv)
        self._type_words = TextsByKey.of(_TYPE_WORDS, is_csv=is_csv)

    def render(self, batch: pl.DataFrame) -> RenderedRows:
        """Return one row per event; kinds that are no rows are left out.

        Args:
            batch: Of EVENT_SCHEMA; batches must be given in order.
        """
        batch = self._pinned.moved_to_driver(batch)
        last_values = [column.fill_null(-1).to_numpy() for column in self._last_values.at_each(batch)]
        columns = {name: batch[name].to_numpy() for name in EVENT_SCHEMA}
        # An allocation that failed is a row where the analysis oom was asked for.
        is_row = self._is_shown[columns["kind"]] & ((columns["kind"] != EventKind.OOM) | (columns["extra"] > 0))
        columns |= dict(zip(("reserved_bytes", "process_used_bytes", "device_used_bytes"), last_values, strict=True))
        columns["live_bytes"] = self._totals.after_each(batch).to_numpy()
        if not is_row.all():
            columns = {name: values[is_row] for name, values in columns.items()}
        return RenderedRows(self._table(columns), columns["sequence"], columns["device"])

    def _table(self, events: Events) -> TableRows:
        kinds = events["kind"]
        process = np.array([self._capture.header.process_id], dtype=np.uint32)
        of_blocks = BlockAttributes(
            recorded=self._recorded_attributes(events),
            owner=self._owner.of_each(events),
            inefficient=self._inefficient.of_each(events),
        )
        cells: dict[str, Numbers | TextCells] = {
            "ID": events["sequence"],
            "Event": TextCells(((self._words.part(kinds + _AFTER_NONE),),)),
            "Event Type": TextCells(((self._type_words.part(_type_keys(events)),),)),
            "Name": self._name(events),
            "Timestamp(ns)": events["timestamp_ns"],
            "Process Id": np.broadcast_to(process, len(kinds)),
            "Thread Id": events["thread_id"],
            "Device Id": self._device(np.where(events["device"] == DEVICE_NONE, self._home, events["device"])),
            "Ptr": TextCells(((pointer(events["address"]).only(_HAS_ADDRESS[kinds]),),), otherwise=_NOT_AVAILABLE),
            "Attr": attribute_cells(self._form, events, of_blocks),
            "Call Stack(Python)": self._python_stacks(events),
            "Call Stack(C)": self._native_stacks(events),
        }
        return TableRows([cells[name] for name in COLUMNS], len(kinds))

    def _name(self, events: Events) -> TextCells:
        kinds, ids = events["kind"], events["name_id"]
        # The name of memory is the operator that allocated it, which has a row of its own.
        used = np.where(_IS_MEMORY[kinds], np.uint32(0), ids)
        names = self._names.part(used, self._texts_of_strings)
        is_unnamed_mark = _IS_MARK[kinds] & (used == 0)
        shape = is_unnamed_mark.astype(np.uint8)
        shapes: tuple[tuple[Part, ...], ...] = ((names, Part(NOT_AVAILABLE).only(used == 0)), ())
        if _HAS_OWN_NAME[kinds].any():
            shape[kinds == EventKind.STEP] = 2
            shape[(kinds == EventKind.RANGE_END) & (ids == 0)] = 3
            shape[kinds == EventKind.OOM] = 4
            range_end = decimal(events["extra"]).between("Range end from id ")
            shapes = (*shapes, (decimal(events["size"]),), (range_end,), (Part(OOM_TRIGGER_NAME),))
        return TextCells(shapes, shape)

    def _texts_of_strings(self, ids: list[int]) -> Iterator[tuple[int, str]]:
        for key, text in self._capture.string_frame(pl.Series(ids, dtype=pl.UInt32)).iter_rows():
            yield key, self._cell_of(text)

    def _device(self, devices: Numbers) -> TextCells:
        keys = written_devices(devices).view(np.uint16).astype(np.uint32) + np.uint32(1)

        def words(fresh: list[int]) -> Iterator[tuple[int, str]]:
            for key in fresh:
                yield key, device_word(int(np.uint16(key - 1).view(np.int16)))

        return TextCells(((self._devices.part(keys, words),),))

    def _recorded_attributes(self, events: Events) -> Part | None:
        ids = events["attribute_id"]
        if not ids.any():
            return None

        def texts(fresh: list[int]) -> Iterable[tuple[int, str]]:
            pairs = self._capture.attribute_pairs(pl.Series(fresh, dtype=pl.UInt32))
            return self._form.recorded(pairs).iter_rows()

        return self._recorded.part(ids, texts)

    def _python_stacks(self, events: Events) -> TextCells:
        ids = _shown_ids(events, "python_stack_id", self._shows_python_stacks)
        if ids is None:
            return TextCells(((),))
        ids = self._within_scopes(ids, events, [scope.python_stack for scope in self._stack_scopes])

        def texts(fresh: list[int]) -> Iterator[tuple[int, str]]:
            for key in fresh:
                yield key, self._cell_of(self._capture.python_stack_text(key))

        return TextCells(((self._python.part(ids, texts),),))

    def _within_scopes(self, ids: Numbers, events: Events, shows: list[bool]) -> Numbers:
        """Return ids of stacks, 0 where the scope of the event does not show them."""
        if not shows:
            return ids
        starts = np.array([scope.first_sequence for scope in self._stack_scopes], dtype=np.uint64)
        place = np.searchsorted(starts, events["sequence"], side="right") - 1
        return np.where(np.array(shows)[place] | _SHOWS_STACKS[events["kind"]], ids, ids.dtype.type(0))

    def _native_stacks(self, events: Events) -> TextCells:
        ids = _shown_ids(events, "native_stack_id", self._shows_native_stacks)
        if ids is None:
            return TextCells(((),))
        ids = self._within_scopes(ids, events, [scope.native_stack for scope in self._stack_scopes])
        # Between two changes of modules an address means the same everywhere.
        changes = self._capture.module_changes
        period = np.searchsorted(np.array(changes, dtype=np.uint64), events["sequence"], side="right")
        keys = np.where(ids == 0, np.uint64(0), period.astype(np.uint64) << np.uint64(32) | ids)

        def texts(fresh: list[int]) -> Iterator[tuple[int, str]]:
            for key in fresh:
                begin = changes[(key >> 32) - 1] if key >> 32 else 0
                yield key, self._cell_of(self._capture.native_stack_text(key & 0xFFFFFFFF, begin))

        return TextCells(((self._native.part(keys, texts),),))


def rows_of_frame(frame: pl.DataFrame, form: AttributeForm) -> RenderedRows:
    """Return rows whose texts were made in another way.

    Args:
        frame: COLUMNS, and `device`.
        form: That of the file.
    """
    is_csv = form is AttributeForm.CSV
    cells: list[Numbers | TextCells] = []
    for name, kind in COLUMNS.items():
        column = frame[name]
        if kind != pl.String:
            cells.append(column.to_numpy())
            continue
        cell_of = of_program(is_csv and name in _TEXTS_OF_PROGRAM)
        texts = {place + 1: cell_of(text) for place, text in enumerate(column) if text is not None}
        keys = np.arange(1, len(frame) + 1, dtype=np.uint32)
        cells.append(TextCells(((TextsByKey.of(texts, is_csv=is_csv).part(keys),),)))
    return RenderedRows(TableRows(cells, len(frame)), frame["ID"].to_numpy(), frame["device"].to_numpy())


def _shown_ids(events: Events, column: str, shows_all: bool) -> Numbers | None:  # noqa: FBT001 - of two lines above
    """Return the stack ids whose text is shown, 0 where none is; None if no text is shown at all."""
    ids = events[column]
    if not shows_all:
        ids = ids * _SHOWS_STACKS[events["kind"]]
    return ids if ids.any() else None


def _is_one_of(kinds: Iterable[EventKind]) -> Flags:
    """Return for each number whether it is that of one of some kinds."""
    return np.isin(np.arange(256), [int(kind) for kind in kinds])


_IS_MEMORY: Final = _is_one_of(MEMORY_KINDS)
_IS_MARK: Final = _is_one_of(MSTX_KINDS)
_HAS_ADDRESS: Final = _is_one_of((*MEMORY_KINDS, *ACCESS_KINDS))
_HAS_OWN_NAME: Final = _is_one_of(_KINDS_WITH_OWN_NAMES)
_SHOWS_STACKS: Final = _is_one_of(_KINDS_WITH_STACKS)
_NOT_AVAILABLE: Final = (Part(NOT_AVAILABLE),)

# Keys of texts begin with 1: kinds take 256 of them, pools the next.
_AFTER_NONE: Final = np.uint16(1)
_FIRST_POOL: Final = 257
_WORDS: Final = {kind + 1: EVENT_WORDS.get(kind, NOT_AVAILABLE) for kind in range(256)}
_TYPE_WORDS: Final = {kind + 1: EVENT_TYPE_WORDS.get(kind, NOT_AVAILABLE) for kind in range(256)} | {
    _FIRST_POOL + pool: POOL_WORDS.get(pool, NOT_AVAILABLE) for pool in range(256)
}


def _type_keys(events: Events) -> Numbers:
    """Return the keys of the words of column `Event Type`: that of the pool for memory, else that of the kind."""
    kinds, pools = events["kind"], events["pool"]
    is_memory = _IS_MEMORY[kinds]
    is_pinned = is_memory & (pools == Pool.HAL) & (events["device"] == DEVICE_CPU)
    shown = np.where(is_pinned, np.uint8(Pool.HOST), pools)
    keys: Numbers = np.where(is_memory, shown + np.uint16(_FIRST_POOL), kinds + _AFTER_NONE)
    return keys
