"""Writes the dump files of a capture, each once: one pass over its events, in constant memory."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from msmemscope.configuration import DataFormat
from msmemscope.errors import DumpError
from msmemscope.formats.dump.attributes import AttributeForm
from msmemscope.formats.dump.carried_values import BlockTest, RunningTotals
from msmemscope.formats.dump.columns import COLUMNS, PYTHON_TRACE_COLUMNS
from msmemscope.formats.dump.config_json import config_text
from msmemscope.formats.dump.csv_writer import CsvTable
from msmemscope.formats.dump.naming import (
    CONFIG_FILE,
    DUMP_FOLDER,
    DUMP_TABLE,
    device_folder,
    dump_file,
    home_device,
    python_trace_table,
    timestamp_at,
)
from msmemscope.formats.dump.out_of_memory import OutOfMemoryRows
from msmemscope.formats.dump.output_files import OutputFolder
from msmemscope.formats.dump.python_trace import PythonTraceCsv, TraceRows
from msmemscope.formats.dump.rows import NO_FINDINGS, BlockFindings, DumpRows, rows_of_frame
from msmemscope.formats.dump.sqlite_writer import SqliteFile, SqliteTable
from msmemscope.model.devices import (
    DEVICE_CPU,
    DEVICE_NONE,
    NOT_AVAILABLE,
    device_word,
    parse_device_name,
)
from msmemscope.model.events import ROWLESS_KINDS, EventKind
from msmemscope.model.place import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path

    from msmemscope.configuration import Config
    from msmemscope.formats.dump.cells import Flags, TableRows
    from msmemscope.formats.dump.python_trace import Calls
    from msmemscope.formats.dump.recorded_events import RecordedEvents
    from msmemscope.formats.dump.rows import RenderedRows

_BATCH_ROWS: Final = 65536


@dataclass(frozen=True)
class DumpFiles:
    """The files that were written."""

    csv_files: tuple[Path, ...]
    """One per device."""
    db_files: tuple[Path, ...]
    """One per device."""
    python_trace_files: tuple[Path, ...]
    """One per thread; empty in db format, where the trace is a table of a db file."""
    config_file: Path | None
    """config.json; None if there was nothing to write at all."""
    rows_written: int
    """Rows of all dumps and traces; an event of no device counts once per device."""


def write_dumps(
    capture: RecordedEvents,
    settings: Config,
    findings: BlockFindings = NO_FINDINGS,
    *,
    directory: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DumpFiles:
    """Write `config.json`, a dump per device, and the Python trace.

    Args:
        capture: The recorded events.
        settings: The settings of the recording: format, stacks to show.
        findings: Findings to show in the rows of blocks, beside the recorded facts.
        directory: Where the files go; by default to the capture.
        progress: Called now and then with the events written and the number of all events.

    Returns:
        The files. All are new, except perhaps `config.json`.

    Raises:
        DumpError: a folder or file cannot be written; unfinished files are removed.
        EventLogError: the event log cannot be read.
    """
    if capture.event_count() == 0:
        return DumpFiles((), (), (), None, 0)
    with ExitStack() as resources:
        session = _DumpSession(capture, settings, findings, directory or capture.directory, resources)
        try:
            session.write_all(progress)
            return session.finish()
        finally:
            session.discard()


class _Content(NamedTuple):
    """The next bytes of a file, or none behind the last ones of a batch of events."""

    table: CsvTable | SqliteTable | None
    content: Any
    events: int = 0
    """How many events the batch had."""


class _DumpSession:
    """The files of one call of `write_dumps`."""

    def __init__(
        self,
        capture: RecordedEvents,
        settings: Config,
        findings: BlockFindings,
        directory: Path,
        resources: ExitStack,
    ) -> None:
        self._capture = capture
        self._settings = settings
        self._findings = findings
        self._rows_written = 0
        counts = capture.kind_counts()
        self._calls = counts.get(EventKind.FUNCTION_CALL, 0)
        has_rows = capture.event_count() > sum(counts.get(kind, 0) for kind in ROWLESS_KINDS)
        traced = _device_of_trace(capture, settings) if self._calls else None
        # Events of no device go into the file of each; without any device, into that of the trace, else of the cpu.
        devices = capture.devices() or ((home_device((), traced),) if has_rows else ())
        self._home = home_device(devices, traced)
        # MindStudio Insight reads the device of a database from its rows, where only a trace was recorded too.
        self._device_of_rest = self._home if self._calls and not capture.devices() else DEVICE_NONE
        self._base = resources.enter_context(OutputFolder(directory))
        self._folders = {
            device: resources.enter_context(OutputFolder(directory, device_folder(device), DUMP_FOLDER))
            for device in dict.fromkeys((*devices, self._home))
        }
        for folder in self._folders.values():
            folder.remove_abandoned()
        self._timestamp = _free_timestamp(self._folders.values())
        self._is_csv = settings.data_format == DataFormat.CSV
        self._form = AttributeForm.CSV if self._is_csv else AttributeForm.JSON
        self._dumps: dict[int, CsvTable | SqliteFile] = {}
        self._home_database: SqliteFile | None = None
        self._tables: dict[int, CsvTable | SqliteTable] = {}
        self._trace_table: SqliteTable | None = None
        self._traced_ns: list[int] = []
        self._last_id = 0
        self._has_device_rows = False
        self._trace = PythonTraceCsv(self._folders[self._home], self._timestamp)
        self._dump_devices = devices

    def write_all(self, progress: Callable[[int, int], None] | None) -> None:
        """Write all events into unfinished files."""
        self._create_dumps()
        done = 0
        total = self._capture.event_count()
        with closing(_one_ahead(self._rendered())) as contents:
            for table, content, events in contents:
                if table is not None:
                    table.append(content)
                    self._trace.written(table)
                    continue
                done += events
                if progress is not None:
                    progress(done, total)

    def finish(self) -> DumpFiles:
        """Give all files their names."""
        self._bound_trace()
        files = tuple(dump.finish() for dump in self._dumps.values())
        csv_files, db_files = (files, ()) if self._is_csv else ((), files)
        trace_files = tuple(self._trace.finish())
        return DumpFiles(csv_files, db_files, trace_files, self._write_config(), self._rows_written)

    def discard(self) -> None:
        """Remove the unfinished files."""
        for dump in self._dumps.values():
            dump.discard()
        self._trace.discard()

    def _create_dumps(self) -> None:
        name = dump_file(self._timestamp, self._settings.data_format.value)
        # The trace is a table of a database, and has files of its own beside CSV files.
        with_trace = [self._home] if self._calls and not self._is_csv else []
        for device in dict.fromkeys((*self._dump_devices, *with_trace)):
            file = self._folders[device].create(name)
            if self._is_csv:
                self._dumps[device] = self._tables[device] = CsvTable(file, COLUMNS)
                continue
            self._dumps[device] = database = SqliteFile(file)
            self._tables[device] = database.add_table(DUMP_TABLE, COLUMNS)
            if device == self._home:
                self._home_database = database

    def _rendered(self) -> Iterator[_Content]:
        """Yield the bytes of all files as they are to be written."""
        form = self._form
        totals = RunningTotals(_recorded_blocks(self._capture))
        home = DEVICE_NONE if self._is_csv else self._device_of_rest
        rows = DumpRows(self._capture, self._settings, form, totals, self._findings, home=home)
        calls = TraceRows(self._capture, is_csv=self._is_csv)
        failures = OutOfMemoryRows(self._capture, form)
        for batch in self._capture.event_batches(_BATCH_ROWS):
            rendered = rows.render(batch)
            derived = failures.behind(batch)
            behind = rows_of_frame(derived, form) if derived is not None else None
            if self._calls and self._home in self._dump_devices:
                self._note_home_rows(rendered)
                if behind is not None:
                    self._note_home_rows(behind)
            for device in self._dump_devices:
                for part in self._rows_of(device, rendered, behind):
                    yield from self._contents(self._tables[device], part)
            if self._calls:
                yield from self._trace_contents(calls.of(batch))
            yield _Content(None, None, len(batch))

    def _note_home_rows(self, rendered: RenderedRows) -> None:
        """Note the rows of the file that the trace lies in, for `_bound_trace`."""
        ids, devices = rendered.ids, rendered.devices
        if len(self._dump_devices) > 1:
            is_here = _rows_of_device(self._home, rendered)
            ids, devices = ids[is_here], devices[is_here]
        if len(ids):
            self._last_id = max(self._last_id, int(ids[-1]))
            self._has_device_rows |= bool((devices != DEVICE_NONE).any())

    def _contents(self, table: CsvTable | SqliteTable, rows: TableRows) -> Iterator[_Content]:
        self._rows_written += rows.height
        for content in table.rendered(rows):
            yield _Content(table, content)

    def _rows_of(self, device: int, rendered: RenderedRows, behind: RenderedRows | None) -> Iterator[TableRows]:
        """Yield the rows of the file of a device; those behind a failure, where their IDs are between others."""
        own = _rows_of_device(device, rendered) if len(self._dump_devices) > 1 else None
        if behind is None:
            yield rendered.rows if own is None else rendered.rows.only(own)
            return
        is_own = np.ones(rendered.rows.count, dtype=np.bool_) if own is None else own
        places = np.searchsorted(rendered.ids, behind.ids)
        shown = np.ones(behind.rows.count, dtype=np.bool_)
        if len(self._dump_devices) > 1:
            shown = _rows_of_device(device, behind)
        begin = 0
        rows = np.arange(rendered.rows.count)
        for place in np.unique(places).tolist():
            yield rendered.rows.only(is_own & (rows >= begin) & (rows < place))
            yield behind.rows.only(shown & (places == place))
            begin = place
        yield rendered.rows.only(is_own & (rows >= begin))

    def _trace_contents(self, calls: Calls) -> Iterator[_Content]:
        rows, times = calls
        if rows.height == 0:
            return
        if self._home_database is None:
            for table, part in self._trace.tables(rows):
                yield from self._contents(table, part)
            return
        if len(times):
            self._traced_ns = sorted([*self._traced_ns, int(times.min()), int(times.max())])
        if self._trace_table is None:  # an empty table would keep Insight from opening the file
            name = python_trace_table(self._capture.header.process_id)
            self._trace_table = self._home_database.add_table(name, PYTHON_TRACE_COLUMNS)
        yield from self._contents(self._trace_table, rows)

    def _bound_trace(self) -> None:
        """Write when a trace began and ended into a database that has no other row of a device, unless it says so.

        MindStudio Insight reads the span of time, and the device, of a database from the rows of its dump.
        """
        if not self._traced_ns or self._has_device_rows or self._home_database is None:
            return
        first, last = self._traced_ns[0], self._traced_ns[-1]
        header = self._capture.header
        rows = [
            (
                self._last_id + number, "SYSTEM", event, NOT_AVAILABLE, moment, header.process_id, header.process_id,
                device_word(self._home), NOT_AVAILABLE, "{}", None, None, self._home,
            )
            for number, event, moment in ((1, "START_TRACE", first), (2, "STOP_TRACE", max(last, first + 1)))
            if not self._capture.kind_counts().get(EventKind[event], 0)
        ]  # fmt: skip
        frame = pl.DataFrame(rows, {**COLUMNS, "device": pl.Int16()}, orient="row")
        for table, content, _ in self._contents(self._tables[self._home], rows_of_frame(frame, self._form).rows):
            if table is not None:
                table.append(content)

    def _write_config(self) -> Path:
        if CONFIG_FILE in self._base.names():
            return self._base.path / CONFIG_FILE
        file = self._base.create(CONFIG_FILE)
        try:
            file.write(config_text(self._settings, Place.from_facts(self._capture.facts)).encode())
            return file.finish()
        finally:
            file.discard()


def _rows_of_device(device: int, rendered: RenderedRows) -> Flags:
    """Return which rows belong into the file of a device: its own, and those of no device."""
    own = rendered.devices
    found: Flags = (own == device) | ((own < 0) & (own != DEVICE_CPU))
    return found


def _one_ahead(batches: Iterator[_Content]) -> Generator[_Content, None, None]:
    """Yield pieces, the next one being made in a second thread while the caller works on one.

    Rendering and writing spend their time in native code without the GIL, so that
    two processors are busy.
    """
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting = worker.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = worker.submit(next, batches, None)
            yield batch


def _device_of_trace(capture: RecordedEvents, settings: Config) -> int | None:
    """Return the device that the process used when its trace ended; None if it did not say, or that is not observed."""
    name = capture.facts.get("python_trace.device", ("",))[-1]
    device = parse_device_name(name)
    return device if device is not None and (device == DEVICE_CPU or settings.observes(device)) else None


def _free_timestamp(folders: Iterable[OutputFolder]) -> str:
    """Choose a moment, now or soon, that no file of these folders has in its name."""
    names = [name for folder in folders for name in folder.names()]
    now = time.time()
    for delay in range(len(names) + 1):
        timestamp = timestamp_at(now + delay)
        if not any(f"_{timestamp}." in name for name in names):
            return timestamp
    message = "no free name for a dump file"  # unreachable: each name takes one moment
    raise DumpError(message)


def _recorded_blocks(capture: RecordedEvents) -> BlockTest | None:
    """Return a test for MALLOC sequence numbers that the log still has; None if none was dropped."""
    if capture.header.dropped_recycled == 0:
        return None
    # A flight recorder's log is small by definition.
    allocations = capture.restricted_to((EventKind.MALLOC,)).event_batches()
    known = np.concatenate([np.zeros(0, dtype=np.uint64), *(batch["sequence"].to_numpy() for batch in allocations)])

    def is_recorded(blocks: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if len(known) == 0:
            return np.zeros(len(blocks), dtype=np.bool_)
        nearest = np.minimum(np.searchsorted(known, blocks), len(known) - 1)
        found: np.ndarray[Any, np.dtype[np.bool_]] = known[nearest] == blocks
        return found

    return is_recorded
