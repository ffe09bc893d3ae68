"""Changing the Attr field of chosen rows of a CSV dump, byte by byte where it lies."""

from __future__ import annotations

import csv
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope import _native
from msmemscope.errors import DumpError
from msmemscope.formats.dump.inefficient_attribute import KEY, with_inefficient_type
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_SLICE_BYTES: Final = 8 << 20
"""How much is read at once; a row that is longer makes the slice longer."""
_MOST_ROW_BYTES: Final = 64 << 20
_FIELD_END: Final = re.compile(rb"[,\r\n]")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NEEDED: Final = ("ID", "Event", "Process Id", "Attr")
_MOST_HEADER_BYTES: Final = 1 << 20
_NO_PROCESS: Final = (1 << 64) - 1


def change_csv(source: Path, target: Path, kinds: pl.DataFrame) -> int:
    """Copy a CSV dump with the attribute `inefficient_type` of some blocks changed.

    Args:
        source: The dump.
        target: A file that exists and is empty.
        kinds: As for `write_inefficient_types`.

    Returns:
        How many rows were changed.

    Raises:
        DumpError: the file is no dump.
        OSError: it cannot be read, or the copy cannot be written.
    """
    with source.open("rb") as reader, target.open("rb+") as writer:
        header = reader.readline(_MOST_HEADER_BYTES)
        if not header:
            message = f"{source} is no dump: it is empty"
            raise DumpError(message)
        changer = _RowChanger(source, header, kinds)
        writer.write(header)
        writer.flush()
        buffer = bytearray(_SLICE_BYTES)
        begin = len(header)
        while True:
            # The same memory again and again; the end of a row is read again with the rows behind it.
            reader.seek(begin)
            length = reader.readinto(buffer)
            is_end = length < len(buffer)
            written = changer.write(writer.fileno(), buffer, length, is_last=is_end)
            begin += written
            if is_end:
                return changer.changed
            if written == 0 and length > _MOST_ROW_BYTES:
                message = f"{source} cannot be changed: it has a row of more than {format_bytes(_MOST_ROW_BYTES)}"
                raise DumpError(message, hint="the file is damaged; it is as it was")
            if written == 0:
                buffer = bytearray(2 * len(buffer))  # twice as much each time, so that it is not searched too often


class _RowChanger:
    """Knows the columns of a file and which rows to change."""

    changed: int
    """Rows that were changed so far."""

    def __init__(self, source: Path, header: bytes, kinds: pl.DataFrame) -> None:
        self.changed = 0
        line = header.removeprefix(_BYTE_ORDER_MARK).decode(errors="replace")
        columns = next(csv.reader([line.rstrip("\r\n")]), [])
        missing = [name for name in _NEEDED if name not in columns]
        if missing:
            message = f"{source} is no dump: its header has no column {', '.join(missing)}"
            raise DumpError(message, hint=f"a dump begins with a line that names {', '.join(_NEEDED)} and others")
        self._kinds_frame = kinds
        self._places = tuple(columns.index(name) for name in _NEEDED)
        self._columns = columns.index("Event"), columns.index("Process Id"), columns.index("Attr")
        # Without an ID in front every row is looked at.
        has_identity_first = columns[0] == "ID"
        self._wanted = kinds["allocation_id"].unique().sort().to_numpy() if has_identity_first else None
        self._process = _NO_PROCESS
        self._additions: list[bytes] = []
        self._addition_of_wanted = np.full(0 if self._wanted is None else len(self._wanted), -1, np.int64)
        if has_identity_first and kinds["process_id"].n_unique() == 1:
            # Of one process the text to add is known by the block alone; an empty one is not added.
            self._process = int(kinds["process_id"][0])
            texts = kinds.sort("allocation_id")["inefficient_type"]
            words = ["", *(text for text in texts.unique().sort() if text)]
            self._additions = [f",{KEY}:{text}".encode() for text in words[1:]]
            self._addition_of_wanted = texts.cast(pl.Enum(words)).to_physical().cast(pl.Int64).to_numpy() - 1

    @cached_property
    def _kinds(self) -> dict[tuple[int, int], str]:
        columns = ("process_id", "allocation_id", "inefficient_type")
        return {(process, block): words for process, block, words in self._kinds_frame.select(columns).iter_rows()}

    def write(self, descriptor: int, content: bytearray, length: int, *, is_last: bool) -> int:
        """Copy whole rows, and return how many bytes of the content those are.

        Args:
            descriptor: The file to write.
            content: Rows up to a length. The last row may go on behind it.
            length: Number of bytes.
            is_last: Whether nothing follows.

        Raises:
            OSError: they cannot be written.
        """
        found = _native.find_chosen_rows(content, length, self._wanted, self._process, self._columns, is_last)
        end: int = found["end"]
        begins: Numbers = found["place"]
        # In rows as nearly all are, something is only put in; the others are taken apart one by one.
        numbers = self._addition_of_wanted[found["id"]] if self._wanted is not None else np.full(len(begins), -1)
        ends = begins.copy()
        is_changed = (begins >= 0) & (numbers >= 0)
        texts = self._additions.copy()
        for place in np.flatnonzero(~is_changed).tolist():
            spans = self._needed_fields(content, int(found["begin"][place]), end)
            if spans is None:
                continue
            identity, event, process, attributes = (bytes(content[span]) for span in spans)
            kinds = self._kinds_of(identity, event, process)
            if kinds is None:
                continue
            begins[place], ends[place] = spans[-1].start, spans[-1].stop
            numbers[place] = len(texts)
            texts.append(_changed_field(attributes, kinds))
            is_changed[place] = True
        self.changed += int(is_changed.sum())
        parts = begins[is_changed], ends[is_changed], numbers[is_changed]
        _native.write_with_parts(descriptor, content, end, *parts, texts)
        return end

    def _needed_fields(self, content: bytearray, begin: int, end: int) -> list[slice] | None:
        """Where the fields of _NEEDED lie in a row; None if it is no row of so many fields."""
        spans: list[slice] = []
        for column in range(max(self._places) + 1):
            if column:
                if content[begin : begin + 1] != b",":
                    return None
                begin += 1
            stop = _field_end(content, begin, end)
            if stop is None:
                return None
            spans.append(slice(begin, stop))
            begin = stop
        return [spans[place] for place in self._places]

    def _kinds_of(self, identity: bytes, event: bytes, process: bytes) -> str | None:
        """The kinds to write into a row; None if it is not one of those to change."""
        if event.strip(b'"') != b"MALLOC":
            return None
        try:
            return self._kinds.get((int(process.strip(b'"')), int(identity.strip(b'"'))))
        except ValueError:  # a damaged row
            return None


def _field_end(content: bytearray, begin: int, end: int) -> int | None:
    """Where a field ends, quoted or not; None if its quote has no end."""
    at = begin
    if content[begin : begin + 1] == b'"':
        at = content.find(b'"', begin + 1, end)
        while at >= 0 and content[at + 1 : min(at + 2, end)] == b'"':
            at = content.find(b'"', at + 2, end)
        if at < 0:
            return None
        at += 1
    found = _FIELD_END.search(content, at, end)
    return found.start() if found is not None else end


def _changed_field(field: bytes, kinds: str) -> bytes:
    """Return an Attr field with its new attribute, quoted if it was or must be."""
    # Bytes that are no UTF-8 come out as they went in.
    text = field.decode(errors="surrogateescape")
    is_quoted = text.startswith('"')
    if is_quoted:
        text = text.rstrip()[1:-1].replace('""', '"')
    text = with_inefficient_type(text, kinds)
    if is_quoted or any(mark in text for mark in ',"\r\n'):
        doubled = text.replace('"', '""')
        text = f'"{doubled}"'
    return text.encode(errors="surrogateescape")
