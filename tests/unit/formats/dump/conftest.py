"""Captures to write dumps of."""

from __future__ import annotations

import csv
import io
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from msmemscope.analysis.owners.ownership import owners_of_capture
from msmemscope.configuration import Analysis, Config, DataFormat
from msmemscope.formats.dump import BlockFindings, DumpFiles, write_dumps
from msmemscope.formats.event_log import Capture
from tests.fakes.event_log_builder import EventLogBuilder

if TYPE_CHECKING:
    from pathlib import Path


class Dump(Protocol):
    """Writes the dumps of the event log that was built."""

    def __call__(self, data_format: DataFormat = DataFormat.CSV, **settings: Any) -> DumpFiles:
        """Write them and return the files."""
        ...


@pytest.fixture
def dump(builder: EventLogBuilder) -> Dump:
    """Write the event log, open it and write its dumps."""

    def run(data_format: DataFormat = DataFormat.CSV, **settings: Any) -> DumpFiles:
        config = Config(output=str(builder.root), data_format=data_format, **settings)
        capture = Capture(builder.write())
        has_owners = Analysis.DECOMPOSE in config.analysis
        found = BlockFindings(owners=owners_of_capture(capture).owners) if has_owners else BlockFindings()
        return write_dumps(capture, config, found)

    return run


def csv_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file as a standard reader sees them."""
    content = path.read_bytes().decode()
    assert "\r" not in content
    return list(csv.DictReader(io.StringIO(content, newline="")))


def db_rows(path: Path, table: str = "memscope_dump") -> list[dict[str, Any]]:
    """The rows of a table."""
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]
