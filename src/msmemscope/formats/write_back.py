"""Writing what `analysis.inefficient` found into the dumps that lie where the data was read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from msmemscope.errors import DumpError
from msmemscope.formats.dump.write_back import write_inefficient_types
from msmemscope.formats.recognise import recognise
from msmemscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.analysis.inefficient.inefficient import InefficientResult
    from msmemscope.recording import Recording


def write_findings_back(result: InefficientResult, recording: Recording) -> list[str]:
    """Write the attribute `inefficient_type` into the dumps of a process.

    Args:
        result: The findings.
        recording: Where they were found. Its source is a dump, a folder of dumps, or a capture with its newest dumps.

    Returns:
        The changes that were made, one line each.

    Raises:
        DumpError: a dump cannot be replaced; it is as it was.
    """
    files = dumps_at(Path(recording.source))
    if not files:
        return [f"{recording.source} holds no dump that inefficient_type could be written into"]
    if result.findings.is_empty():
        return ["nothing to write back"]
    return write_into(files, result, recording.process_id)


def write_into(files: Iterable[Path], result: InefficientResult, process_id: int) -> list[str]:
    """Write the attribute into some dumps; arguments and errors as for `write_findings_back`."""
    kinds = result.kinds_by_block().with_columns(pl.lit(process_id).alias("process_id"))
    lines = []
    missing = kinds.height
    for file in files:
        written = write_inefficient_types(file, kinds)
        missing -= written.rows
        if written.rows:
            rows = "1 row" if written.rows == 1 else f"{format_count(written.rows)} rows"
            lines.append(f"inefficient_type written into {rows} of {file}")
    if missing > 0:
        blocks = "1 block has" if missing == 1 else f"{format_count(missing)} blocks have"
        lines.append(f"{blocks} no MALLOC row there")
    return lines


def dumps_at(path: Path) -> tuple[Path, ...]:
    """Return the dump files that lie at a path, those of a capture among them; none for other inputs.

    Raises:
        InputError: nothing is there that can be read.
    """
    files: list[Path] = []
    for found in recognise(path):
        if found.failure is not None:
            raise found.failure
        if found.file_format is None:
            files.extend(found.fallback)
        elif found.file_format.is_dump:
            files.extend(found.paths)
    return tuple(files)


def check_writable(files: Iterable[Path]) -> None:
    """Refuse before an analysis what could not be written after it.

    Raises:
        DumpError: a file, or the folder that its replacement is made in, cannot be written.
    """
    for file in files:
        for path in (file, file.absolute().parent):
            if not os.access(path, os.W_OK):
                message = f"{file} cannot be written: no permission for {path}"
                raise DumpError(message, hint="write_back=False of analyze('inefficient') only shows what is found")
