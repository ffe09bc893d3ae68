"""Both pages look as they did: small pictures of them beside those that are kept, with room for other fonts.

After a change that is meant to be seen: python tests/golden/screenshots/take.py.
"""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="needs starlette and uvicorn: pip install 'msmemscope[view]'")

from tests.support.browser import find_browser
from tests.support.pictures import CELL, Picture, difference, read_png, small, write_png
from tests.support.screenshots import KEPT, NAMES, WITH_WEBGL, take

if TYPE_CHECKING:
    from pathlib import Path

MOST = 11
"""By which pictures may differ. With fonts that are narrow or have serifs they do by up to 9.5, and those of two views by 16 or more."""


def kept(name: str) -> Picture:
    """The picture that was kept."""
    return read_png((KEPT / f"{name}.png").read_bytes())


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Picture]:
    """All pictures, taken now."""
    if find_browser() is None:
        pytest.skip("no Chromium here: no pictures are taken")
    return dict(take(tmp_path_factory.mktemp("pictures")))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_looks_as_it_did(name: str, taken: dict[str, Picture], tmp_path: Path) -> None:
    """Except for the letters."""
    found = difference(taken[name], kept(name))
    path = tmp_path / f"{name}.png"
    path.write_bytes(write_png(taken[name]))
    assert found < MOST, f"{path} differs by {found:.1f} from {KEPT / path.name}"


def test_a_graphics_card_draws_the_same(taken: dict[str, Picture]) -> None:
    """As what takes its place where there is none."""
    assert difference(taken[WITH_WEBGL], taken["viewer-map"]) < MOST


def test_what_looks_otherwise_is_seen() -> None:
    """Another view, other colours, a picture that is missing; but not what lies a little lower."""
    pictures = [kept(name) for name in NAMES]
    for one, other in itertools.combinations(pictures, 2):
        assert difference(one, other) > MOST
    memory = kept("report-memory")
    assert difference(memory[:, :, ::-1], memory) > MOST
    empty = memory.copy()
    empty[8:30, 10:110] = 255
    assert difference(empty, memory) > MOST
    assert difference(np.roll(memory, 1, axis=0), memory) < MOST


def test_pictures_are_small() -> None:
    """They are part of the repository."""
    assert sorted(path.stem for path in KEPT.glob("*.png")) == sorted(NAMES)
    assert all(path.stat().st_size < 10_000 for path in KEPT.glob("*.png"))


def test_what_is_written_is_read() -> None:
    """All filters of PNG, with which browsers write their lines, and the means of cells."""
    random = np.random.default_rng(7)
    picture = random.integers(0, 256, (2 * CELL, 3 * CELL, 3)).astype(np.float64)
    assert np.array_equal(read_png(write_png(picture)), picture)
    assert small(picture)[1, 2] == pytest.approx(picture[CELL:, 2 * CELL :].mean(axis=(0, 1)))
    content = write_png(picture[:5])
    for kind in range(1, 5):
        assert np.array_equal(read_png(filtered(content, kind)), picture[:5]), kind


def filtered(content: bytes, kind: int) -> bytes:
    """A picture of `write_png` with every line filtered, as the definition of the format says it, byte by byte."""
    begin, end = content.index(b"IDAT") - 4, content.index(b"IEND") - 4
    pixels = read_png(content).astype(int)
    height, width, _ = pixels.shape
    lines = pixels.reshape(height, width * 3).tolist()
    data = bytearray()
    for row, line in enumerate(lines):
        above = lines[row - 1] if row else [0] * len(line)
        data.append(kind)
        for place, value in enumerate(line):
            left, corner = (line[place - 3], above[place - 3]) if place > 2 else (0, 0)
            up = above[place]
            estimate = left + up - corner
            paeth = min((left, up, corner), key=lambda one: abs(estimate - one))
            data.append((value - (0, left, up, (left + up) // 2, paeth)[kind]) % 256)
    compressed = zlib.compress(bytes(data))
    part = b"IDAT" + compressed
    return (
        content[:begin]
        + len(compressed).to_bytes(4, "big")
        + part
        + zlib.crc32(part).to_bytes(4, "big")
        + content[end:]
    )
