"""Tables of bytes: Arrow streams of one record batch, whose columns are all `u8` and compressed with zstd.

Polars writes and reads them. It believes the sizes that a file claims, so a file with false sizes could make it ask for
any amount of memory. So the claims of a record batch are compared with what is expected before Polars sees them. The
schema is always our own.
"""

from __future__ import annotations

import functools
import io
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

MOST_ROWS: Final = 1 << 18
"""Of a table: Polars divides longer ones into several record batches."""

_CONTINUES: Final = b"\xff\xff\xff\xff"
_END: Final = _CONTINUES + bytes(4)
_ALIGNMENT: Final = 8
_RECORD_BATCH: Final = 3
"""Type of a message's header."""
_ZSTD: Final = 1
_NOT_COMPRESSED: Final = -1
_SIZE_BYTES: Final = 8
"""In front of the bytes of a column: how many they are once they are decompressed."""
_BUFFERS_OF_COLUMN: Final = 2
"""One says which values are there, and is always empty. The other has the values."""


class ByteTableError(Exception):
    """A table of bytes is not what it should be."""


def write_table(columns: Mapping[str, Bytes]) -> bytes:
    """Return columns, all of the same length and none longer than MOST_ROWS, as an Arrow stream.

    Raises:
        ByteTableError: Polars made another one of it, which could not be read again.
    """
    stream = io.BytesIO()
    table = pl.DataFrame({name: pl.Series(name, values, dtype=pl.UInt8) for name, values in columns.items()})
    table.rechunk().write_ipc_stream(stream, compression="zstd", compat_level=pl.CompatLevel.oldest())
    content = stream.getvalue()
    _checked_batch(content, table.width, table.height)
    return content


def read_table(content: bytes, names: Sequence[str], rows: int) -> dict[str, Bytes]:
    """Return the columns of an Arrow stream.

    Args:
        content: The stream.
        names: The names of its columns.
        rows: How many values each of them has; not more than that is decompressed.

    Raises:
        ByteTableError: It is another stream, or a damaged one.
    """
    try:
        batch = _checked_batch(content, len(names), rows)
        table = pl.read_ipc_stream(io.BytesIO(_schema_message(tuple(names)) + batch + _END))
    except (struct.error, IndexError) as error:
        message = "it ends too early"
        raise ByteTableError(message) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        message = f"it cannot be decompressed: {error}"
        raise ByteTableError(message) from error
    return {name: table[name].to_numpy() for name in names}


@functools.lru_cache(maxsize=8)
def _schema_message(names: tuple[str, ...]) -> bytes:
    """Return the begin of every stream with these columns."""
    content = write_table({name: np.zeros(1, np.uint8) for name in names})
    return content[: _message(content, 0).body_start]


class _Message:
    """Where a message of an Arrow stream lies."""

    def __init__(self, metadata: bytes, body_start: int) -> None:
        self.metadata = metadata
        self.body_start = body_start


def _message(content: bytes, position: int) -> _Message:
    if content[position : position + 4] != _CONTINUES:
        message = "a message begins in another way"
        raise ByteTableError(message)
    (size,) = struct.unpack_from("<I", content, position + 4)
    start = position + 8
    if size > len(content) - start or size % _ALIGNMENT:
        message = "a message is longer than the stream"
        raise ByteTableError(message)
    return _Message(content[start : start + size], start + size)


def _checked_batch(content: bytes, columns: int, rows: int) -> bytes:
    """Return the message of the one record batch in a stream, which claims no more than that.

    Raises:
        ByteTableError: It is another one.
        struct.error: It is cut off.
    """
    start = _message(content, 0).body_start  # behind the schema
    message = _message(content, start)
    described = _FlatTable.root(message.metadata)
    body_bytes = described.number(3, "q")
    end = message.body_start + body_bytes
    if described.number(1, "B") != _RECORD_BATCH or body_bytes < 0 or content[end:] != _END:
        text = "it is not one record batch"
        raise ByteTableError(text)
    _check_columns(described.table(2), content[message.body_start : end], columns, rows)
    return content[start:end]


def _check_columns(batch: _FlatTable, body: bytes, columns: int, rows: int) -> None:
    nodes = batch.structs(1, "qq")
    buffers = batch.structs(2, "qq")
    compression = batch.table(3)
    is_as_expected = (
        batch.number(0, "q") == rows
        and nodes == [(rows, 0)] * columns
        and len(buffers) == columns * _BUFFERS_OF_COLUMN
        and all(length == 0 for _, length in buffers[::_BUFFERS_OF_COLUMN])
        and (compression.number(0, "b"), compression.number(1, "b")) == (_ZSTD, 0)
    )
    if not is_as_expected:
        message = f"it does not hold {columns} columns of {rows} bytes"
        raise ByteTableError(message)
    for offset, length in buffers[1::_BUFFERS_OF_COLUMN]:
        if offset < 0 or length < _SIZE_BYTES or offset + length > len(body):
            message = "a column lies outside of it"
            raise ByteTableError(message)
        (size,) = struct.unpack_from("<q", body, offset)
        if size != rows and not (size == _NOT_COMPRESSED and length - _SIZE_BYTES == rows):
            message = f"a column claims {size} bytes instead of {rows}"
            raise ByteTableError(message)


class _FlatTable:
    """A table of a FlatBuffer, as the metadata of Arrow's messages are written.

    Args:
        content: The buffer.
        position: Where the table lies.
    """

    def __init__(self, content: bytes, position: int) -> None:
        self._content = content
        self._position = position
        self._fields = position - self._read("i", position)
        self._fields_end = self._fields + self._read("H", self._fields)

    @classmethod
    def root(cls, content: bytes) -> _FlatTable:
        """Return the table that a buffer is about."""
        (position,) = struct.unpack_from("<I", content)
        return cls(content, position)

    def number(self, field: int, code: str) -> int:
        """Return a number, which is 0 where it is left out; `code` is that of `struct`."""
        place = self._place(field)
        return 0 if place is None else self._read(code, place)

    def table(self, field: int) -> _FlatTable:
        """Return a table within this one."""
        return _FlatTable(self._content, self._target(field))

    def structs(self, field: int, codes: str) -> list[tuple[int, ...]]:
        """Return a list of structs; `codes` are those of `struct`."""
        start = self._target(field)
        count = self._read("I", start)
        entry = struct.Struct(f"<{codes}")
        content = self._content[start + 4 : start + 4 + count * entry.size]
        if len(content) < count * entry.size:
            message = "a list is longer than its message"
            raise ByteTableError(message)
        return list(entry.iter_unpack(content))

    def _target(self, field: int) -> int:
        place = self._place(field)
        if place is None:
            message = "a message lacks a part"
            raise ByteTableError(message)
        return place + self._read("I", place)

    def _place(self, field: int) -> int | None:
        entry = self._fields + 4 + 2 * field
        offset = self._read("H", entry) if entry + 2 <= self._fields_end else 0
        return self._position + offset if offset else None

    def _read(self, code: str, position: int) -> int:
        if position < 0:
            message = "a message refers to what is before it"
            raise ByteTableError(message)
        value: int = struct.unpack_from(f"<{code}", self._content, position)[0]
        return value
