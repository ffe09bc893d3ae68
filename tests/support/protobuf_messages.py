"""Reads messages of Protocol Buffers without knowing them: fields by their numbers, as they were written."""

from __future__ import annotations

from typing import TypeAlias

Fields: TypeAlias = "dict[int, list[int | bytes]]"

_VARINT, _LENGTH_DELIMITED = 0, 2


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Returns a number without a sign, and the place behind it."""
    value = shift = 0
    while True:
        octet = content[at]
        at += 1
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            return value, at


def signed(value: int) -> int:
    """Returns a number of 64 bits as the field types int32 and int64 mean it."""
    return value - (1 << 64) if value >> 63 else value


def read_message(content: bytes) -> Fields:
    """Returns the fields of a message; fails on anything that ends too early or has another wire type."""
    fields: Fields = {}
    at = 0
    while at < len(content):
        tag, at = read_varint(content, at)
        value: int | bytes
        if tag & 7 == _VARINT:
            value, at = read_varint(content, at)
        else:
            assert tag & 7 == _LENGTH_DELIMITED, f"wire type {tag & 7}"
            length, at = read_varint(content, at)
            assert at + length <= len(content)
            value = content[at : at + length]
            at += length
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def messages(fields: Fields, number: int) -> list[Fields]:
    """Returns the messages of a repeated field."""
    found = []
    for content in fields.get(number, []):
        assert isinstance(content, bytes)
        found.append(read_message(content))
    return found


def numbers(fields: Fields, number: int) -> list[int]:
    """Returns the numbers of a repeated field, packed or not."""
    found = []
    for content in fields.get(number, []):
        if isinstance(content, int):
            found.append(content)
            continue
        at = 0
        while at < len(content):
            value, at = read_varint(content, at)
            found.append(value)
    return found


def text(fields: Fields, number: int) -> str:
    """Returns a text; empty if it is not there."""
    content = fields.get(number, [b""])[-1]
    assert isinstance(content, bytes)
    return content.decode()
