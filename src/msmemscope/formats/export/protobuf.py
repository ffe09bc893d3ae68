"""The writer of messages of Protocol Buffers, one at a time or whole columns of them.

A library makes an object of each message. A trace has one message per event, and there are tens of millions. So here
the fields of all messages are columns. A few operations on arrays write each column.

The encoding (https://protobuf.dev/programming-guides/encoding): a field is a tag and a value. The tag is the number of
the field times eight, plus its wire type.

- Wire type 0 is a varint: seven bits per byte, the lowest first. The highest bit is set in all bytes except the last
  one. Negative numbers have the 64 bits of two's complement.
- Wire type 2 is a varint of a length, and so many bytes: a text, a message, or packed numbers.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Lengths: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Octets: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"

_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2
_MOST_VARINT_BYTES: Final = 10
_BITS: Final = 7
_MORE: Final = 0x80
_SIGN_SPAN: Final = 1 << 64


def varint(value: int) -> bytes:
    """Encode a whole number of 64 bits."""
    rest = value % _SIGN_SPAN
    octets = bytearray()
    while rest >= _MORE:
        octets.append(rest & (_MORE - 1) | _MORE)
        rest >>= _BITS
    octets.append(rest)
    return bytes(octets)


def number_field(number: int, value: int) -> bytes:
    """Encode a field of a whole number, an enumeration or a boolean."""
    return varint(number << 3 | _VARINT) + varint(value)


def bytes_field(number: int, content: bytes) -> bytes:
    """Encode a field of a message, of bytes, or of packed numbers."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(content)) + content


def text_field(number: int, text: str) -> bytes:
    """Encode a field of a text; halves of letters, which UTF-8 does not have, become question marks."""
    return bytes_field(number, text.encode(errors="replace"))


def packed_field(number: int, values: Iterable[int]) -> bytes:
    """Encode a repeated field of whole numbers."""
    return bytes_field(number, b"".join(map(varint, values)))


@dataclasses.dataclass(frozen=True)
class NumberColumn:
    """One field of whole numbers, of many messages."""

    number: int
    values: Numbers

    def lengths(self) -> Lengths:
        """Return the bytes of the field in each message."""
        return len(varint(self.number << 3)) + _varint_lengths(_unsigned(self.values))

    def write(self, octets: Octets, places: Lengths) -> Lengths:
        """Write the field at a place of each message; returns the places behind it."""
        places = _write_constant(octets, places, varint(self.number << 3 | _VARINT))
        return _write_varints(octets, places, _unsigned(self.values))


@dataclasses.dataclass(frozen=True)
class MessageColumn:
    """One field of messages, of many messages."""

    number: int
    fields: Sequence[NumberColumn | MessageColumn]

    def content_lengths(self) -> Lengths:
        """Return the bytes of each message itself."""
        lengths: Lengths = np.sum([field.lengths() for field in self.fields], axis=0)
        return lengths

    def lengths(self) -> Lengths:
        """Return the bytes of the field in each message."""
        content = self.content_lengths()
        return len(varint(self.number << 3)) + _varint_lengths(content.astype(np.uint64)) + content

    def write(self, octets: Octets, places: Lengths) -> Lengths:
        """Write the field at a place of each message; returns the places behind it."""
        places = _write_constant(octets, places, varint(self.number << 3 | _LENGTH_DELIMITED))
        places = _write_varints(octets, places, self.content_lengths().astype(np.uint64))
        for field in self.fields:
            places = field.write(octets, places)
        return places


def encoded(column: MessageColumn) -> memoryview:
    """Encode the field of each message, one behind the other."""
    lengths = column.lengths()
    ends = np.cumsum(lengths)
    octets = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    column.write(octets, ends - lengths)
    return octets.data


def _unsigned(values: Numbers) -> Numbers:
    return values.astype(np.int64, copy=False).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)


def _varint_lengths(values: Numbers) -> Lengths:
    lengths = np.ones(len(values), np.int64)
    for count in range(1, _MOST_VARINT_BYTES):
        is_longer = values >= np.uint64(1 << _BITS * count)
        if not is_longer.any():
            break
        lengths += is_longer
    return lengths


def _write_constant(octets: Octets, places: Lengths, content: bytes) -> Lengths:
    for offset, octet in enumerate(content):
        octets[places + offset] = octet
    return places + len(content)


def _write_varints(octets: Octets, places: Lengths, values: Numbers) -> Lengths:
    lengths = _varint_lengths(values)
    last = lengths - 1
    for count in range(int(lengths.max(initial=0))):
        is_there = slice(None) if count == 0 else np.flatnonzero(last >= count)
        part = (values[is_there] >> np.uint64(_BITS * count)).astype(np.uint8) & (_MORE - 1)
        part |= (last[is_there] > count).astype(np.uint8) << _BITS
        octets[places[is_there] + count] = part
    after: Lengths = places + lengths
    return after
