"""The formats that recordings are exported to: what each is called, and what writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from msmemscope.formats.event_log.archive.archive_writer import write_archive
from msmemscope.formats.event_log.archive.contents import ARCHIVE_MARK, ARCHIVE_SUFFIX
from msmemscope.formats.export.chrome_trace import CHROME_MARK, write_chrome_trace
from msmemscope.formats.export.dump_folder import write_csv_folder, write_db_folder
from msmemscope.formats.export.flamegraph import FLAMEGRAPH_MARK, write_flamegraph
from msmemscope.formats.export.parquet import write_parquet
from msmemscope.formats.export.perfetto import PERFETTO_MARK, write_perfetto
from msmemscope.formats.export.pprof import PPROF_MARK, write_pprof
from msmemscope.formats.export.speedscope import SPEEDSCOPE_MARK, write_speedscope
from msmemscope.formats.export.torch_snapshot import SNAPSHOT_MARK, write_torch_snapshot
from msmemscope.formats.output_place import FOLDER_MARK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from msmemscope.formats.event_log import Capture
    from msmemscope.formats.export.export_choice import ExportChoice
    from msmemscope.formats.export.redaction import Redaction
    from msmemscope.formats.output_place import Mark
    from msmemscope.recording import Recording


class WriteFile(Protocol):
    """Writes a recording as one file."""

    def __call__(
        self, recording: Recording, write: Callable[[bytes | memoryview], None], choice: ExportChoice
    ) -> tuple[str, ...]:
        """Write it.

        Args:
            recording: Any.
            write: Takes the file piece by piece.
            choice: What is chosen beside the format: how the process is called, and the measure where one is taken.

        Returns:
            What is left out or not as it seems, one line each.
        """


class WriteLog(Protocol):
    """Writes an event log as one file."""

    def __call__(
        self, capture: Capture, write: Callable[[bytes], object], progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Write it.

        Args:
            capture: Any.
            write: Takes the file piece by piece.
            progress: Told how many events of how many are written.
        """


class WriteFolder(Protocol):
    """Writes a recording as several files."""

    def __call__(self, recording: Recording, folder: Path, *, redaction: Redaction | None = None) -> tuple[str, ...]:
        """Write it.

        Args:
            recording: Any.
            folder: An empty one.
            redaction: Puts tokens in the place of names; without one they stay.

        Returns:
            What is left out or not as it seems, one line each.

        Raises:
            OSError: The disk is full, or gone.
        """


@dataclass(frozen=True)
class ExportFormat:
    """One format. Either `write` or `write_folder` is there."""

    summary: str
    """What opens it."""
    suffix: str
    """Ends the name of a file or folder that is not named."""
    mark: Mark
    """By which a file or folder is known to be of this format, and ours."""
    write: WriteFile | None = None
    write_folder: WriteFolder | None = None
    takes_measure: bool = False
    """Whether it holds one measure of stacks, which is chosen."""


EXPORT_FORMATS: Final[dict[str, ExportFormat]] = {
    "torch-snapshot": ExportFormat("pytorch.org/memory_viz, Mosaic", ".pickle", SNAPSHOT_MARK, write_torch_snapshot),
    "perfetto": ExportFormat("ui.perfetto.dev", ".pftrace", PERFETTO_MARK, write_perfetto),
    "chrome-trace": ExportFormat("chrome://tracing, ui.perfetto.dev", ".trace.json", CHROME_MARK, write_chrome_trace),
    "speedscope": ExportFormat("speedscope.app", ".speedscope.json", SPEEDSCOPE_MARK, write_speedscope),
    "flamegraph": ExportFormat(
        "flamegraph.pl, inferno", ".folded.txt", FLAMEGRAPH_MARK, write_flamegraph, takes_measure=True
    ),
    "pprof": ExportFormat("go tool pprof, Pyroscope", ".pb.gz", PPROF_MARK, write_pprof),
    "parquet": ExportFormat("Polars, pandas, DuckDB", "_parquet", FOLDER_MARK, write_folder=write_parquet),
    "csv": ExportFormat("MindStudio Insight, spreadsheets", "_csv", FOLDER_MARK, write_folder=write_csv_folder),
    "db": ExportFormat("MindStudio Insight, SQLite", "_db", FOLDER_MARK, write_folder=write_db_folder),
}
"""By the names that `msmemscope export --to` takes."""


@dataclass(frozen=True)
class LogFormat:
    """A format that is made of an event log itself, and not of what is read from it."""

    summary: str
    """What opens it."""
    suffix: str
    """Ends the name of a file that is not named."""
    mark: Mark
    """By which a file is known to be of this format, and ours."""
    write: WriteLog


LOG_FORMATS: Final[dict[str, LogFormat]] = {
    "archive": LogFormat("msmemscope, as the capture itself", ARCHIVE_SUFFIX, ARCHIVE_MARK, write_archive),
}
"""Likewise."""
