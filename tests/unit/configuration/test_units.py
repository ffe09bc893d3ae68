"""Sizes, written and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.errors import UsageError
from msmemscope.units import adding_up, format_bytes, format_count, parse_size_bytes


@pytest.mark.parametrize(
    "size, text",
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (10 * 1024, "10.0 KiB"),
        (1024**2 - 1, "1.00 MiB"),
        (512 * 1024**2, "512 MiB"),
        (1023 * 1024**2 + 900 * 1024, "1.00 GiB"),
        (3 * 1024**3, "3.00 GiB"),
        (-2048, "-2.00 KiB"),
    ],
)
def test_sizes_for_people(size: int, text: str) -> None:
    """Three digits and a binary unit, carried over when they round up."""
    assert format_bytes(size) == text


@given(st.integers(-(2**63), 2**63))
def test_no_size_has_more_than_four_digits(size: int) -> None:
    """So that columns line up."""
    assert len(format_bytes(size).lstrip("-").split()[0].replace(".", "")) <= 4


@pytest.mark.parametrize(
    "text, size",
    [
        ("0", 0),
        ("1048576", 1048576),
        ("512M", 512 << 20),
        ("2G", 2 << 30),
        ("2GiB", 2 << 30),
        ("3kb", 3072),
        (" 1T ", 1 << 40),
    ],
)
def test_sizes_read(text: str, size: int) -> None:
    """A unit may be written in several ways; it is always binary."""
    assert parse_size_bytes(text, option="--max-size") == size


@pytest.mark.parametrize("text", ["", "x", "1.5G", "-1", "1Q", "9999999999G", "٣"])
def test_sizes_refused(text: str) -> None:
    """The error names the option and the value."""
    with pytest.raises(UsageError, match="--max-size") as caught:
        parse_size_bytes(text, option="--max-size")
    assert repr(text) in str(caught.value)


def test_counts() -> None:
    """Groups of three."""
    assert format_count(1234567) == "1,234,567"


@given(st.lists(st.integers(0, 1 << 44), min_size=1, max_size=6))
def test_sizes_that_add_up(sizes: list[int]) -> None:
    """One unit, none of them farther from its size than the last digit, and the sum of what is written is what is written."""
    texts, whole = adding_up(sizes)
    numbers = [float(text.split()[0]) for text in texts]
    assert len({text.split()[1] for text in (*texts, whole)}) == 1
    assert sum(numbers) == pytest.approx(float(whole.split()[0]))
    factor = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[whole.split()[1]]
    digit = 10 ** -len(whole.split()[0].partition(".")[2])
    assert all(abs(number - size / factor) <= digit * 1.001 for number, size in zip(numbers, sizes, strict=True))
