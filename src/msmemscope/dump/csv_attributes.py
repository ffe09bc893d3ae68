"""Changing the Attr field of chosen rows of a CSV dump, byte by byte where it lies."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.dump.inefficient_attribute import KEY, with_inefficient_type
from msmemscope.errors import DumpError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import BinaryIO, TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_SLICE_BYTES: Final = 2 << 20
"""How much is read at once, so that its tables fit into the cache; a row that is longer makes the slice longer."""
_MOST_DIGITS: Final = 19
_QUOTE, _COMMA, _OPENING, _CLOSING, _LINE_FEED, _RETURN, _ZERO, _NINE = b'",{}\n\r09'
_FIELD: Final = rb'(?:[^",\r\n][^,\r\n]*|"(?:[^"]|"")*"[^,\r\n]*|)'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_MALLOC_FIELD: Final = b",MALLOC,"
_NEEDED: Final = ("ID", "Event", "Process Id", "Attr")


def change_csv(source: Path, target: Path, kinds: Mapping[int, Mapping[int, str]]) -> int:
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
        pending = reader.read(_SLICE_BYTES)
        changer: _RowChanger | None = None
        changed = 0
        while pending:
            # A slice without the end of a row grows; twice as much each time, so that it is not searched too often.
            is_end = len(more := reader.read(max(_SLICE_BYTES, len(pending)))) == 0
            content = pending
            starts = _row_starts(content)
            # The last row of a slice may go on in the next one.
            end = len(content) if is_end else int(starts[-1])
            starts = starts[starts < end]
            if changer is None and len(starts):
                after_header = int(starts[1]) if len(starts) > 1 else end
                changer = _RowChanger(source, content[:after_header], kinds)
                starts = starts[1:]
            if changer is not None:
                changed += changer.write(writer, content, starts, end)
            pending = content[end:] + more
        if changer is None:
            message = f"{source} is no dump: it is empty"
            raise DumpError(message)
    return changed


class _RowChanger:
    """Knows the columns of a file and which rows to change."""

    def __init__(self, source: Path, header: bytes, kinds: Mapping[int, Mapping[int, str]]) -> None:
        """Read the header line."""
        line = header.removeprefix(_BYTE_ORDER_MARK).decode(errors="replace")
        columns = next(csv.reader([line.rstrip("\r\n")]), [])
        missing = [name for name in _NEEDED if name not in columns]
        if missing:
            message = f"{source} is no dump: its header has no column {', '.join(missing)}"
            raise DumpError(message, hint=f"a dump begins with a line that names {', '.join(_NEEDED)} and others")
        self._kinds = kinds
        self._wanted = np.fromiter((block for blocks in kinds.values() for block in blocks), dtype=np.int64)
        self._has_identity_first = columns[0] == "ID"
        fields = [
            rb"(" + _FIELD + rb")" if name in _NEEDED else _FIELD for name in columns[: _last_needed(columns) + 1]
        ]
        self._row = re.compile(rb",".join(fields))
        order = [name for name in columns if name in _NEEDED]
        self._groups = tuple(order.index(name) + 1 for name in _NEEDED)
        self._simple_order: tuple[int, dict[str, int]] | None = None
        self._additions: dict[int, bytes] = {}
        processes = [process for process, blocks in kinds.items() if blocks]
        if self._has_identity_first and len(processes) == 1 and all(kinds[processes[0]].values()):
            self._simple_order = processes[0], {name: columns.index(name) for name in _NEEDED}
            self._additions = {block: f",{KEY}:{words}".encode() for block, words in kinds[processes[0]].items()}

    def write(self, writer: BinaryIO, content: bytes, starts: Numbers, end: int) -> int:
        """Copies a slice and returns how many rows were changed.

        Args:
            writer: Where to.
            content: Whole rows up to `end`.
            starts: Where each row begins that may be changed.
            end: How much of it is copied.
        """
        if self._has_identity_first:
            numbers = _leading_numbers(content, starts)
            chosen = np.isin(numbers, self._wanted)
            row_ends = np.append(starts[1:], end)[chosen]
            starts, numbers = starts[chosen], numbers[chosen]
            simple = self._simple_ends(content, starts, row_ends)
        else:
            numbers = simple = np.full(len(starts), -1, np.int64)
        view = memoryview(content)
        pieces: list[memoryview | bytes] = []
        copied = changed = 0
        for start, number, place in zip(starts.tolist(), numbers.tolist(), simple.tolist(), strict=True):
            if place >= 0:
                addition = self._additions.get(number)
                if addition is None:
                    continue
                pieces += (view[copied:place], addition)
                copied = place
            else:
                match = self._row.match(content, start)
                kinds = self._kinds_of(match) if match is not None else None
                if match is None or kinds is None:
                    continue
                attributes = self._groups[3]
                pieces += (view[copied : match.start(attributes)], _changed_field(match[attributes], kinds))
                copied = match.end(attributes)
            changed += 1
        pieces.append(view[copied:end])
        writer.write(b"".join(pieces))
        return changed

    def _simple_ends(self, content: bytes, starts: Numbers, row_ends: Numbers) -> Numbers:
        """Returns for rows as nearly all are where an attribute goes in, in whole columns; -1 for all others.

        Those are MALLOC rows of the one process concerned whose first quoted field is the Attr, `"{...}"`, without the
        key yet.
        """
        nothing = np.full(len(starts), -1, np.int64)
        if self._simple_order is None or not len(starts):
            return nothing
        process, places_of_fields = self._simple_order
        # So that looking a few bytes further never leaves the content.
        letters = np.frombuffer(content + bytes(_MOST_DIGITS + len(_MALLOC_FIELD)), np.uint8)
        quotes = np.append(np.flatnonzero(letters == _QUOTE), [len(content), len(content)])
        commas = np.append(np.flatnonzero(letters == _COMMA), np.full(max(places_of_fields.values()), len(content)))
        first_quote, first_comma = np.searchsorted(quotes, starts), np.searchsorted(commas, starts)
        opening, closing = quotes[first_quote], quotes[np.minimum(first_quote + 1, len(quotes) - 1)]

        def before(field: str) -> Numbers:
            """The comma before a field, if nothing before it is quoted."""
            place: Numbers = commas[first_comma + places_of_fields[field] - 1]
            return place

        event = before("Event")[:, np.newaxis] + np.arange(len(_MALLOC_FIELD))
        is_simple = (letters[np.minimum(event, len(letters) - 1)] == np.frombuffer(_MALLOC_FIELD, np.uint8)).all(axis=1)
        is_simple &= (
            (before("Attr") == opening - 1) & (letters[opening + 1] == _OPENING) & (closing - opening > len("{}") + 1)
        )
        is_simple &= closing < row_ends
        is_simple &= (letters[closing - 1] == _CLOSING) & np.isin(letters[closing + 1], (_COMMA, _LINE_FEED, _RETURN))
        is_simple &= _leading_numbers(content, np.minimum(before("Process Id") + 1, len(content) - 1)) == process
        if b"inefficient" in content:
            known = np.array([match.start() for match in re.finditer(b"inefficient", content)])
            is_simple &= np.searchsorted(known, opening) == np.searchsorted(known, closing)
        return np.where(is_simple, closing - 1, nothing)

    def _kinds_of(self, match: re.Match[bytes]) -> str | None:
        """The kinds to write into a row; None if it is not one of those to change."""
        identity, event, process, _ = self._groups
        if match[event].strip(b'"') != b"MALLOC":
            return None
        try:
            return self._kinds.get(int(match[process].strip(b'"')), {}).get(int(match[identity].strip(b'"')))
        except ValueError:  # a damaged row
            return None


def _last_needed(columns: list[str]) -> int:
    return max(columns.index(name) for name in _NEEDED)


def _changed_field(field: bytes, kinds: str) -> bytes:
    """Returns an Attr field with its new attribute, quoted if it was or must be."""
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


def _row_starts(content: bytes) -> Numbers:
    """Returns where rows begin: at 0, and after each line feed outside of quotes. The last one may be the end."""
    letters = np.frombuffer(content, np.uint8)
    line_feeds = np.flatnonzero(letters == _LINE_FEED)
    quotes = np.flatnonzero(letters == _QUOTE)
    is_outside = np.searchsorted(quotes, line_feeds) % 2 == 0
    return np.concatenate([np.zeros(1, np.int64), line_feeds[is_outside] + 1])


def _leading_numbers(content: bytes, starts: Numbers) -> Numbers:
    """Returns the number that each row begins with, quoted or not; -1 where there is none."""
    # So that looking a few bytes further never leaves the content.
    letters = np.frombuffer(content + bytes(_MOST_DIGITS + 2), np.uint8)
    place = starts + (letters[starts] == _QUOTE)
    value = np.zeros(len(starts), np.int64)
    is_digit = np.ones(len(starts), np.bool_)
    for offset in range(_MOST_DIGITS):
        letter = letters[place + offset]
        is_digit &= (letter >= _ZERO) & (letter <= _NINE)
        if not is_digit.any():
            break
        value[is_digit] = value[is_digit] * 10 + (letter[is_digit] - _ZERO)
    first = letters[place] if len(place) else letters[:0]
    return np.where((first >= _ZERO) & (first <= _NINE), value, -1)
