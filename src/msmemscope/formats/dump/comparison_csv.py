"""`compare/memory_compare_{timestamp}.csv`: two header lines, then one row per pair of operators or kernels."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.formats.dump.csv_writer import cell_of
from msmemscope.formats.dump.naming import timestamp_at
from msmemscope.formats.dump.output_files import OutputFolder
from msmemscope.formats.event_log.event_frame import device_text
from msmemscope.model.devices import NOT_AVAILABLE

if TYPE_CHECKING:
    from msmemscope.analysis.compare.comparison import Comparison

COMPARE_FOLDER: Final = "compare"
_FIRST_LINE: Final = ",,,Base,Compare\n"
_HEADINGS: Final = (
    "Event", "Name", "Device Id", "Allocated Memory(byte)", "Allocated Memory(byte)", "Diff Memory(byte)",
)  # fmt: skip


def write_comparison(comparison: Comparison, output: Path | str) -> Path:
    """Write a comparison below an output root.

    Args:
        comparison: The comparison to write.
        output: The root, which must exist.

    Returns:
        The file, which did not exist before.

    Raises:
        DumpError: It cannot be written.
    """
    with OutputFolder(Path(output), COMPARE_FOLDER) as folder:
        taken = set(folder.names())
        moment = time.time()
        while (name := f"memory_compare_{timestamp_at(moment)}.csv") in taken:
            moment += 1
        file = folder.create(name)
        try:
            file.write(_FIRST_LINE.encode())
            file.write((",".join(_HEADINGS) + "\n").encode())
            file.write(comparison_text(comparison).encode())
            return file.finish()
        finally:
            file.discard()


def comparison_text(comparison: Comparison) -> str:
    """Return the rows; the side that lacks an element has `N/A`."""
    buffer = io.StringIO()
    comparison.rows.select(
        "event",
        cell_of(pl.col("name")),
        device_text(pl.col("device")),
        pl.col("base_bytes", "compare_bytes").cast(pl.String).fill_null(NOT_AVAILABLE),
        "difference_bytes",
    ).write_csv(buffer, include_header=False, quote_style="necessary")
    return buffer.getvalue()
