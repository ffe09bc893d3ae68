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
from msmemscope.formats.dump.columns import COLUMNS
from msmemscope.formats.dump.config_json import config_text
from msmemscope.formats.dump.csv_writer import CsvDump
from msmemscope.formats.dump.naming import (
    CONFIG_FILE,
    DUMP_FOLDER,
    device_folder,
    dump_file,
    home_device,
    python_trace_table,
    timestamp_at,
)
from msmemscope.formats.dump.out_of_memory import OutOfMemoryRows
from msmemscope.formats.dump.output_files import OutputFolder
from msmemscope.formats.dump.python_trace import PythonTraceCsv, trace_rows
from msmemscope.formats.dump.rows import NO_FINDINGS, BlockFindings, DumpRows
from msmemscope.formats.dump.running_totals import BlockTest, RunningTotals
from msmemscope.formats.dump.sqlite_writer import SqliteDump
from msmemscope.model.devices import (
    CPU_WORD,
    DEVICE_CPU,
    DEVICE_NONE,
    NOT_AVAILABLE,
    device_word,
    parse_device_name,
)
from msmemscope.model.events import ROWLESS_KINDS, EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path

    from msmemscope.configuration import Config
    from msmemscope.formats.event_log.capture import Capture

_BATCH_ROWS: Final = 32768


@dataclass(frozen=True)
class DumpFiles:
    """What was written."""

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
    capture: Capture,
    settings: Config,
    findings: BlockFindings = NO_FINDINGS,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> DumpFiles:
    """Writes `config.json`, a dump per device, and the Python trace.

    Args:
        capture: What was recorded.
        settings: The settings it was recorded with: format, stacks to show.
        findings: What the rows of blocks show beside what was recorded.
        progress: Called now and then with the events written and the number of all events.

    Returns:
        The files, none of which existed before, except perhaps `config.json`.

    Raises:
        DumpError: a folder or file cannot be written; unfinished files are removed.
        EventLogError: the event log cannot be read.
    """
    if capture.event_count() == 0:
        return DumpFiles((), (), (), None, 0)
    with ExitStack() as resources:
        session = _DumpSession(capture, settings, findings, resources)
        try:
            session.write_all(progress)
            return session.finish()
        finally:
            session.discard()


class _RenderedBatch(NamedTuple):
    """Consecutive events as they are written."""

    events: int
    rows: pl.DataFrame
    """What `DumpRows` makes of them."""
    trace_rows: pl.DataFrame
    """What `trace_rows` makes of them."""


class _DumpSession:
    """The files of one call of `write_dumps`."""

    def __init__(self, capture: Capture, settings: Config, findings: BlockFindings, resources: ExitStack) -> None:
        self._capture = capture
        self._settings = settings
        self._findings = findings
        self._rows_written = 0
        counts = capture.kind_counts()
        self._calls = counts.get(EventKind.FUNCTION_CALL, 0)
        has_rows = capture.event_count() > sum(counts.get(kind, 0) for kind in ROWLESS_KINDS)
        # Events of no device go into the file of each; without any device, into that of the cpu.
        devices = capture.devices() or ((DEVICE_CPU,) if has_rows else ())
        self._home = home_device(devices, _device_of_trace(capture, settings))
        self._base = resources.enter_context(OutputFolder(capture.directory))
        self._folders = {
            device: resources.enter_context(OutputFolder(capture.directory, device_folder(device), DUMP_FOLDER))
            for device in dict.fromkeys((*devices, self._home))
        }
        for folder in self._folders.values():
            folder.remove_abandoned()
        self._timestamp = _free_timestamp(self._folders.values())
        self._is_csv = settings.data_format == DataFormat.CSV
        self._csv: dict[int, CsvDump] = {}
        self._db: dict[int, SqliteDump] = {}
        self._traced_ns: list[int] = []
        self._last_id = 0
        self._has_device_rows = False
        self._trace = PythonTraceCsv(self._folders[self._home], self._timestamp)
        self._dump_devices = devices

    def write_all(self, progress: Callable[[int, int], None] | None) -> None:
        """Writes all events into unfinished files."""
        self._create_dumps()
        done = 0
        total = self._capture.event_count()
        with closing(_one_ahead(self._rendered())) as batches:
            for batch in batches:
                for device in self._dump_devices:
                    self._write_rows(device, batch.rows)
                self._write_trace(batch.trace_rows)
                done += batch.events
                if progress is not None:
                    progress(done, total)

    def finish(self) -> DumpFiles:
        """Gives all files their names."""
        self._bound_trace()
        csv_files = tuple(dump.finish() for dump in self._csv.values())
        db_files = tuple(dump.finish() for dump in self._db.values())
        trace_files = tuple(self._trace.finish())
        return DumpFiles(csv_files, db_files, trace_files, self._write_config(), self._rows_written)

    def discard(self) -> None:
        """Removes what is not finished."""
        for csv_dump in self._csv.values():
            csv_dump.discard()
        for db_dump in self._db.values():
            db_dump.discard()
        self._trace.discard()

    def _create_dumps(self) -> None:
        if self._is_csv:
            for device in self._dump_devices:
                self._csv[device] = CsvDump(self._folders[device].create(dump_file(self._timestamp, "csv")))
        else:
            for device in dict.fromkeys((*self._dump_devices, *([self._home] if self._calls else []))):
                self._db[device] = SqliteDump(self._folders[device].create(dump_file(self._timestamp, "db")))

    def _rendered(self) -> Iterator[_RenderedBatch]:
        form = AttributeForm.CSV if self._is_csv else AttributeForm.JSON
        totals = RunningTotals(_recorded_blocks(self._capture))
        rows = DumpRows(self._capture, self._settings, form, totals, self._findings)
        failures = OutOfMemoryRows(self._capture, form)
        for batch in self._capture.event_batches(_BATCH_ROWS):
            calls = trace_rows(self._capture, batch) if self._calls else pl.DataFrame()
            rendered = rows.render(batch)
            derived = failures.behind(batch)
            if derived is not None:
                rendered = pl.concat([rendered, derived]).sort("ID")
            yield _RenderedBatch(len(batch), rendered, calls)

    def _write_rows(self, device: int, rendered: pl.DataFrame) -> None:
        if len(self._dump_devices) > 1:
            own = pl.col("device")
            is_of_none = (own < 0) & (own != DEVICE_CPU)
            rendered = rendered.filter((own == device) | is_of_none)
        devices = rendered.drop_in_place("device")
        if rendered.is_empty():
            return
        if self._calls and device == self._home:
            self._last_id = max(self._last_id, *rendered["ID"].top_k(1))
            self._has_device_rows |= bool((devices != DEVICE_NONE).any())
        dump = self._csv[device] if self._is_csv else self._db[device]
        dump.write(rendered)
        self._rows_written += len(rendered)

    def _write_trace(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        if self._is_csv:
            self._trace.write(rows)
        else:
            times = pl.concat([rows["StartTime(ns)"], rows["EndTime(ns)"]]).cast(pl.UInt64, strict=False).drop_nulls()
            self._traced_ns = sorted([*self._traced_ns, *times.bottom_k(1), *times.top_k(1)])
            table = python_trace_table(self._capture.header.process_id)
            self._db[self._home].write_python_trace(table, rows)
        self._rows_written += len(rows)

    def _bound_trace(self) -> None:
        """Writes when a trace began and ended into a database that has no other row of a device.

        MindStudio Insight reads the span of time, and the device, of a database from the rows of its dump.
        """
        if not self._traced_ns or self._has_device_rows or self._home not in self._db:
            return
        first, last = self._traced_ns[0], self._traced_ns[-1]
        header = self._capture.header
        rows = [
            (
                self._last_id + number, "SYSTEM", event, NOT_AVAILABLE, moment, header.process_id, header.process_id,
                device_word(self._home), NOT_AVAILABLE, "{}", None, None,
            )
            for number, event, moment in ((1, "START_TRACE", first), (2, "STOP_TRACE", max(last, first + 1)))
        ]  # fmt: skip
        self._db[self._home].write(pl.DataFrame(rows, COLUMNS, orient="row"))
        self._rows_written += len(rows)

    def _write_config(self) -> Path:
        if CONFIG_FILE in self._base.names():
            return self._base.path / CONFIG_FILE
        file = self._base.create(CONFIG_FILE)
        try:
            file.write(config_text(self._settings).encode())
            return file.finish()
        finally:
            file.discard()


def _one_ahead(batches: Iterator[_RenderedBatch]) -> Generator[_RenderedBatch, None, None]:
    """Yields batches, the next one being made in a second thread while the caller works on one.

    Rendering and writing spend their time in native code without the GIL, so that
    two processors are busy.
    """
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting = worker.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = worker.submit(next, batches, None)
            yield batch


def _device_of_trace(capture: Capture, settings: Config) -> int | None:
    """Returns the device that the process used when its trace ended; None if it did not say, or that is not observed."""
    name = capture.facts.get("python_trace.device", ("",))[-1]
    is_observed = name == CPU_WORD or not {name, name.partition(":")[0]}.isdisjoint(settings.devices)
    return parse_device_name(name) if is_observed else None


def _free_timestamp(folders: Iterable[OutputFolder]) -> str:
    """Chooses a moment, now or soon, that no file of these folders has in its name."""
    names = [name for folder in folders for name in folder.names()]
    now = time.time()
    for delay in range(len(names) + 1):
        timestamp = timestamp_at(now + delay)
        if not any(f"_{timestamp}." in name for name in names):
            return timestamp
    message = "no free name for a dump file"  # unreachable: each name takes one moment
    raise DumpError(message)


def _recorded_blocks(capture: Capture) -> BlockTest | None:
    """Returns a test for MALLOC sequence numbers that the log still has; None if none was dropped."""
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
