"""The report on a peak or a failure: as it looks."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest

from msmemscope.analysis.peak.explanation import explain_peak
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import OOM_SNAPSHOT_NAME, EventKind
from msmemscope.model.pools import Pool
from msmemscope.reports.peak_report import MOST_ROWS, render_peak
from tests.fakes.traces import Trace

GOLDEN = Path(__file__).parents[2] / "golden" / "terminal"
"""Reports as they should be. After an intended change, write them anew: MSMEMSCOPE_WRITE_GOLDEN=1 pytest FILE, and read
the difference."""

MEBIBYTE = 1 << 20
BASE = 0x12C0_0000_0000
MAIN = "/home/me/language-model/train.py(40): main"
WEIGHTS = f"/home/me/language-model/model.py(5): __init__\n{MAIN}"
FORWARD = f"/home/me/language-model/layers/attention/grouped_query_attention.py(118): forward\n{MAIN}"
CACHE = f"/home/me/language-model/data/prefetching/token_cache.py(88): get\n{MAIN}"


def growing() -> Trace:
    """Weights, activations, and a list that grows by a block in each step; memory of the host beside it."""
    trace = Trace()
    trace.malloc(64 * MEBIBYTE, WEIGHTS, operator="torch._ops.aten.randn.default")
    trace.malloc(3 * MEBIBYTE, CACHE, pool=Pool.HOST, device=DEVICE_CPU)
    for _ in range(12):
        work = trace.malloc(20 * MEBIBYTE, FORWARD, operator="torch._ops.aten.mm.default")
        trace.malloc(1_500_160, f"{MAIN}", operator="torch._ops.aten.clone.default")
        trace.free(work)
        trace.step()
    return trace


def fragmented() -> Trace:
    """A failure: two segments cut up by what stays."""
    trace = Trace()
    small = []
    for segment in range(2):
        at = BASE + (segment << 32)
        trace.malloc(200 * MEBIBYTE, pool=Pool.HAL, address=at, attributes="CANN@APP")
        for piece in range(10):
            block = trace.malloc(
                20 * MEBIBYTE, FORWARD, operator="torch._ops.aten.mm.default", address=at + piece * 20 * MEBIBYTE
            )
            small.append(block)
        trace.add(EventKind.RESERVED, size=(segment + 1) * 200 * MEBIBYTE, pool=int(Pool.PTA))
    for block in small[1::2]:
        trace.free(block)
    for number in range(MOST_ROWS + 2):
        trace.malloc(
            4096,
            f"/home/me/language-model/caches.py({number}): put\n{MAIN}",
            address=BASE + 20 * MEBIBYTE + 4096 * number,
        )
    text = f"total:{1024 * MEBIBYTE},free:{100 * MEBIBYTE},device_rate:90.234375"
    trace.add(EventKind.SNAPSHOT, name_id=trace.text(OOM_SNAPSHOT_NAME), attribute_id=trace.text(text))
    trace.add(EventKind.ATEN_START, name_id=trace.text("torch._ops.aten.cat.default"))
    stack = next(row["python_stack_id"] for row in trace.rows if row.get("python_stack_id"))
    size = 150 * MEBIBYTE
    trace.add(EventKind.OOM, size=size, name_id=trace.text("halMemAlloc"), python_stack_id=stack)
    return trace


PROGRAMS = {"growing": growing, "fragmented": fragmented}


def rendered(program: str, *, width: int | None = 80, is_coloured: bool | None = False) -> str:
    """The report as text."""
    out = io.StringIO()
    render_peak(explain_peak(PROGRAMS[program]().recording()), out, width=width, is_coloured=is_coloured)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("is_coloured", [False, True], ids=["plain", "colour"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_snapshots(program: str, is_coloured: bool, width: int, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """The whole report, in a narrow and a wide terminal, with and without colour."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = rendered(program, width=width, is_coloured=is_coloured)
    path = GOLDEN / f"peak_{program}_{width}_{'colour' if is_coloured else 'plain'}.txt"
    if os.environ.get("MSMEMSCOPE_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("program", PROGRAMS)
def test_colour_changes_nothing_but_colour(program: str) -> None:
    """Without the codes the text is the same; into a pipe there are none."""
    coloured = rendered(program, is_coloured=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == rendered(program)
    assert "\x1b" not in rendered(program, is_coloured=None)


@pytest.mark.parametrize("program", PROGRAMS)
def test_lines_fit(program: str) -> None:
    """Only a line that holds a path to copy may be longer than the terminal is wide."""
    for line in rendered(program).splitlines():
        assert len(line) <= 80 or re.fullmatch(r" +/\S+\(\d+\): \w+", line), line


def test_names_of_the_program_cannot_steer_the_terminal() -> None:
    """Control characters of a stack or an operator are replaced, and nothing is read as markup."""
    trace = Trace()
    trace.malloc(100, "/home/me/\x1b[31mred.py(1): [bold]f", operator="aten.\x07bell")
    out = io.StringIO()
    render_peak(explain_peak(trace.recording()), out, width=200, is_coloured=False)
    text = out.getvalue()
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]f" in text


def test_nothing_was_recorded() -> None:
    """A sentence, not a traceback."""
    out = io.StringIO()
    render_peak(explain_peak(Trace().recording(), device=1), out, width=80, is_coloured=False)
    assert out.getvalue().splitlines() == ["No memory was in use"]
