"""Dumps as CSV and as SQLite: odd values in cells, rows and columns out of place, bytes damaged."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.fuzzing import values
from tests.golden.dump_inputs import HEADER, WRITERS

if TYPE_CHECKING:
    import random

_COLUMNS: Final = HEADER.split(",")
_EVENTS: Final = (
    ("MALLOC", "PTA"), ("FREE", "PTA"), ("MALLOC", "HAL"), ("FREE", "HAL"), ("MALLOC", "HOST"), ("FREE", "HOST_PINNED"),
    ("ACCESS", "READ"), ("ACCESS", "WRITE"), ("ACCESS", "UNKNOWN"), ("OP_LAUNCH", "ATEN_START"), ("OP_LAUNCH", "ATEN_END"),
    ("OP_LAUNCH", "ATB_START"), ("KERNEL_LAUNCH", "KERNEL_LAUNCH"), ("KERNEL_LAUNCH", "KERNEL_EXECUTE_END"), ("MSTX", "Mark"),
    ("MSTX", "Range_start"), ("MSTX", "Range_end"), ("SYSTEM", "STEP"), ("SYSTEM", "ACL_FINI"), ("SNAPSHOT", "SNAPSHOT"),
    ("OOM_DETAIL", "OOM_TRIGGER"), ("OOM_DETAIL", "OOM_TOP_ALLOC"),
)  # fmt: skip
_KEYS: Final = (
    "allocation_id", "addr", "size", "total", "used", "process_used", "device_used", "pinned", "shadow", "type", "dtype", "shape",
    "owner", "page_type", "alloc_type", "streamId", "taskId", "path", "inefficient_type", "inefficient", "func", "req_size",
    "free", "reserved", "MID",
)  # fmt: skip

Rows = list[list[str]]


@lru_cache
def _seed(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        WRITERS[name](path)
        return path.read_bytes()


def csv_dump(rng: random.Random) -> bytes:
    """A CSV dump of any age with something wrong."""
    name = rng.choice([name for name in WRITERS if name.endswith(".csv")])
    if rng.random() < 0.25:
        return values.damaged(rng, _seed(name))
    rows = [row for row in csv.reader(io.StringIO(_seed(name).decode(), newline="")) if row]
    header, rows = rows[0], rows[1:]
    if rng.random() < 0.5:
        header, rows = list(_COLUMNS), _random_rows(rng)
    _change(rng, rows)
    if rng.random() < 0.1:
        _change_columns(rng, header, rows)
    quoting: Any = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC))
    target = io.StringIO(newline="")
    writer = csv.writer(
        target, lineterminator="\r" if rng.random() < 0.02 else rng.choice(("\n", "\n", "\r\n")), quoting=quoting
    )
    writer.writerow(header)
    writer.writerows(rows)
    content = target.getvalue().encode(errors="replace")
    return values.damaged(rng, content) if rng.random() < 0.15 else content


def sqlite_dump(rng: random.Random) -> bytes:
    """A DB dump with something wrong."""
    name = rng.choice([name for name in WRITERS if name.endswith(".db")])
    if rng.random() < 0.3:
        return values.damaged(rng, _seed(name))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA journal_mode=OFF")
            with suppress(sqlite3.Error):  # whatever could be changed is what is read
                _fill(rng, connection)
        content = path.read_bytes()
    return values.damaged(rng, content) if rng.random() < 0.15 else content


def _fill(rng: random.Random, connection: sqlite3.Connection) -> None:
    table = rng.choice(("memscope_dump", "memscope_dump", "leaks_dump"))
    columns = list(_COLUMNS)
    rows = _random_rows(rng)
    _change(rng, rows)
    if rng.random() < 0.1:
        _change_columns(rng, columns, rows)
    kinds = ("INTEGER", "TEXT", "REAL", "BLOB", "NUMERIC", "")
    usual = {"ID", "Timestamp(ns)", "Process Id", "Thread Id"}
    declared = [rng.choice(kinds) if rng.random() < 0.1 else "INTEGER" if name in usual else "TEXT" for name in columns]
    names = [name.replace('"', '""') for name in columns]
    fields = ", ".join(f'"{name}" {kind}' for name, kind in zip(names, declared, strict=True))
    connection.execute(f'CREATE TABLE "{table}" ({fields})')
    marks = ",".join("?" * len(columns))
    for row in rows:
        cells: list[Any] = [_cell_of_database(rng, text) for text in (*row, *[""] * len(columns))[: len(columns)]]
        connection.execute(f'INSERT INTO "{table}" VALUES ({marks})', cells)
    if rng.random() < 0.1:
        connection.execute(rng.choice(_STATEMENTS).format(table=table))


_STATEMENTS: Final = (
    'CREATE VIEW other AS SELECT * FROM "{table}"',
    'CREATE INDEX place ON "{table}" ("ID")',
    'CREATE TRIGGER change AFTER UPDATE ON "{table}" BEGIN DELETE FROM "{table}"; END',
    'ALTER TABLE "{table}" ADD COLUMN more TEXT DEFAULT 1',
    "PRAGMA user_version = 7",
    "PRAGMA encoding = 'UTF-16'",
    "VACUUM",
)


def _cell_of_database(rng: random.Random, text: str) -> Any:
    choice = rng.random()
    if choice < 0.97:
        return text
    other = (
        None,
        text.encode(),
        1.5,
        float("nan"),
        float("inf"),
        2**63 - 1,
        -(2**63),
        b"\xff\0\x1f\x1e",
        rng.randbytes(5),
    )
    return rng.choice(other)


def _random_rows(rng: random.Random) -> Rows:
    oddity = rng.choice((0.0, 0.01, 0.05, 0.3))
    rows = []
    number, time_ns = rng.choice((0, 1, 5)), 1_795_181_430_000_000_000
    block_count = 0
    for _ in range(rng.choice((1, 5, 20, 60))):
        number += rng.choice((1, 1, 1, 2, 0))
        time_ns += rng.choice((0, 1, 1000, 10**6))
        event, kind = rng.choice(_EVENTS)
        block = rng.randrange(block_count + 2)
        block_count += event == "MALLOC"
        address = f"0x{(block + 1) * 512:016x}"
        attributes = ""
        if event in {"MALLOC", "FREE", "ACCESS"}:
            attributes = f"allocation_id:{block},addr:{address},size:{rng.choice((64, 512, 1 << 20))}"
        for key in rng.sample(_KEYS, rng.choice((0, 0, 1, 3))):
            value = values.text(rng) if rng.random() < oddity else str(rng.randrange(1 << 20))
            attributes += f"{',' if attributes else ''}{key}:{value}"
        stack = "train.py(12): forward\ntrain.py(40): <module>\n" if rng.random() < 0.2 else ""
        row = [
            str(number), event, kind, rng.choice(values.NAMES), str(time_ns), str(rng.choice((77, 77, 77, 78))), "78",
            rng.choice(("0", "0", "1", "cpu", "N/A")), address if attributes else "N/A",
            f"{{{attributes}}}" if attributes else "", stack, "",
        ]  # fmt: skip
        for place in range(len(row)):
            if rng.random() < oddity:
                row[place] = _odd_cell(rng, row[place])
        rows.append(row)
    return rows


def _odd_cell(rng: random.Random, cell: str) -> str:
    choice = rng.random()
    if choice < 0.35:
        return str(values.number(rng))
    if choice < 0.6:
        return values.text(rng)
    if choice < 0.8:  # another number within the text
        return re.sub(r"\d+", lambda _: str(values.number(rng)), cell, count=rng.choice((0, 1)))
    return values.damaged(rng, cell.encode()).decode(errors="replace")


def _change(rng: random.Random, rows: Rows) -> None:
    for _ in range(int(rng.expovariate(0.7))):
        if not rows:
            return
        place = rng.randrange(len(rows))
        choice = rng.random()
        if choice < 0.6:
            row = rows[place]
            if row:
                column = rng.randrange(len(row))
                row[column] = _odd_cell(rng, row[column])
        elif choice < 0.7:
            del rows[place]
        elif choice < 0.8:
            rows.insert(rng.randrange(len(rows) + 1), list(rows[place]))
        elif choice < 0.9:
            other = rng.randrange(len(rows))
            rows[place], rows[other] = rows[other], rows[place]
        elif choice < 0.95:
            rows[place] = rows[place][: rng.randrange(len(rows[place]) + 1)]
        else:
            rng.shuffle(rows)


def _change_columns(rng: random.Random, header: list[str], rows: Rows) -> None:
    if not header:
        return
    place = rng.randrange(len(header))
    choice = rng.random()
    if choice < 0.3:
        header[place] = values.text(rng)
    elif choice < 0.5:
        header[place] = rng.choice(header)
    elif choice < 0.7:
        header[place] = header[place].swapcase() + " "
    else:
        del header[place]
        for row in rows:
            del row[place : place + 1]
