"""Memory that the layers of one forward pass save is no leak. Memory that many passes leave is one."""

from __future__ import annotations

import io

import polars as pl
import pytest

from msmemscope.analysis.leaks.growth import find_slow_leaks
from msmemscope.reports.growth_report import render_slow_leaks
from tests.fakes.traces import Trace

CALL = (
    "/usr/lib/python3/site-packages/torch/nn/modules/module.py(1750): _call_impl\n"
    "/usr/lib/python3/site-packages/torch/nn/modules/module.py(1739): _wrapped_call_impl\n"
)
MAIN = "/home/me/train.py(40): main"
LOOP = "/home/me/model.py(92): forward"
BEFORE_THE_LOOP = f"/home/me/model.py(90): forward\n{CALL}{MAIN}"
LAYER = f"/home/me/model.py(20): forward\n{CALL}{LOOP}\n{CALL}{MAIN}"
ALONE = f"/home/me/model.py(20): forward\n{CALL}{MAIN}"


def passes(count: int, layers: int, *, layer: str = LAYER, before: str = BEFORE_THE_LOOP) -> Trace:
    """Forward passes whose layers each keep a block and give one back.

    Args:
        count: The number of passes.
        layers: The number of layers in each.
        layer: The stack of a layer's allocations.
        before: The stack of allocations that the module makes before it calls its layers; empty for none.
    """
    trace = Trace()
    for _ in range(count):
        if before:
            trace.malloc(4096, before)
        for _ in range(layers):
            trace.free(trace.malloc(700, layer.replace("(20)", "(19)")))
            trace.malloc(1 << 20, layer)
    return trace


def test_what_one_pass_saves_is_no_leak() -> None:
    """It is named as what it is, with the line of the loop over the layers."""
    found = find_slow_leaks(passes(1, 200).recording())
    assert found.sites.is_empty()
    assert found.blocks.is_empty()
    (sentence,) = found.explained
    assert sentence.endswith(
        " MiB grew within one forward pass, at /home/me/model.py(92): forward: its backward pass has not run, and frees it."
    )
    out = io.StringIO()
    render_slow_leaks(found, out, width=200)
    assert out.getvalue() == f"No growth: 2 call sites judged\n  {sentence}\n"


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(passes(20, 10), id="several passes, whose beginnings lie between their layers"),
        pytest.param(passes(1, 200, before=""), id="it cannot be told that there was one pass only"),
        pytest.param(passes(200, 1, layer=ALONE, before=MAIN.replace("40", "39")), id="a loop of the program"),
        pytest.param(passes(1, 200, layer=MAIN, before=MAIN.replace("40", "39")), id="no module at all"),
    ],
)
def test_what_passes_leave_is_a_leak(trace: Trace) -> None:
    """Without proof that it was one pass, growth is growth."""
    found = find_slow_leaks(trace.recording())
    assert found.sites.filter(pl.col("last_bytes") >= 150 << 20).height == 1
    assert found.explained == ()
