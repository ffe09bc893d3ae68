"""The pure functions of the page's script, run by Node: units, axes, layouts, sorting."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import msmemscope
from msmemscope.units import format_bytes

SCRIPT = Path(str(msmemscope.__file__)).parent / "reports" / "html" / "report.js"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no Node here: the script of the page is not run")


def run(expression: str, value: object = None) -> Any:
    """What an expression comes to, in which `page` has the functions and `value` stands for a value."""
    assert NODE is not None
    program = (
        "const page = require(process.argv[1]); const value = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        f"process.stdout.write(JSON.stringify({expression}));"
    )
    done = subprocess.run(
        [NODE, "-e", program, str(SCRIPT)], input=json.dumps(value), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_sizes_are_written_as_everywhere_else() -> None:
    """The same text as `units.format_bytes`, also where a value lies in the middle between two texts."""
    sizes = [0, 1, 2, 1023, 1024, 1152, 1156, 10239, 10240, 10235, 102348, 102400, 1048575, 1048576, (1 << 30) - 1]
    sizes += [(1 << exponent) + offset for exponent in range(1, 52) for offset in (-1, 0, 1, 3 << exponent - 1 >> 4)]
    sizes += [1024 + 8 * number for number in range(1500)]
    assert run("value.map(page.formatBytes)", sizes) == [format_bytes(size) for size in sizes]
    assert run("page.formatBytes(-1536)") == format_bytes(-1536)


def test_axes_have_round_numbers_up_to_their_end() -> None:
    """Of two for bytes, of ten for time; a few of them, and the first is 0."""
    assert run("page.decimalTicks(10, 5)") == [0, 2, 4, 6, 8, 10]
    assert run("page.decimalTicks(0, 5)") == [0]
    assert run("page.binaryTicks(value, 6)", 6 << 20) == [number << 20 for number in range(7)]
    for end in (1, 7, 1000, 123456789, 1 << 45):
        ticks = run("page.binaryTicks(value, 6)", end)
        assert ticks[0] == 0
        assert 1 < len(ticks) <= 7
        assert ticks[-1] <= end


@pytest.mark.parametrize("sizes", [[1], [6, 6, 4, 3, 2, 2, 1], [1000, 1, 1, 1], list(range(40, 0, -1)), [5, 0, 0]])
def test_a_treemap_fills_its_field_by_size(sizes: list[int]) -> None:
    """Areas are as the sizes, nothing lies outside, and nothing upon another."""
    places = run("page.treemapLayout(value, 3)", sizes)
    assert len(places) == len(sizes)
    for place, size in zip(places, sizes, strict=True):
        assert place["width"] * place["height"] == pytest.approx(size / sum(sizes), abs=1e-9)
        assert place["left"] >= -1e-9
        assert place["left"] + place["width"] <= 1 + 1e-9
        assert place["top"] + place["height"] <= 1 + 1e-9
    for number, one in enumerate(places):
        for other in places[:number]:
            wide = min(one["left"] + one["width"], other["left"] + other["width"]) - max(one["left"], other["left"])
            high = min(one["top"] + one["height"], other["top"] + other["height"]) - max(one["top"], other["top"])
            assert min(wide, high) <= 1e-9


TREE = {
    "names": ["all", "a", "b", "a1", "a2", "b1"],
    "parents": [0, 0, 0, 1, 1, 2],
    "size_bytes": [100, 60, 40, 50, 10, 40],
    "blocks": [1] * 6,
}


def icicle(zoomed: int, least: float = 0) -> dict[int, tuple[int, float, float]]:
    """Depth, left and width of each node that is drawn."""
    placed = run(f"page.icicleLayout(value, page.childrenOf(value), {zoomed}, {least})", TREE)
    return {one["node"]: (one["depth"], one["left"], one["width"]) for one in placed}


def test_an_icicle_gives_every_node_its_share_below_its_parent() -> None:
    """The largest child first."""
    assert icicle(0) == {
        0: (0, 0, 1), 1: (1, 0, 0.6), 2: (1, 0.6, 0.4), 3: (2, 0, 0.5), 4: (2, 0.5, pytest.approx(0.1)), 5: (2, 0.6, 0.4),
    }  # fmt: skip


def test_a_zoomed_node_fills_the_width_below_its_callers() -> None:
    """Which stay, so that one can go back; what is too narrow is left out."""
    assert icicle(1, least=0.2) == {0: (0, 0, 1), 1: (1, 0, 1), 3: (2, 0, pytest.approx(5 / 6))}


def test_rows_without_a_value_come_last() -> None:
    """Whichever way is sorted; equal rows keep their order."""
    rows = [[3], [None], [1], [3]]
    assert run("page.sortedRows(value, 0, false)", rows) == [2, 0, 3, 1]
    assert run("page.sortedRows(value, 0, true)", rows) == [0, 3, 2, 1]


def test_outlines_have_a_gap_where_nothing_is_known() -> None:
    """As reserved memory before the first report."""
    assert run("page.stepPath([-1, 5, 6, -1, 7], 10, 2, (value) => value)") == (
        "M12.00 5.00H14.00V6.00H16.00M18.00 7.00H20.00"
    )
    assert run("page.areaPath([0, 0], [4, 5], 0, 1, (value) => 10 - value)") == (
        "M0.00 6.00H1.00V5.00H2.00V10.00H1.00V10.00H0.00Z"
    )


def test_frames_and_lines_are_shortened_for_people() -> None:
    """The function first; of a path the last folders."""
    assert run("page.shortFrame('/home/me/app/train.py(11): keep')") == "keep · train.py:11"
    assert run("page.shortFrame('train.py(11)')") == "train.py:11"
    assert run("page.shortFrame('aten.mm')") == "aten.mm"
    assert run("page.shortSite('/home/me/big/app/train.py(11): keep')") == "…/big/app/train.py(11): keep"
    assert run("page.shortSite('/app/train.py(11): keep')") == "/app/train.py(11): keep"


def test_times_are_written_in_units_people_read() -> None:
    """Numbers of events where there are no times."""
    assert run("[5e3, 2.5e6, 1.5e9, 3e11].map((moment) => page.formatMoment(moment, true))") == [
        "5.0 µs", "2.50 ms", "1.50 s", "5 min 0.0 s",
    ]  # fmt: skip
    assert run("page.formatMoment(12345, false)") == "12,345"
