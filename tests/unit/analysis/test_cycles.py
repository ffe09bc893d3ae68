"""Memory that waits for the garbage collector."""

from __future__ import annotations

import pytest

from msmemscope.analysis.leaks.cycles import find_waiting_cycles
from msmemscope.model.events import EventFlag
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace

SITE = "/home/me/search.py(10): __init__\n/home/me/search.py(40): main"
OTHER = "/home/me/search.py(20): run\n/home/me/search.py(40): main"
CHAIN = "Linear.weight, from Trial.model, in a reference cycle through Trial.schedule.trial"
MIB = 1 << 20


def trials(*, found_at: int, waits: bool = True, growth: int = 0) -> Trace:
    """Six trials of three steps; a search in one of them, by its number, finds the first one waiting. All go at the end.

    Each is larger than the one before by `growth` bytes.
    """
    trace = Trace()
    models: list[int] = []
    for trial in range(6):
        models.append(trace.malloc(8 * MIB + trial * growth, SITE))
        for step in range(3):
            trace.free(trace.malloc(MIB, OTHER))
            if waits and trial == found_at and step == 2:
                trace.holder(models[0], CHAIN)
            trace.step()
        if not waits:
            trace.free(models.pop())
    for model in models:
        trace.free(model)
    return trace


def test_what_waits_at_the_peak_is_estimated() -> None:
    """The search found one waiting trial when two were there. At the peak there were six, and only one was needed."""
    (found,) = find_waiting_cycles(trials(found_at=1).recording())
    assert (found.device, found.pool, found.step, found.site) == (0, Pool.PTA, 5, "/home/me/search.py(10): __init__")
    assert (found.found_bytes, found.found_blocks, found.waiting_bytes) == (8 * MIB, 1, 40 * MIB)
    assert found.cycle == "Trial.schedule.trial"


def test_what_waits_need_not_have_one_size() -> None:
    """A batch is as large as its longest sequence: blocks of one line differ a little, and wait all the same."""
    (found,) = find_waiting_cycles(trials(found_at=1, growth=MIB // 4).recording())
    assert found.waiting_bytes == 40 * MIB + (2 + 3 + 4 + 5) * MIB // 4


@pytest.mark.parametrize("trace", [trials(found_at=9), trials(found_at=9, waits=False)], ids=["not found", "freed"])
def test_without_a_search_nothing_is_said(trace: Trace) -> None:
    """That blocks pile up alone says nothing of cycles."""
    assert find_waiting_cycles(trace.recording()) == ()


def test_a_search_at_the_end_does_not_count() -> None:
    """With the last functions of a program its cycles end, too."""
    trace = trials(found_at=9)
    trace.holder(trace.malloc(80 * MIB, SITE), CHAIN)
    assert find_waiting_cycles(trace.recording()) == ()


def test_holders_of_blocks_that_are_gone_say_nothing() -> None:
    """As a damaged recording can have them."""
    trace = Trace()
    for _ in range(4):
        block = trace.malloc(8 * MIB, SITE)
        trace.free(block)
        trace.holder(block, CHAIN)
        trace.step()
    assert find_waiting_cycles(trace.recording()) == ()


def collected_trials(*, together: int, chain: str = "") -> Trace:
    """Twelve trials of two steps; the collector begins by itself whenever so many have ended."""
    trace = Trace()
    models: list[int] = []
    for _ in range(12):
        models.append(trace.malloc(8 * MIB, SITE))
        for _ in range(2):
            trace.free(trace.malloc(MIB, OTHER))
            trace.step()
        if len(models) == together:
            for model in models:
                trace.free(model, flags=int(EventFlag.COLLECTED))
            models.clear()
    if chain:
        trace.holder(trace.malloc(8 * MIB, SITE), chain)
    return trace


def test_what_the_collector_alone_frees_is_told() -> None:
    """All but the newest. A search at the end, whose blocks do not count, can still name the cycle."""
    (found,) = find_waiting_cycles(collected_trials(together=4, chain=CHAIN).recording())
    assert (found.is_collected, found.found_blocks, found.waiting_bytes) == (True, 3, 24 * MIB)
    assert found.site == "/home/me/search.py(10): __init__"
    assert found.cycle == "Trial.schedule.trial"


def test_without_a_known_cycle_nothing_is_said_of_the_collector() -> None:
    """Blocks of several steps may have been needed together, up to a moment before."""
    assert find_waiting_cycles(collected_trials(together=4).recording()) == ()


def test_one_trial_at_a_time_has_not_waited() -> None:
    """It was needed to its end, as far as anybody can tell."""
    assert find_waiting_cycles(collected_trials(together=1, chain=CHAIN).recording()) == ()


def test_a_search_tells_more_than_the_collector() -> None:
    """It saw what waited, and estimates the peak."""
    trace = collected_trials(together=4)
    model = trace.malloc(8 * MIB, SITE)
    trace.step()
    trace.holder(model, CHAIN)
    trace.step()
    trace.free(model)
    (found,) = find_waiting_cycles(trace.recording())
    assert not found.is_collected
