"""Columns of messages are encoded as single ones are, and both as any reader of Protocol Buffers expects."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.export.protobuf import (
    MessageColumn,
    NumberColumn,
    bytes_field,
    encoded,
    number_field,
    packed_field,
    text_field,
    varint,
)
from tests.support.protobuf_messages import messages, numbers, read_message, read_varint, signed, text

whole = st.integers(-(1 << 63), (1 << 63) - 1)
unsigned = st.integers(0, (1 << 64) - 1)


def test_known_encodings() -> None:
    """The examples of the documentation of the encoding."""
    assert varint(150) == b"\x96\x01"
    assert number_field(1, 150) == b"\x08\x96\x01"
    assert text_field(2, "testing") == b"\x12\x07testing"
    assert packed_field(6, [3, 270, 86942]) == b"\x32\x06\x03\x8e\x02\x9e\xa7\x05"
    assert number_field(1, -2) == b"\x08" + b"\xfe" + b"\xff" * 8 + b"\x01"


@given(st.lists(unsigned))
def test_numbers_are_read_back(values: list[int]) -> None:
    """Each of 64 bits, also packed."""
    assert [read_varint(varint(value), 0) for value in values] == [(value, len(varint(value))) for value in values]
    assert numbers(read_message(packed_field(3, values)), 3) == values


def test_halves_of_letters_are_replaced() -> None:
    """UTF-8 does not have them; a path of the file system may."""
    assert text(read_message(text_field(1, "a\udc80b")), 1) == "a?b"


@given(st.lists(st.tuples(unsigned, whole, st.integers(0, 3)), max_size=20))
def test_columns_equal_single_messages(rows: list[tuple[int, int, int]]) -> None:
    """Byte for byte, messages within messages too, of any lengths."""
    times = np.array([row[0] for row in rows], np.uint64)
    values = np.array([row[1] for row in rows], np.int64)
    kinds = np.array([row[2] for row in rows], np.uint32)
    inner = MessageColumn(11, [NumberColumn(9, kinds), NumberColumn(30, values)])
    content = bytes(encoded(MessageColumn(1, [NumberColumn(8, times), inner])))
    single = b"".join(
        bytes_field(1, number_field(8, time) + bytes_field(11, number_field(9, kind) + number_field(30, value)))
        for time, value, kind in rows
    )
    assert content == single
    found = messages(read_message(content), 1)
    assert [signed(numbers(messages(one, 11)[0], 30)[0]) for one in found] == [row[1] for row in rows]


def test_messages_longer_than_a_byte_of_length() -> None:
    """The length of a message has as many bytes as it needs."""
    fields = [NumberColumn(field, np.full(2, (1 << 64) - 1, np.uint64)) for field in range(16, 40)]
    content = bytes(encoded(MessageColumn(1, fields)))
    assert [len(one) for one in messages(read_message(content), 1)] == [24, 24]
