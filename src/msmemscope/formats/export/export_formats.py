"""The formats that recordings are exported to: what each is called, and what writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
    from msmemscope.formats.export.export_choice import ExportChoice, Write
    from msmemscope.formats.output_place import Mark
    from msmemscope.recording import Recording

    Progress = Callable[[int, int], None]
    """Told how many events of how many are written."""


@dataclass(frozen=True)
class ExportFormat:
    """One format, with one of three ways to write it."""

    summary: str
    """The tools that open it."""
    suffix: str
    """Ends the name of a file or folder that is not named."""
    mark: Mark
    """By which a file or folder is known to be of this format, and ours."""
    write: Callable[[Recording, Write, ExportChoice], tuple[str, ...]] | None = None
    """As one file. Returns what is left out or not as it seems, one line each."""
    write_folder: Callable[[Recording, Path, ExportChoice], tuple[str, ...]] | None = None
    """As files in an empty folder, likewise. Raises OSError where the disk is full, or gone."""
    write_log: Callable[[Capture, Callable[[bytes], object], Progress | None], None] | None = None
    """Writes an event log itself, and not what is read from it, as one file."""
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


LOG_FORMATS: Final[dict[str, ExportFormat]] = {
    "archive": ExportFormat("msmemscope, as the capture itself", ARCHIVE_SUFFIX, ARCHIVE_MARK, write_log=write_archive),
}
"""Likewise, those with `write_log`."""
