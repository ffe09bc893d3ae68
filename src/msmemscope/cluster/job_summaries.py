"""The summaries of a whole job, whoever makes them: merged as they come, and written as a table for people's own questions."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.cluster.merging import JobPart, MergeTree, part_of_summaries
from msmemscope.cluster.summary import SUMMARY_SCHEMA, summaries_of
from msmemscope.errors import DumpError
from msmemscope.formats.output_place import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from msmemscope.cluster.capture_task import CaptureOutcome

TABLE_MARK: Final = Mark(begin=b"PAR1", near_end=b"msmemscope cluster", end=b"PAR1")
"""Of a table of summaries: its metadata name the writer."""
_BATCH: Final = 128
"""Summaries that are taken in together; more than that are never held with their curves."""


def merge_outcomes(outcomes: Iterable[CaptureOutcome], *, table: Path | None, done: Callable[[], None]) -> JobPart:
    """Merge the outcomes of captures.

    Args:
        outcomes: In any order; the result does not depend on it.
        table: A new file that gets all summaries (Parquet, `summary.SUMMARY_SCHEMA`); None for none.
        done: Called after each capture.

    Raises:
        DumpError: The table cannot be written; then nothing of it is there.
    """
    tree = MergeTree()
    with contextlib.ExitStack() as stack:
        parts = None
        if table is not None:
            with _written(table):
                folder = stack.enter_context(tempfile.TemporaryDirectory(dir=table.absolute().parent))
            parts = _TableParts(Path(folder))
        for batch in _batches(outcomes, done):
            # Together: work on a table costs more than work on its rows.
            failures = tuple((one.location, one.failure) for one in batch if one.failure)
            rows = summaries_of([(one.location, one.content) for one in batch if not one.failure])
            tree.add(part_of_summaries(rows, failures))
            if parts is not None and table is not None:
                with _written(table):
                    parts.add(rows)
        if parts is not None and table is not None:
            with _written(table):
                parts.write(table)
    return tree.result()


def _batches(outcomes: Iterable[CaptureOutcome], done: Callable[[], None]) -> Iterator[list[CaptureOutcome]]:
    batch = []
    for outcome in outcomes:
        batch.append(outcome)
        done()
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@contextlib.contextmanager
def _written(table: Path) -> Iterator[None]:
    """Errors of writing, in which Polars says of a full disk that its own file is damaged."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        message = f"{table} cannot be written: {reason}"
        raise DumpError(message, hint="make room, or name another file with --summaries") from error


class _TableParts:
    """Files that the table is made of at the end.

    Args:
        folder: For them.
    """

    def __init__(self, folder: Path) -> None:
        """Begin without rows."""
        self._folder = folder
        self._files: list[Path] = []

    def add(self, rows: pl.DataFrame) -> None:
        """Take summaries in."""
        self._files.append(self._folder / str(len(self._files)))
        rows.write_parquet(self._files[-1])

    def write(self, table: Path) -> None:
        """Write the table, by rank."""
        scans = [pl.scan_parquet(file) for file in self._files] or [SUMMARY_SCHEMA.to_frame().lazy()]
        whole = self._folder / "whole"
        metadata = {"written_by": TABLE_MARK.near_end.decode()}
        pl.concat(scans).sort("rank", "role", "node", "process_id", "source", nulls_last=True).sink_parquet(
            whole, metadata=metadata
        )
        whole.rename(table)
