"""Pictures of pages, made small so that they can be compared: fonts differ between machines, shapes and colours must not."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

SIZE = (1200, 800)
"""Width and height of the page, in pixels."""
CELL = 10
"""Pixels that are one in a small picture: a line of text is grey there."""
_NEAR = 2
"""Cells by which something may lie elsewhere, as where letters are wider."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"

Picture = np.ndarray[Any, np.dtype[np.float64]]
"""Rows, columns, and red, green and blue from 0 to 255."""


def read_png(content: bytes) -> Picture:
    """Read a picture with 8 bits for each of three or four channels, not interlaced: what browsers and `write_png` make."""
    assert content.startswith(_SIGNATURE)
    place, compressed, width, height, channels = len(_SIGNATURE), b"", 0, 0, 0
    while place < len(content):
        length, kind = struct.unpack_from(">I4s", content, place)
        data = content[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, *_, interlace = struct.unpack(">IIBBBBB", data)
            channels = {2: 3, 6: 4}[colour]
            assert (depth, interlace) == (8, 0)
        elif kind == b"IDAT":
            compressed += data
        place += length + 12
    lines = np.frombuffer(zlib.decompress(compressed), np.uint8).reshape(height, 1 + width * channels)
    picture: Picture = _unfiltered(lines[:, 0], lines[:, 1:].reshape(height, width, channels)).astype(np.float64)
    return picture[:, :, :3]


def _unfiltered(kinds: Any, lines: Any) -> Any:
    """Undo the filters of lines, which say each pixel by its neighbours to the left and above."""
    done = np.zeros_like(lines)
    above = np.zeros_like(lines[0])
    for row, (kind, line) in enumerate(zip(kinds.tolist(), lines, strict=True)):
        if kind == 0:
            done[row] = line
        elif kind == 1:
            done[row] = np.cumsum(line, axis=0, dtype=np.uint8)
        elif kind == 2:
            done[row] = line + above
        else:
            done[row] = _by_left_and_above(kind, line, above)
        above = done[row]
    return done


def _by_left_and_above(kind: int, line: Any, above: Any) -> Any:
    """The filters for which each pixel needs the one before."""
    done = np.zeros_like(line)
    left = corner = [0] * line.shape[1]
    for column, (pixel, up) in enumerate(zip(line.tolist(), above.tolist(), strict=True)):
        if kind == 3:
            left = [(one + (before + high) // 2) & 255 for one, before, high in zip(pixel, left, up, strict=True)]
        else:
            left = [
                (one + _nearest(before, high, across)) & 255
                for one, before, high, across in zip(pixel, left, up, corner, strict=True)
            ]
        done[column] = left
        corner = up
    return done


def _nearest(left: int, above: int, corner: int) -> int:
    """Which of three neighbours continues their slope best (Paeth)."""
    estimate = left + above - corner
    return min((left, above, corner), key=lambda one: abs(estimate - one))


def write_png(picture: Picture) -> bytes:
    """Write a picture."""
    height, width, _ = picture.shape
    pixels = np.rint(picture).astype(np.uint8).reshape(height, width * 3)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def small(picture: Picture) -> Picture:
    """Return the mean colour of each cell."""
    height, width = (length // CELL for length in picture.shape[:2])
    means: Picture = picture[: height * CELL, : width * CELL].reshape(height, CELL, width, CELL, 3).mean(axis=(1, 3))
    return means


def difference(one: Picture, other: Picture) -> float:
    """Return by how much two small pictures differ, from 0 to 255.

    Each cell is compared with those near its place in the other picture, and the nearest colour counts.
    """
    return (_missing(one, other) + _missing(other, one)) / 2


def _missing(one: Picture, other: Picture) -> float:
    """How far the cells of one picture are from the nearest ones of the other, as a root of the mean of squares."""
    height, width, _ = one.shape
    around = np.pad(other, ((_NEAR, _NEAR), (_NEAR, _NEAR), (0, 0)), mode="edge")
    shifts = range(2 * _NEAR + 1)
    distances = [np.abs(one - around[y : y + height, x : x + width]).max(axis=2) for y in shifts for x in shifts]
    return float(np.sqrt(np.square(np.min(distances, axis=0)).mean()))
