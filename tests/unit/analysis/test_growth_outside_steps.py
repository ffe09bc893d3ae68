"""Growth before, between and after the steps of a program that has some."""

from __future__ import annotations

import polars as pl
import pytest

from msmemscope.analysis.leaks.growth import find_slow_leaks
from msmemscope.analysis.leaks.growth_outside_steps import find_growth_outside_steps
from tests.fakes.traces import Trace

SITE = "/home/me/serve.py(10): answer\n/home/me/serve.py(40): main"
OTHER = "/home/me/serve.py(20): work\n/home/me/serve.py(40): main"


def train(trace: Trace) -> None:
    """Five steps that keep nothing."""
    for _ in range(5):
        trace.free(trace.malloc(5000, OTHER))
        trace.free(trace.malloc(6000, OTHER))
        trace.step()


def serve(trace: Trace, holder: str) -> list[int]:
    """Forty requests: each leaves one block."""
    kept = []
    for number in range(40):
        trace.free(trace.malloc(300, OTHER))
        kept.append(trace.malloc(100, SITE))
        if holder:
            trace.holder(kept[-1], holder.format(number))
    return kept


PHASES = {
    "before the first step has ended": (serve, train),
    "within step 6": (train, serve, train),
    "after the last step": (train, serve),
}


@pytest.mark.parametrize("phase", PHASES)
def test_what_a_phase_leaves_is_growth(phase: str) -> None:
    """With the phase, the line and the holder; the steps themselves are judged as ever."""
    trace = Trace()
    for part in PHASES[phase]:
        part(trace, "__main__.kept[{}]") if part is serve else train(trace)
    found = find_growth_outside_steps(trace.recording())
    assert found.sites.select("site", "phase", "held_by").rows() == [
        ("/home/me/serve.py(10): answer", phase, "__main__.kept[39]")
    ]
    assert found.sites["last_bytes"][0] == pytest.approx(4000, abs=200)
    assert len(found.blocks) == 40
    assert find_slow_leaks(trace.recording()).sites.is_empty()


@pytest.mark.parametrize(
    "holder", ["", "parameter Linear.weight, from main.layers[{}]", "buffer BatchNorm.mean, from main.layers[{}]"]
)
def test_weights_that_are_loaded_are_none(holder: str) -> None:
    """Nor is anything that nobody is known to hold."""
    trace = Trace()
    serve(trace, holder)
    train(trace)
    assert find_growth_outside_steps(trace.recording()).sites.is_empty()


def test_what_is_given_back_later_is_none() -> None:
    """A validation between epochs keeps its outputs until it is over."""
    trace = Trace()
    train(trace)
    kept = serve(trace, "validate.outputs[{}]")
    train(trace)
    for block in kept:
        trace.free(block)
    train(trace)
    assert find_growth_outside_steps(trace.recording()).sites.is_empty()


def test_a_program_without_steps_has_no_outside() -> None:
    """Its run is judged as a whole."""
    trace = Trace()
    serve(trace, "__main__.kept[{}]")
    assert find_growth_outside_steps(trace.recording()).sites.is_empty()
    assert find_slow_leaks(trace.recording()).sites.select(pl.col("phase")).rows() == [(None,)]
