"""Sizes in bytes: shown to people, and read from their texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_BINARY_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_UNIT_FACTOR = 1024
_LEAST_OF_UNIT = 10
"""A sum has at least so many of the unit that it is written in. In a larger unit, its parts would look alike."""
_LEAST_OF_ONE_DECIMAL = 100
_NS_PER_SECOND = 1_000_000_000
_SPAN_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))

_SIZE_PATTERN = re.compile(r"(?P<number>[0-9]{1,19})(?P<unit>[KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_EXPONENT_BY_LETTER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}

MAXIMUM_SIZE_BYTES = 2**63 - 1
"""The largest size that is accepted: it must fit a signed 64-bit field."""

SIZE_FORMS = "a whole number of bytes, or one with the unit K, M, G or T (1K = 1024 bytes), such as 512M or 2G"
"""The accepted texts of `parse_size_bytes`, in words."""


def format_bytes(size_bytes: int) -> str:
    """Write a size for people: whole bytes below 1 KiB, above that three significant digits.

    Args:
        size_bytes: The size; may be negative for a difference.

    Returns:
        Text such as `0 bytes`, `1 byte`, `1.50 KiB`, `12.3 MiB`, `512 GiB`.
    """
    magnitude = abs(size_bytes)
    sign = "-" if size_bytes < 0 else ""
    if magnitude < _UNIT_FACTOR:
        return f"{sign}{magnitude} byte" if magnitude == 1 else f"{sign}{magnitude} bytes"
    exponent = min((magnitude.bit_length() - 1) // 10, len(_BINARY_UNITS) - 1)
    number = magnitude / _UNIT_FACTOR**exponent
    text = _three_digits(number)
    if text == "1024" and exponent < len(_BINARY_UNITS) - 1:
        exponent += 1
        text = "1.00"
    return f"{sign}{text} {_BINARY_UNITS[exponent]}"


def format_signed_bytes(size_bytes: int) -> str:
    """Format a size that can be negative: `-1.00 KiB`."""
    return format_bytes(size_bytes) if size_bytes >= 0 else f"-{format_bytes(-size_bytes)}"


def format_share(size_bytes: int, total_bytes: int) -> str:
    """Format a part of a total: `12.5 %`."""
    return f"{100 * size_bytes / total_bytes if total_bytes else 0.0:.1f} %"


def adding_up(sizes_bytes: Sequence[int]) -> tuple[list[str], str]:
    """Write sizes in one unit, rounded so that what is written adds up.

    Args:
        sizes_bytes: None of them negative.

    Returns:
        A text such as `736.0 MiB` for each, and that of their sum.
    """
    whole = sum(sizes_bytes)
    exponent = max(whole.bit_length() - 1, 0) // 10
    if exponent and whole < _LEAST_OF_UNIT * _UNIT_FACTOR**exponent:
        exponent -= 1
    unit = _UNIT_FACTOR**exponent
    decimals = 0 if exponent == 0 else 1 if whole >= _LEAST_OF_ONE_DECIMAL * unit else 2
    scale = 10**decimals
    rounded = [size * scale // unit for size in sizes_bytes]
    lacking = round(whole * scale / unit) - sum(rounded)
    by_rest = sorted(range(len(sizes_bytes)), key=lambda place: -(sizes_bytes[place] * scale % unit))
    for place in by_rest[:lacking]:
        rounded[place] += 1
    texts = [f"{number / scale:.{decimals}f} {_BINARY_UNITS[exponent]}" for number in (*rounded, sum(rounded))]
    return texts[:-1], texts[-1]


def _three_digits(number: float) -> str:
    for decimals, limit in ((2, 10), (1, 100)):
        text = f"{number:.{decimals}f}"
        if float(text) < limit:
            return text
    return f"{number:.0f}"


def format_count(count: int) -> str:
    """Write a count with a comma between groups of three digits: `1,234,567`."""
    return f"{count:,}"


def format_duration(nanoseconds: int) -> str:
    """Write a length of time for people: `1.5 s`, `20.0 ms`, `3.0 us`, `12 ns`."""
    for unit, word in _TIME_UNITS:
        if nanoseconds >= unit:
            return f"{nanoseconds / unit:.1f} {word}"
    return f"{nanoseconds} ns"


def format_span(nanoseconds: int) -> str:
    """Write a long time for people, in its two largest units: `7 d 3 h`, `2 h 5 min`, `3 min`, `12 s`."""
    seconds = nanoseconds // _NS_PER_SECOND
    for place, (unit_s, word) in enumerate(_SPAN_UNITS):
        if seconds >= unit_s:
            whole, rest = divmod(seconds, unit_s)
            text = f"{whole} {word}"
            if place + 1 < len(_SPAN_UNITS) and rest >= (below := _SPAN_UNITS[place + 1])[0]:
                text += f" {rest // below[0]} {below[1]}"
            return text
    return format_duration(nanoseconds)


def parse_size_bytes(text: str, *, option: str) -> int:
    """Read a size such as `1048576`, `512M` or `2GiB`.

    Args:
        text: The text that the user wrote.
        option: The option that it was written for, named in the error.

    Returns:
        The size in bytes.

    Raises:
        UsageError: If the text is no size, or one that does not fit 63 bits.
    """
    match = _SIZE_PATTERN.fullmatch(text.strip())
    if match is None:
        message = "not a size"
        raise UsageError(message, option=option, value=text, accepted=SIZE_FORMS)
    size_bytes: int = int(match["number"]) * _UNIT_FACTOR ** _EXPONENT_BY_LETTER[match["unit"].upper()]
    if size_bytes > MAXIMUM_SIZE_BYTES:
        message = "too large"
        raise UsageError(message, option=option, value=text, accepted=f"at most {MAXIMUM_SIZE_BYTES} bytes")
    return size_bytes
