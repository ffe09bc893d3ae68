"""A capture: everything that one observed process left behind, opened for reading."""

from __future__ import annotations

import contextlib
import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.formats.event_log.archive.contents import is_archive
from msmemscope.formats.event_log.attributes import AttributeReader
from msmemscope.formats.event_log.definitions import UNKNOWN_TEXT, DefinitionTable, PythonFrame
from msmemscope.formats.event_log.event_frame import event_frame
from msmemscope.formats.event_log.event_segments import EventSurvey, merged_records, survey_events
from msmemscope.formats.event_log.events_in_memory import EventsInMemory
from msmemscope.formats.event_log.log_folder import LogFolder, StoredLog
from msmemscope.formats.event_log.stack_texts import StackTexts
from msmemscope.formats.event_log.symbols import LATEST, Symbolizer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from msmemscope.formats.event_log.event_segments import Records
    from msmemscope.formats.event_log.events_in_memory import KindsInMemory
    from msmemscope.formats.event_log.process_header import ProcessHeader

DEFAULT_BATCH_ROWS: Final = 262_144


class Capture:
    """The capture of one process, as it was when its events were first asked for.

    The process may still run, may have been killed, or may have run out of disk. Its capture is read like any other:
    committed records are there, torn ones are not.

    Args:
        directory: `msmemscope_{pid}_{timestamp}_ascend`, or the `event_log` in it; or an archive of one.

    Raises:
        EventLogError: the directory holds no event log, a damaged header, or a
            log of a newer format version.
    """

    def __init__(self, directory: Path | str) -> None:
        self.log: StoredLog = _opened(Path(directory))
        self.directory = self.log.directory
        self._memory: EventsInMemory | None = None
        self._kinds: frozenset[int] | None = None

    def __repr__(self) -> str:
        """Name the directory, which is what identifies a capture."""
        return f"Capture({str(self.directory)!r})"

    @property
    def header(self) -> ProcessHeader:
        """Who wrote the capture, and what was lost."""
        return self.log.header.header

    @property
    def header_is_complete(self) -> bool:
        """False if the process was killed before it wrote its header, so that most of its fields are 0."""
        return self.log.header.is_complete

    @property
    def problems(self) -> tuple[str, ...]:
        """The parts of the log that had to be left out, and why; one line each. Costs one pass over the log."""
        _ = self.definitions  # opens their files
        damaged = self._survey.damaged
        if damaged == 0:
            return self.log.problems
        records = "1 record is" if damaged == 1 else f"{damaged} records are"
        return (*self.log.problems, f"{records} damaged and left out: a checksum, time, number or size that cannot be")

    @property
    def facts(self) -> Mapping[str, tuple[str, ...]]:
        """Fact key to its values in the order in which they were written."""
        return self.definitions.facts

    def setting(self, name: str, default: str = "") -> str:
        """Return the text of a setting that was in force, the last one if it changed."""
        values = self.facts.get(f"setting.{name}")
        return values[-1] if values else default

    @property
    def strings(self) -> Mapping[int, str]:
        """String id to text."""
        return self.definitions.strings

    def event_count(self) -> int:
        """Return the number of committed events; costs one pass over the log."""
        return self._survey.event_count

    def kind_counts(self) -> Mapping[int, int]:
        """Return the number of events by `EventKind` value."""
        return self._survey.kind_counts

    def devices(self) -> tuple[int, ...]:
        """Return the devices that events name: accelerators in order, then the cpu; "none" left out."""
        return tuple(sorted(self._survey.devices, key=lambda device: (device < 0, device)))

    def event_batches(self, rows: int = DEFAULT_BATCH_ROWS) -> Iterator[pl.DataFrame]:
        """Yield all committed events in sequence order, in constant memory; one pass over the log.

        Args:
            rows: Events of one batch; only the last one has fewer, except where only some kinds are read.

        Yields:
            Tables of `EVENT_SCHEMA`, none of them empty.
        """
        survey = self._survey
        if self._kinds is None:
            for records in merged_records(survey.segments, rows):
                yield event_frame(records)
        elif self._memory is not None and self._memory.has(self._kinds):
            yield from self._memory.batches(self._kinds)
        elif not self._kinds.isdisjoint(survey.kind_counts):
            is_wanted = np.isin(np.arange(256), [*self._kinds])
            for records in merged_records(survey.segments, rows):
                chosen = records.compress(is_wanted[records["kind"]])
                if len(chosen):
                    yield event_frame(chosen)

    def record_batches(self, rows: int) -> Iterator[Records]:
        """Yield the same events as records (`layout.RECORD`), of all kinds."""
        return merged_records(self._survey.segments, rows)

    def restricted_to(self, kinds: Collection[int]) -> Capture:
        """Return the same capture, but `event_batches` yields only some kinds of events; all else is as it is."""
        _ = self._survey, self._stack_texts  # found once for both
        restricted = copy.copy(self)
        restricted.__dict__["_kinds"] = frozenset(map(int, kinds))
        return restricted

    @contextlib.contextmanager
    def in_memory(self, kinds: KindsInMemory) -> Iterator[None]:
        """Keep events of some kinds in memory within the block, where `restricted_to` finds them without a pass.

        Args:
            kinds: Which. They are taken during the first pass over the log, or during one more if that was made before.
        """
        self._memory = EventsInMemory(kinds)
        try:
            self.__dict__.pop("_survey", None)
            _ = self._survey
            yield
        finally:
            self._memory = None

    def string_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the texts of string ids, for joining.

        Args:
            ids: Any ids, repeated or not; 0 stands for none and is left out. Those of attributes have a text too.

        Returns:
            One row per different id: `id` (u32), `text`.
        """
        used = _used(ids)
        strings = self.strings
        spelled = self._attribute_reader.texts(used)
        return _text_frame(used, (spelled.get(key) or strings.get(key, UNKNOWN_TEXT) for key in used))

    def attribute_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the attributes of events, for joining.

        Args:
            ids: Values of `attribute_id`, repeated or not, of kinds of events where it names attributes.

        Returns:
            One row per different id that has attributes: `recording.schema.ATTRIBUTE_SCHEMA`.
        """
        return self._attribute_reader.table(_different(ids))

    def attribute_pairs(self, ids: pl.Series) -> pl.DataFrame:
        """Return the same in the order in which it was recorded, as `formats.attributes.PAIR_SCHEMA`."""
        return self._attribute_reader.pairs(_different(ids))

    def python_stack_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the texts of Python stack ids, for joining; see `string_frame`."""
        used = _used(ids)
        return _text_frame(used, map(self._stack_texts.python, used))

    def native_stack_frame(self, ids: pl.Series, sequence: int = LATEST) -> pl.DataFrame:
        """Return the texts of native stack ids, for joining; see `string_frame`.

        Args:
            ids: Any ids, repeated or not.
            sequence: One of the events that have them; between two `module_changes` any will do.
        """
        used = _used(ids)
        return _text_frame(used, (self._stack_texts.native(key, sequence) for key in used))

    def python_stack_text(self, stack_id: int) -> str:
        """Return `<file>(<line>): <function>` and a line feed per frame, innermost first; empty for 0."""
        return self._stack_texts.python(stack_id)

    def python_stack_frames(self, stack_id: int) -> list[PythonFrame]:
        """Return the frames of a Python stack, innermost first; empty for 0 and for an unknown id."""
        definitions = self.definitions
        return [definitions.code(code_id).frame_at(offset) for code_id, offset in definitions.python_stack(stack_id)]

    def python_lines(self) -> set[tuple[str, int]]:
        """Return the file and the line of every call that a Python stack has."""
        definitions = self.definitions
        frames = (definitions.code(code_id).frame_at(offset) for code_id, offset in definitions.python_calls())
        return {(frame.file, frame.line) for frame in frames}

    @property
    def module_changes(self) -> tuple[int, ...]:
        """Sequence numbers from which on an address of a native stack can mean another module than before."""
        return self.symbolizer.changes

    def native_stack_text(self, stack_id: int, sequence: int = LATEST) -> str:
        """Return `module(symbol+0xoff) [0xaddr]` and a line feed per frame, innermost first; empty for 0.

        Args:
            stack_id: The stack.
            sequence: An event that has it; without one, modules are taken as they were at the end.
        """
        return self._stack_texts.native(stack_id, sequence)

    def function_text(self, code_id: int) -> str:
        """Return `<file>(<first line>): <function>` of a code object."""
        code = self.definitions.code(code_id)
        return f"{code.file}({code.first_line}): {code.name}"

    def is_running(self) -> bool:
        """Tell whether the process is still alive (on this machine)."""
        return self.log.is_running()

    @cached_property
    def _survey(self) -> EventSurvey:
        # Where definitions are read after the events, those that are there now have to do.
        known = self.log.definitions() if self.is_running() else self.definitions
        return survey_events(self.log.events, self.log.kept, self._memory, known.first_sequence)

    @cached_property
    def definitions(self) -> DefinitionTable:
        """Code objects, stacks and modules, for those who need more than their texts."""
        # An event's definitions are written before it: while the process still runs, reading them later than the
        # events finds them all.
        if self.is_running():
            _ = self._survey
        return self.log.definitions()

    @cached_property
    def _attribute_reader(self) -> AttributeReader:
        return AttributeReader(self.definitions)

    @cached_property
    def _stack_texts(self) -> StackTexts:
        return StackTexts(self.definitions, self.symbolizer)

    @cached_property
    def symbolizer(self) -> Symbolizer:
        """The symbolizer. It finds lines of source if native stacks were asked for, not if only samples need them."""
        asked = self.facts.get("setting.native_stack_depth", ())
        has_lines = not asked or any(depth != "0" for depth in asked)
        return Symbolizer(self.definitions.modules, self.log.native_frames(), has_lines=has_lines)


def _opened(path: Path) -> StoredLog:
    if not is_archive(path):
        return LogFolder(path)
    # And with it zipfile, at every program's end.
    from msmemscope.formats.event_log.archive.archived_log import ArchivedLog

    return ArchivedLog(path)


def _used(ids: pl.Series) -> list[int]:
    return [key for key in ids.unique().to_list() if key != 0]


def _different(ids: pl.Series) -> pl.Series:
    different: pl.Series = ids.filter(ids != 0).unique().sort()
    return different


def _text_frame(ids: list[int], texts: Iterable[str]) -> pl.DataFrame:
    return pl.DataFrame(
        {"id": pl.Series(ids, dtype=pl.UInt32), "text": pl.Series(list(texts), dtype=pl.String)},
    )
