"""Rows of CSV and of databases as nearly all files have them, read by native code: many times as fast as column by column.

Rows that it does not understand at once go to the patient reader (`row_reader.parse_piece`). Both must give the same
results.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from msmemscope import _native
from msmemscope.formats.dump.attribute_reader import attribute_columns
from msmemscope.formats.dump.row_reader import DumpPiece, RowParts, piece_of_parts, stream_and_task
from msmemscope.formats.interning import LocalTexts

_NO_NUMBER: Final = np.iinfo(np.int64).min
"""The number that means "no value" in a column of `_native.read_dump_rows`."""

_COLUMNS: Final[dict[str, type[np.generic]]] = {
    "sequence": np.uint64, "timestamp_ns": np.uint64, "process_id": np.int64, "thread_id": np.uint32,
    "address": np.uint64, "allocation_id": np.uint64, "size": np.int64, "extra": np.uint64, "total": np.int64,
    "used": np.int64, "process_used": np.int64, "device_used": np.int64,
}  # fmt: skip


def usual_rows(content: bytes | bytearray, end: int) -> DumpPiece | None:
    """Read whole rows of a CSV dump whose columns are the usual ones.

    Args:
        content: The rows, each with its line feed, up to `end`.
        end: Number of bytes.

    Returns:
        None if any row is not as usual, or lacks something that would have to be reported with its line number.
    """
    found = _native.read_dump_rows(content, end)
    return None if found is None else _piece_of(found)


class DatabaseLeaves:
    """The pages that hold the rows of a table of a SQLite file.

    Args:
        descriptor: The file, open for reading as long as this is used.
        found: The result of `_native.leaves_of_table`.
    """

    def __init__(self, descriptor: int, found: dict[str, Any]) -> None:
        self._descriptor = descriptor
        self._page_bytes: int = found["page_bytes"]
        self._usable_bytes: int = found["usable_bytes"]
        self._pages: np.ndarray[Any, np.dtype[np.uint32]] = found["pages"]
        self._last_rows: np.ndarray[Any, np.dtype[np.int64]] = found["last_rows"]

    @classmethod
    def of_table(cls, descriptor: int, root_page: int) -> DatabaseLeaves | None:
        """Find the leaves of a table; None if the file is not as usual.

        Args:
            descriptor: The file.
            root_page: Where the table begins.
        """
        found = _native.leaves_of_table(descriptor, root_page)
        if found is None or not (np.diff(found["last_rows"]) > 0).all():
            return None
        return cls(descriptor, found)

    def parts(self, size_bytes: int) -> list[slice]:
        """Return all leaves in their order, in parts of about so many bytes."""
        count = max(size_bytes // self._page_bytes, 1)
        return [slice(begin, begin + count) for begin in range(0, len(self._pages), count)]

    def row_range(self, part: slice) -> tuple[int, int]:
        """Return the rowids between which all rows of a part are, both included."""
        first = int(self._last_rows[part.start - 1]) + 1 if part.start else int(_NO_NUMBER)
        return first, int(self._last_rows[part][-1])

    def read(self, part: slice) -> tuple[DumpPiece, int] | None:
        """Read the rows of a part of a table whose columns are those of a dump in their usual order.

        Returns:
            The values of the rows, and how many there are; None as for `usual_rows`.
        """
        found = _native.read_database_rows(self._descriptor, self._page_bytes, self._usable_bytes, self._pages[part])
        if found is None:
            return None
        # The rest of attributes in the form of JSON is parsed with its braces.
        found["rest_texts"] = [f"{{{text}" for text in found["rest_texts"]]
        piece = _piece_of(found)
        return None if piece is None else (piece, len(found["sequence"]))


def _piece_of(found: dict[str, Any]) -> DumpPiece | None:
    numbers = pl.DataFrame([_column(found, name, kind) for name, kind in _COLUMNS.items()]).with_columns(
        pl.col("process_id").cast(pl.UInt32),
        pl.Series("pinned", found["pinned"].view(np.bool_)),
    )
    has_address = found["has_address"].view(np.bool_)
    if not has_address.all():
        numbers = numbers.with_columns(pl.when(pl.Series(has_address)).then("address").alias("address"))
    rest = _texts(found, "rest")
    if found["attributes_texts"]:
        with_others = _with_others(numbers, rest, _texts(found, "attributes"))
        if with_others is None:
            return None
        numbers, rest = with_others
    words = _texts(found, "words")
    parts = RowParts(
        numbers,
        words=LocalTexts(words.numbers, [text.replace(",", "/", 1) for text in words.texts]),
        device=_texts(found, "device"),
        name=_texts(found, "name"),
        rest=rest,
        python_stack=_texts(found, "python_stack"),
        native_stack=_texts(found, "native_stack"),
    )
    piece, reasons = piece_of_parts(parts)
    return piece if reasons is None or reasons.null_count() == len(reasons) else None


def _column(found: dict[str, Any], name: str, kind: type[np.generic]) -> pl.Series:
    values: np.ndarray[Any, Any] = found[name]
    column = pl.Series(name, values)
    if kind is np.int64 and (is_none := values == _NO_NUMBER).any():
        return column.set(pl.Series(is_none), None)
    return column


def _texts(found: dict[str, Any], name: str) -> LocalTexts:
    return LocalTexts(pl.Series(name, found[name]), found[f"{name}_texts"])


def _with_others(numbers: pl.DataFrame, rest: LocalTexts, others: LocalTexts) -> tuple[pl.DataFrame, LocalTexts] | None:
    """Fill in the rows whose attributes begin in another way; None if one of them has its address there alone."""
    parsed = attribute_columns(pl.Series([None, *others.texts], dtype=pl.String))
    places = (others.numbers != 0).arg_true()
    chosen = others.numbers.gather(places)
    values = parsed.numbers[chosen]
    if (values["addr"].is_not_null() & numbers["address"].gather(places).is_null()).any():
        return None
    values = values.with_columns(extra=stream_and_task(values), allocation_id=values["allocation_id"].fill_null(0))
    columns = ("allocation_id", "size", "extra", "total", "used", "process_used", "device_used", "pinned")
    numbers = numbers.with_columns(numbers[name].scatter(places, values[name]) for name in columns)
    behind = parsed.rest.numbers.gather(chosen)
    behind = pl.select(pl.when(behind != 0).then(behind + len(rest.texts)).otherwise(0)).to_series()
    return numbers, LocalTexts(rest.numbers.scatter(places, behind), [*rest.texts, *parsed.rest.texts])
