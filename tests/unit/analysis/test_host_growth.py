"""Growth of host memory without tensors: what is a steady rise, and what is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.host.host_samples import NUMPY_ARRAYS, PYTHON_OBJECTS, SHARED_MEMORY, HostSite
from msmemscope.analysis.leaks.host_growth import (
    LEAST_HOST_GROWTH_BYTES,
    HostGrowth,
    HostRise,
    find_host_growth,
    rise_over_few_steps,
)
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

MEBIBYTE = 1 << 20
BASE = 200 * MEBIBYTE


def growth_of(
    resident: Callable[[int], int], steps: int = 100, tensor_bytes: int = 0, kept: Callable[[int], int] = lambda _: 0
) -> HostGrowth | None:
    """The growth if step `i` ends with some resident memory and keeps one CPU tensor, and the C library keeps some."""
    trace = Trace()
    for step in range(1, steps + 1):
        if tensor_bytes:
            trace.malloc(tensor_bytes, address=step << 32, device=DEVICE_CPU, pool=Pool.HOST)
        trace.add(EventKind.STEP, size=step, extra=BASE + resident(step), address=kept(step))
    return find_host_growth(trace.recording())


def test_a_steady_rise_is_growth_with_its_pace() -> None:
    """From the second step on, where the first ones rose at the same pace."""
    found = growth_of(lambda step: step * MEBIBYTE)
    assert found is not None
    assert (found.is_growing, found.growth_bytes, found.bytes_per_step) == (True, 98 * MEBIBYTE, MEBIBYTE)
    assert (found.first_step, found.last_step) == (2, 100)
    assert found.resident_bytes == BASE + 100 * MEBIBYTE


def test_what_is_set_up_at_first_is_not_counted() -> None:
    """Libraries load what they need in the first steps."""
    found = growth_of(lambda step: step * MEBIBYTE + (500 * MEBIBYTE if step > 5 else 0))
    assert found is not None
    assert found.is_growing
    assert found.growth_bytes < 100 * MEBIBYTE


@pytest.mark.parametrize(
    "resident",
    [
        lambda step: 64 * MEBIBYTE * (step > 40),
        lambda step: min(step, 50) * MEBIBYTE,
        lambda step: step % 10 * 20 * MEBIBYTE,
        lambda step: step * (LEAST_HOST_GROWTH_BYTES // 200),
        lambda step: -step * MEBIBYTE,
    ],
    ids=["once", "filled", "swings", "little", "shrinks"],
)
def test_no_steady_rise_is_none(resident: Callable[[int], int]) -> None:
    """Memory is no steady growth if it is taken once, fills up, comes and goes, is little, or is given back."""
    found = growth_of(resident)
    assert found is not None
    assert not found.is_growing


def test_tensors_are_no_part_of_it() -> None:
    """They are leaks of their own."""
    found = growth_of(lambda step: step * MEBIBYTE, tensor_bytes=MEBIBYTE)
    assert found is not None
    assert (found.growth_bytes, found.is_growing) == (0, False)


def test_what_the_c_library_keeps_is_no_growth_of_what_is_used() -> None:
    """Here it keeps less than it does in many programs."""
    found = growth_of(lambda step: 100 * MEBIBYTE + step * MEBIBYTE // 2, kept=lambda step: 1 + step * MEBIBYTE // 2)
    assert found is not None
    assert (found.is_growing, found.is_kept_free) == (False, False)


def test_what_is_used_grows_where_less_is_kept() -> None:
    """A figure of 0 is not known: then the one before holds."""
    found = growth_of(
        lambda step: 100 * MEBIBYTE + step * MEBIBYTE,
        kept=lambda step: 0 if step % 3 else (100 - step) * MEBIBYTE // 4 + 1,
    )
    assert found is not None
    assert (found.is_growing, found.is_kept_free) == (True, False)
    assert found.growth_bytes == pytest.approx(98 * MEBIBYTE * 5 / 4, rel=0.02)


def test_memory_that_is_kept_free_grows_by_itself() -> None:
    """Gaps that nothing fits into."""
    found = growth_of(lambda step: 2 * step * MEBIBYTE, kept=lambda step: 1 + 2 * step * MEBIBYTE)
    assert found is not None
    assert (found.is_growing, found.is_kept_free, found.growth_bytes) == (True, True, 196 * MEBIBYTE)


def test_heaps_that_two_threads_fill_at_first_are_no_growth() -> None:
    """Over few steps 140 MiB can be two heaps that are not full yet; over many they are."""
    for steps, is_growing in ((100, False), (400, True)):
        found = growth_of(
            lambda step, steps=steps: step * 140 * MEBIBYTE // steps,  # type: ignore[misc]
            steps=steps,
            kept=lambda step, steps=steps: 1 + step * 140 * MEBIBYTE // steps,  # type: ignore[misc]
        )
        assert found is not None
        assert found.is_growing is is_growing


def test_what_is_used_and_then_kept_free_makes_no_process_larger() -> None:
    """Tensors that waited in a queue at the begin, and are let go of one by one."""
    found = growth_of(lambda step: 200 * MEBIBYTE + step * MEBIBYTE // 4, kept=lambda step: 1 + step * MEBIBYTE)
    assert found is not None
    assert not found.is_kept_free


def test_what_is_used_and_what_is_kept_free_grow_together() -> None:
    """Neither rises steadily by itself: now the one has taken a part of the other's place, now the other."""
    moved = [*[0] * 40, *[40] * 20, *[-40] * 20, *[0] * 21]
    found = growth_of(lambda step: 2 * step * MEBIBYTE, kept=lambda step: 1 + (step + moved[step]) * MEBIBYTE)
    assert found is not None
    assert (found.is_growing, found.growth_bytes, found.kept_free_bytes) == (True, 196 * MEBIBYTE, 98 * MEBIBYTE)


def test_gaps_are_named_though_what_is_used_grows_a_little() -> None:
    """Small blocks that stay keep large ones apart: the gaps are most of it."""
    found = growth_of(lambda step: 4 * step * MEBIBYTE, kept=lambda step: 1 + 3 * step * MEBIBYTE)
    assert found is not None
    assert (found.is_growing, found.growth_bytes, found.kept_free_bytes) == (True, 392 * MEBIBYTE, 294 * MEBIBYTE)


@pytest.mark.parametrize(("steps", "growths"), [(100, []), (400, [True])], ids=["few", "many"])
def test_gaps_that_become_enough_are_no_growth(steps: int, growths: list[bool]) -> None:
    """They become more until they fit what is asked for: a course that bends is growth over many steps alone."""

    def bent(step: int) -> int:
        return int(400 * MEBIBYTE * (1 - 0.98 ** (step * 100 / steps)))

    found = growth_of(bent, steps, kept=lambda step: 1 + bent(step))
    assert [found.is_kept_free for found in [found] if found and found.is_growing] == growths


def test_few_steps_are_not_judged() -> None:
    """Nothing is claimed of them."""
    assert growth_of(lambda step: step * MEBIBYTE, steps=20) is None


def test_steps_without_figures_are_not_judged() -> None:
    """As in logs of older versions."""
    trace = Trace()
    for step in range(1, 101):
        trace.add(EventKind.STEP, size=step)
    assert find_host_growth(trace.recording()) is None


PYTHON_STACK = "/usr/lib/libpython3.11.so.1.0(_PyObject_Malloc+0x78) [0x1]"
NUMPY_STACK = "/x/numpy/_core/_multiarray_umath.so(PyDataMem_UserNEW+0x1) [0x2]\n/usr/lib/libpython3.11.so(x) [0x1]"


def sampled(trace: Trace, site: str, size: int, native: str = PYTHON_STACK) -> int:
    """Appends a sample that stands for some bytes."""
    return trace.sample(size, site, native=native)


def test_the_line_is_that_of_what_is_alive_in_the_end() -> None:
    """Freed memory, memory from before the growth, and memory of a line that made less do not count."""
    trace = Trace()
    for step in range(1, 101):
        if step == 1:
            sampled(trace, "server.py(3): load", 500 * MEBIBYTE)
        trace.free_sample(sampled(trace, "server.py(5): scratch", 8 * MEBIBYTE))
        sampled(trace, "server.py(7): keep", 3 * MEBIBYTE // 4, NUMPY_STACK)
        if step % 10 == 0:
            sampled(trace, "server.py(9): note", MEBIBYTE)
        trace.add(EventKind.STEP, size=step, extra=BASE + step * MEBIBYTE)
    found = find_host_growth(trace.recording())
    assert found is not None
    assert found.site == HostSite("server.py(7): keep", 98 * 3 * MEBIBYTE // 4, 98, NUMPY_ARRAYS)


def test_samples_that_explain_little_name_no_line() -> None:
    """The rest may be anybody's."""
    trace = Trace()
    for step in range(1, 101):
        sampled(trace, "server.py(7): keep", MEBIBYTE // 4)
        trace.add(EventKind.STEP, size=step, extra=BASE + step * MEBIBYTE)
    found = find_host_growth(trace.recording())
    assert found is not None
    assert (found.is_growing, found.site, found.is_sampled) == (True, None, True)


def run_of(lines: Callable[[int], str], moments: int = 100) -> HostGrowth | None:
    """The growth of a run without steps, in which a line makes a mebibyte at each moment ("" for none)."""
    trace = Trace()
    made = 0
    for moment in range(moments):
        site = lines(moment)
        if site:
            made += MEBIBYTE
            sampled(trace, site, MEBIBYTE)
        else:
            trace.free_sample(sampled(trace, "server.py(5): scratch", MEBIBYTE))
        trace.add(EventKind.HOST_MEMORY, size=BASE + made)
    return find_host_growth(trace.recording())


@pytest.mark.parametrize("last", [100, 90])
def test_without_steps_a_line_that_goes_on_is_growth(last: int) -> None:
    """Up to the end, or near to it: what a program sets up last does not count against it."""
    found = run_of(lambda moment: "server.py(7): keep" if moment < last else "")
    assert found is not None
    # The first sample of its own work begins the judged time.
    assert found.site == HostSite("server.py(7): keep", (last - 1) * MEBIBYTE, last - 1, PYTHON_OBJECTS)
    assert found.growth_bytes == pytest.approx(last * MEBIBYTE, abs=2 * MEBIBYTE)
    assert (found.is_over_steps, found.bytes_per_step) == (False, 0)


def test_shared_memory_comes_before_memory_that_is_kept_free() -> None:
    """To give back what is kept would not help: the shared memory is in use."""
    trace = Trace()
    for step in range(1, 101):
        trace.sample(MEBIBYTE, "publisher.py(10): publish", native=PYTHON_STACK, function="mmap(MAP_SHARED)")
        for _ in range(500 if step == 4 else 0):  # most of the time passes in one step
            trace.free_sample(sampled(trace, "publisher.py(20): train", MEBIBYTE))
        trace.free_sample(sampled(trace, "publisher.py(20): train", MEBIBYTE))
        attributes = trace.text(f"shared_bytes:{step * MEBIBYTE}")
        resident = BASE + 2 * step * MEBIBYTE
        trace.add(EventKind.HOST_MEMORY, size=BASE, extra=resident, attribute_id=attributes)
        trace.add(EventKind.STEP, size=step, extra=resident, address=1 + 2 * step * MEBIBYTE)
    found = find_host_growth(trace.recording())
    assert found is not None
    assert (found.is_growing, found.is_shared, found.is_kept_free) == (True, True, False)
    assert found.site == HostSite("publisher.py(10): publish", 98 * MEBIBYTE, 98, SHARED_MEMORY)


@pytest.mark.parametrize(("told", "growth"), [(MEBIBYTE, 98 * MEBIBYTE), (0, None)])
def test_shared_memory_that_a_line_goes_on_to_map_is_growth(told: int, growth: int | None) -> None:
    """If the kernel's figure of it grows as well: what is mapped and never touched takes nothing."""
    trace = Trace()
    for moment in range(100):
        trace.sample(MEBIBYTE, "frames.py(3): publish", native=PYTHON_STACK, function="mmap(MAP_SHARED)")
        trace.free_sample(sampled(trace, "frames.py(9): scratch", MEBIBYTE))
        attributes = trace.text(f"shared_bytes:{moment * told}")
        trace.add(EventKind.HOST_MEMORY, size=BASE, extra=BASE + moment * told, attribute_id=attributes)
    found = find_host_growth(trace.recording())
    assert found is not None
    assert (found.growth_bytes if found.is_shared else None) == growth
    if growth is not None:
        assert found.is_growing
        assert found.site == HostSite("frames.py(3): publish", 100 * MEBIBYTE, 100, SHARED_MEMORY)


@pytest.mark.parametrize(
    "lines",
    [
        lambda moment: "server.py(7): load" if moment < 40 else "",
        lambda moment: "server.py(7): load" if 45 < moment < 75 else "",
        lambda moment: f"server.py({moment}): set_up" if moment < 90 else "",
        lambda moment: "server.py(7): keep" if moment % 10 == 0 else "",
        lambda moment: "<frozen importlib._bootstrap>(241): _call\nserver.py(1): <module>" if moment < 90 else "",
    ],
    ids=["at first", "in the middle", "of many lines", "little", "imports"],
)
def test_without_steps_a_set_up_is_none(lines: Callable[[int], str]) -> None:
    """Memory that is loaded once is no growth, however large. Memory from many lines or from imports is none either."""
    found = run_of(lines)
    assert found is not None
    assert not found.is_growing


def test_the_import_of_a_framework_is_no_growth() -> None:
    """Where the log is older than that import, a line counts against what came behind it."""
    trace = Trace()
    trace.add(EventKind.HOST_MEMORY, size=BASE)
    trace.add(EventKind.HOST_MEMORY, size=BASE + 300 * MEBIBYTE, attribute_id=trace.text("when:imported"))
    trace.malloc(4096, "server.py(3): load", pool=Pool.HOST, device=DEVICE_CPU)
    for moment in range(100):
        sampled(trace, "server.py(7): keep", MEBIBYTE)
        trace.add(EventKind.HOST_MEMORY, size=BASE + (301 + moment) * MEBIBYTE)
    found = find_host_growth(trace.recording())
    assert found is not None
    assert found.site == HostSite("server.py(7): keep", 100 * MEBIBYTE, 100, PYTHON_OBJECTS)


@pytest.mark.parametrize(
    ("resident", "rise"),
    [
        (lambda step: 8 * step * MEBIBYTE, HostRise(80 * MEBIBYTE, 12, "")),
        (lambda step: 80 * MEBIBYTE * (step > 3), None),
        (lambda step: step * MEBIBYTE, None),
    ],
    ids=["steady", "once", "little"],
)
def test_a_rise_over_few_steps_is_mentioned(resident: Callable[[int], int], rise: HostRise | None) -> None:
    """Twelve steps are too few to call it growth, and too many to be silent about it."""
    trace = Trace()
    for step in range(1, 13):
        trace.add(EventKind.STEP, size=step, extra=BASE + resident(step))
    recording = trace.recording()
    assert find_host_growth(recording) is None
    assert rise_over_few_steps(recording) == rise
    assert rise is None or rise.reason.endswith("over 12 steps; at least 25 are needed")


def test_many_steps_can_be_too_short_to_be_judged() -> None:
    """Figures are a millisecond apart: how many steps there were is no reason then."""
    assert HostRise(80 * MEBIBYTE, 60, "").reason.endswith("over 60 steps; they were too short to tell more")


def test_enough_steps_are_judged_and_not_mentioned() -> None:
    """A verdict says more."""
    trace = Trace()
    for step in range(1, 41):
        trace.add(EventKind.STEP, size=step, extra=BASE + 8 * step * MEBIBYTE)
    assert rise_over_few_steps(trace.recording()) is None
