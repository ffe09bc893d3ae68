"""Writing the results of an analysis back into the dump that it read.

Only the attribute `inefficient_type` of the MALLOC rows concerned changes. Every other byte of a CSV file stays. So
does every other value, table and index of a database. The file is replaced as a whole, or not at all.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msmemscope.errors import DumpError
from msmemscope.formats.dump.csv_attributes import change_csv
from msmemscope.formats.dump.db_attributes import change_database, settle_database
from msmemscope.formats.dump.file_replacement import replacement_of
from msmemscope.formats.dump.naming import SQLITE_MAGIC

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl


@dataclasses.dataclass(frozen=True)
class WrittenBack:
    """The outcome of writing back."""

    path: Path
    rows: int
    """MALLOC rows that were found and have the new attribute now."""
    missing: int
    """Blocks whose MALLOC row is not in the file."""


def write_inefficient_types(path: Path, kinds: pl.DataFrame) -> WrittenBack:
    """Write the attribute `inefficient_type` of blocks into a CSV or DB dump.

    Args:
        path: The dump. Its content decides whether it is CSV or DB.
        kinds: One row per block: `process_id`, `allocation_id` (u64, the ID of its MALLOC row) and `inefficient_type`.
            That is its kinds with commas between them (`early_allocation,late_deallocation`), or an empty text to
            remove the attribute. An earlier value of these blocks is replaced. Other blocks keep theirs.

    Returns:
        How many rows there were. A file without any is not touched.

    Raises:
        DumpError: the file cannot be read or replaced, or is no dump. The file is unchanged then.
    """
    asked = kinds.height
    if not asked:
        return WrittenBack(path, 0, 0)
    try:
        with path.open("rb") as file:
            is_database = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DumpError(message) from error
    if is_database:
        settle_database(path)
    with replacement_of(path) as copy:
        rows = change_database(path, copy, kinds) if is_database else change_csv(path, copy.path, kinds)
        copy.is_wanted = rows > 0
    return WrittenBack(path, rows, asked - rows)
