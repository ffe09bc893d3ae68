"""The report on leaks: as it looks, and line by line where other programs read it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from msmemscope.analysis.leaks.between_marks import find_leaks_between_marks
from msmemscope.analysis.leaks.overview import LeakOverview, find_leaks
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.reports.expanded_sites import with_frames
from msmemscope.reports.leaks_report import MOST_BLOCKS, LeakLines, render_leak_lines, render_leaks, render_mark_leaks
from tests.fakes.traces import Trace

GOLDEN = Path(__file__).parents[2] / "golden" / "terminal"
"""Reports as they should be. After an intended change, write them anew: MSMEMSCOPE_WRITE_GOLDEN=1 pytest FILE, and read
the difference."""

MAIN = "/home/me/language-model/train.py(40): main"
LOSSES = f"/home/me/language-model/train.py(21): train_step\n{MAIN}"
CACHE = f"/home/me/language-model/data/prefetching/token_cache.py(88): get\n{MAIN}"
QUEUE = f"/home/me/language-model/data/queue.py(12): put\n{MAIN}"


def leaky() -> Trace:
    """Leaks of two pools and of the driver; a bounded cache, something set up late, a slow leak."""
    trace = Trace()
    held: list[int] = []
    queue: list[int] = []
    trace.malloc(64 << 20, f"/home/me/language-model/model.py(5): __init__\n{MAIN}")
    for step in range(1, 25):
        trace.add(EventKind.KERNEL_LAUNCH)
        work = trace.malloc(20 << 20, LOSSES, operator="torch._ops.aten.mm.default")
        trace.malloc(4_000_256, LOSSES, operator="torch._ops.aten.clone.default")
        if step % 2 == 0:
            trace.malloc(512, f"/home/me/app/log.py(7): remember\n{MAIN}", pool=Pool.HOST, device=DEVICE_CPU)
        held.append(trace.malloc(1 << 20, CACHE))
        if len(held) > 4:
            trace.free(held.pop(0))
        # Three come and two go in two steps: each is freed, later and later.
        queue.extend(trace.malloc(100_000, QUEUE) for _ in range(1 + step % 2))
        trace.free(queue.pop(0))
        if step == 5:
            trace.malloc(8 << 20, f"/home/me/language-model/evaluate.py(30): buffers\n{MAIN}")
        native = "/opt/app/serve(open_channel+0x40) [0x401040]\n/opt/app/serve(main+0x10) [0x401000]"
        trace.malloc(2 << 20, native=native, pool=Pool.HAL, attributes="CANN@HCCL,page_type:huge,alloc_type:alloc")
        trace.free(work)
        trace.step()
    return trace


def clean() -> Trace:
    """Every block is given back."""
    trace = Trace()
    weights = trace.malloc(64 << 20, MAIN)
    for _ in range(8):
        block = trace.malloc(1 << 20, LOSSES)
        trace.free(block)
        trace.step()
    trace.free(weights)
    return trace


def fluctuating() -> Trace:
    """No leak; in each step the pool is filled to another height."""
    trace = Trace()
    trace.malloc(4_002_304, MAIN)
    for step in range(1, 8):
        number = trace.begin_range()
        size = 16_000_000 if step == 2 else 3_357_696 * step
        trace.free(trace.malloc(size, LOSSES))
        trace.end_range(number)
    return trace


PROGRAMS = {"leaky": leaky, "clean": clean, "fluctuating": fluctuating}


def rendered(found: LeakOverview, *, width: int = 80, is_coloured: bool = False) -> str:
    """The report as text."""
    out = io.StringIO()
    render_leaks(found, out, width=width, is_coloured=is_coloured)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("is_coloured", [False, True], ids=["plain", "colour"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_snapshots(program: str, is_coloured: bool, width: int, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """The whole report of three programs, in a narrow and a wide terminal, with and without colour."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = rendered(find_leaks(PROGRAMS[program]().recording()), width=width, is_coloured=is_coloured)
    path = GOLDEN / f"leaks_{program}_{width}_{'colour' if is_coloured else 'plain'}.txt"
    if os.environ.get("MSMEMSCOPE_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("program", PROGRAMS)
def test_colour_changes_nothing_but_colour(program: str) -> None:
    """Without the codes the text is the same; without colour there are none."""
    found = find_leaks(PROGRAMS[program]().recording())
    plain, coloured = rendered(found), rendered(found, is_coloured=True)
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize(("device", "where"), [(0, " in aten.add.Tensor"), (DEVICE_CPU, "")])
def test_lines_name_the_operator_where_kernels_were_not_recorded(device: int, where: str) -> None:
    """On an accelerator: the operator that allocated is known, and a CPU has no kernels."""
    trace = Trace()
    for step in range(1, 4):
        number = trace.begin_range()
        trace.malloc(1 << 20, LOSSES, address=0x1000 * step, device=device, operator="torch._ops.aten.add.Tensor")
        trace.end_range(number)
    lines = rendered(find_leaks(trace.recording())).splitlines()
    (line,) = [line for line in lines if line.startswith("Direct ")]
    assert line.endswith(f" at 0x2000{where} at step 2.")


def test_one_table_of_fluctuation_is_that_of_the_pool() -> None:
    """Not that of the driver, from which the pool reserves."""
    trace = Trace()
    for step in range(1, 5):
        number = trace.begin_range()
        for pool in (Pool.HAL, Pool.PTA):
            trace.free(trace.malloc(1 << 20, LOSSES, address=0x1000 * step, pool=pool))
        trace.end_range(number)
    out = io.StringIO()
    render_leak_lines([find_leaks(trace.recording())], out, LeakLines(10, 10, 1, "report.txt"))
    assert "Pytorch Caching memory pool Gap Analysis of Device 0" in out.getvalue()
    assert "Hal" not in out.getvalue()


def test_lines_of_the_older_form() -> None:
    """Letter by letter: sizes with six decimals, addresses without padding, the sum with six digits, trailing blanks."""
    trace = Trace()
    for step in range(1, 6):
        number = trace.begin_range()
        trace.malloc(4_000_256, LOSSES, address=0x12C0_417D_0A00 + (step << 24))
        trace.end_range(number)
    trace.add(EventKind.KERNEL_LAUNCH)  # launches were recorded, none before what leaked
    lines = rendered(find_leaks(trace.recording())).splitlines()
    lines = lines[lines.index("====== ERROR: Detected memory leaks on device 0 ======") :]
    assert lines[:8] == [
        "====== ERROR: Detected memory leaks on device 0 ======",
        "Direct Pytorch Caching memory pool leak of 3.814941 Mb(s) at 0x12c0437d0a00 in kernel_0 at step 2.",
        "Direct Pytorch Caching memory pool leak of 3.814941 Mb(s) at 0x12c0447d0a00 in kernel_0 at step 3.",
        "Direct Pytorch Caching memory pool leak of 3.814941 Mb(s) at 0x12c0457d0a00 in kernel_0 at step 4.",
        "====== SUMMARY: 11.4448 Mb(s) leaked in 3 allocation(s) ======",
        "======= Pytorch Caching memory pool Gap Analysis of Device 0 =======",
        "\tMinAlloc/MaxAlloc(%)     MinAllocMem(MB)          StepId                   ",
        "MinGap\t50.0000                  3.8149                   2                        ",
    ]
    assert lines[8] == "MaxGap\t80.0000                  15.2598                  5                        "


def test_lines_of_the_older_form_are_never_wrapped() -> None:
    """However narrow the terminal: scripts read them."""
    text = rendered(find_leaks(leaky().recording()), width=40)
    direct = [line for line in text.splitlines() if line.startswith("Direct")]
    assert all(line.endswith(".") and " at step " in line for line in direct)


def test_many_blocks_are_cut_and_counted() -> None:
    """The first are listed; the sum is that of all."""
    trace = Trace()
    for _ in range(4):
        for _ in range(100):
            trace.malloc(1 << 20, LOSSES)
        trace.step()
    text = rendered(find_leaks(trace.recording()))
    assert text.count("Direct Pytorch") == MOST_BLOCKS
    assert "and 190 more at the call sites above" in text
    assert "SUMMARY: 200 Mb(s) leaked in 200 allocation(s)" in text


def test_the_call_sites_and_their_holders_come_first() -> None:
    """Before the lines about single blocks, which stand at the end: nothing but these two is behind them."""
    lines = rendered(find_leaks(leaky().recording())).splitlines()
    assert lines[0].startswith("Leaks over ")
    alarm = next(number for number, line in enumerate(lines) if "ERROR" in line)
    assert all(LOSSES.split("\n", maxsplit=1)[0] not in line for line in lines[alarm:])
    assert sum("call site" in line for line in lines[:alarm]) >= 1
    assert all(line.startswith(("======", "Direct", "and ", "\t", "Min", "Max")) for line in lines[alarm:])


def test_leaks_between_marks() -> None:
    """Every pool, in the older form, each line with the index of its MALLOC; then the call sites."""
    trace = Trace()
    trace.mark("test")
    trace.malloc(2 << 20, attributes="CANN@RUNTIME", pool=Pool.HAL, address=0x12C0_4260_0000)
    trace.malloc(1 << 20, LOSSES, address=0x12C0_5000_0000)
    trace.free(trace.malloc(3, CACHE, device=1))
    trace.mark("test")
    trace.mark("test")
    out = io.StringIO()
    render_mark_leaks(find_leaks_between_marks(trace.recording(), "test"), out, width=80)
    lines = out.getvalue().splitlines()
    assert lines[:7] == [
        "INFO: Starting to analyze data for device 0...",
        "",
        "Leak Analysis Results for the Custom Range:",
        "====== ERROR: Detected memory leaks on device 0 ======",
        "Direct Hal memory leak of 2.0 Mb(s) at 0x000012c042600000 in Index 2.",
        "Direct Pytorch Caching memory pool leak of 1.0 Mb(s) at 0x000012c050000000 in Index 3.",
        "====== SUMMARY: 3 Mb(s) leaked in 2 allocation(s) ======",
    ]
    assert "No memory leaks detected on device 1." in lines
    assert any("train.py(21): train_step" in line for line in lines)


def test_names_cannot_steer_the_terminal() -> None:
    """Control characters of the program's own names are replaced, also in the lines that are not wrapped."""
    trace = Trace()
    for _ in range(6):
        trace.malloc(10, "/home/\x1b[2Jme/train.py(3): f")
        trace.step()
    text = rendered(find_leaks(trace.recording()))
    assert "\x1b" not in text
    assert "\N{REPLACEMENT CHARACTER}[2Jme" in text


def test_a_helper_that_is_called_from_two_lines_names_both() -> None:
    """Otherwise two rows would show the same call site."""
    trace = Trace()
    for _ in range(6):
        for line in (10, 20):
            trace.malloc(100 * line, f"/home/me/app/make.py(3): made\n/home/me/app/train.py({line}): main")
        trace.step()
    text = rendered(find_leaks(trace.recording()))
    assert "make.py(3): made, from train.py(10): main" in text
    assert "make.py(3): made, from train.py(20): main" in text


def test_frames_of_the_program_stand_below_the_line() -> None:
    """As many as are asked for, in every table; the names in front of them are the same, and so are the figures."""
    trace = Trace()
    for _ in range(6):
        trace.malloc(
            100, "/home/me/app/make.py(3): made\n/home/me/app/train.py(10): main\n/home/me/app/run.py(1): start"
        )
        trace.step()
    found = find_leaks(trace.recording())
    plain = rendered(found).splitlines()
    for frames, callers in ((2, ["train.py(10): main"]), (9, ["train.py(10): main", "run.py(1): start"])):
        shown = rendered(with_frames(found, frames)).splitlines()
        below = [line for line in shown if line.lstrip().startswith("from /")]
        assert [line for line in shown if line not in below] == plain
        assert [line.rpartition("/")[2] for line in below] == callers * (len(below) // len(callers))
        assert below


def test_without_steps_it_says_why() -> None:
    """Nothing is listed, and what would be needed is said."""
    trace = Trace()
    trace.malloc(10, LOSSES)
    text = rendered(find_leaks(trace.recording()))
    assert "no step has ended, at least 3 are needed" in text
    assert "ERROR" not in text
