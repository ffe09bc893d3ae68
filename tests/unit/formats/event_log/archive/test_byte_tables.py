"""Tables of bytes: they come back as they were, and what lies about its size is refused before memory is asked for."""

from __future__ import annotations

import random
import struct

import numpy as np
import polars as pl
import pytest

from msmemscope.formats.event_log.archive.byte_tables import MOST_ROWS, ByteTableError, read_table, write_table

NAMES = ("a", "b", "c")


def table(rows: int) -> bytes:
    """Three columns: all the same, rising, and random."""
    chance = np.random.default_rng(rows).integers(0, 256, rows, dtype=np.uint8)
    return write_table({"a": np.zeros(rows, np.uint8), "b": np.arange(rows).astype(np.uint8), "c": chance})


@pytest.mark.parametrize("rows", [1, 7, 1000, 1 << 18])
def test_they_come_back(rows: int) -> None:
    """Also those that zstd cannot make smaller."""
    found = read_table(table(rows), NAMES, rows)
    assert list(found) == list(NAMES)
    assert not found["a"].any()
    assert (found["b"] == np.arange(rows).astype(np.uint8)).all()
    assert (found["c"] == np.random.default_rng(rows).integers(0, 256, rows, dtype=np.uint8)).all()


def test_a_longer_one_is_not_written() -> None:
    """Polars divides it, and nobody could read it again."""
    with pytest.raises(ByteTableError, match="it is not one record batch"):
        write_table({"a": np.zeros(4 * MOST_ROWS, np.uint8)})


def test_other_programs_read_them() -> None:
    """They are usual Arrow streams."""
    found = pl.read_ipc_stream(table(10))
    assert found.schema == dict.fromkeys(NAMES, pl.UInt8())
    assert found["b"].to_list() == list(range(10))


@pytest.mark.parametrize(
    ("names", "rows"),
    [(NAMES, 999), (NAMES, 1001), (NAMES[:2], 1000), ((*NAMES, "d"), 1000)],
    ids=["more", "less", "a column more", "a column less"],
)
def test_another_shape_is_refused(names: tuple[str, ...], rows: int) -> None:
    """The reader knows from elsewhere which names and rows to expect."""
    with pytest.raises(ByteTableError, match="it does not hold"):
        read_table(table(1000), names, rows)


@pytest.mark.parametrize("value", [0, 1001, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)])
def test_a_column_that_claims_another_size(value: int) -> None:
    """The size in front of the compressed bytes is compared before they are decompressed."""
    content = table(1000)
    size = struct.pack("<q", 1000)
    # In front of each column's bytes, which zstd begins with its magic number.
    places = [place for place in range(len(content)) if content[place:].startswith(size + b"\x28\xb5\x2f\xfd")]
    assert len(places) == len(NAMES)
    for place in places:
        lying = content[:place] + struct.pack("<q", value) + content[place + 8 :]
        with pytest.raises(ByteTableError, match="a column claims"):
            read_table(lying, NAMES, 1000)


def test_damage_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever byte is another one, or missing: a table of the expected shape or an error, and Polars has nothing to say."""
    content = table(1000)
    chance = random.Random(7)  # noqa: S311 - not for secrets
    refused = 0
    for _ in range(10_000):
        damaged = bytearray(content)
        for _ in range(chance.choice((1, 1, 4))):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        if chance.random() < 0.2:
            del damaged[chance.randrange(len(damaged)) :]
        try:
            found = read_table(bytes(damaged), NAMES, 1000)
        except ByteTableError:
            refused += 1
        else:
            assert [len(column) for column in found.values()] == [1000] * 3
    assert refused > 1000
    assert capfd.readouterr().err == ""
