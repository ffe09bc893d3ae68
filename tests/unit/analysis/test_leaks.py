"""Leaks over steps: against the definition, event by event; and what the judgement of call sites adds."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.leaks.overview import find_leaks
from msmemscope.analysis.leaks.step_leaks import Confidence, Fate, StepLeakOptions, StepLeaks, find_step_leaks
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import Pool
from tests.fakes.traces import EVENT_NS, Trace
from tests.support.nightly import examples

SITE = "/home/me/train.py(10): step\n/home/me/train.py(40): main"
OTHER = "/home/me/train.py(20): cache\n/home/me/train.py(40): main"
DEFINITION = StepLeakOptions(judges_sites=False)


@dataclass
class Alive:
    """A block of the reference."""

    step: int
    ends: int = 0


def reference(rows: list[dict[str, int]], *, ranges: bool) -> tuple[set[int], set[int]]:
    """Leaked and long-lived blocks, by the words of the definition: step after step, block after block."""
    blocks: dict[int, Alive] = {}
    freed: set[int] = set()
    begun = 0 if ranges else 1
    ended = 0
    outlived: set[int] = set()
    leaked: set[int] = set()
    for row in rows:
        if row["kind"] == EventKind.MALLOC:
            blocks[row["sequence"]] = Alive(begun)
        elif row["kind"] == EventKind.FREE:
            freed.add(row["extra"])
        elif row["kind"] in {EventKind.STEP, EventKind.RANGE_END}:
            ended += 1
            begun += 0 if ranges else 1
            alive = {number for number, block in blocks.items() if number not in freed}
            outlived |= {number for number in alive if blocks[number].step >= 2 and ended >= blocks[number].step + 1}
            # A free after the last step is not known here: whoever is alive at its end leaks.
            leaked = outlived & alive
        elif row["kind"] == EventKind.RANGE_START:
            begun += 1
    return leaked, outlived - leaked


@st.composite
def traces(draw: st.DrawFn) -> tuple[Trace, bool]:
    """Programs that allocate and free what they like, in steps of either source."""
    ranges = draw(st.booleans())
    trace = Trace()
    alive: list[int] = []
    number = 0
    actions = st.sampled_from(["malloc", "malloc", "malloc", "free", "step", "kernel"])
    for action in draw(st.lists(actions, max_size=80)):
        if action == "malloc":
            site = draw(st.sampled_from([SITE, OTHER, ""]))
            pool, device = draw(st.sampled_from([(Pool.PTA, 0), (Pool.ATB, 1), (Pool.HOST, DEVICE_CPU)]))
            alive.append(trace.malloc(draw(st.integers(1, 1000)), site, pool=pool, device=device))
        elif action == "free" and alive:
            trace.free(alive.pop(draw(st.integers(0, len(alive) - 1))))
        elif action == "kernel":
            trace.add(EventKind.KERNEL_LAUNCH)
        elif action == "step" and not ranges:
            trace.step()
        elif action == "step" and number:
            trace.end_range(number)
            number = 0
        elif action == "step":
            number = trace.begin_range()
    return trace, ranges


def of(found: StepLeaks, fate: Fate) -> set[int]:
    """The blocks of a fate."""
    return set(found.blocks.filter(pl.col("fate") == fate.value)["malloc_sequence"])


@examples(by_day=30)
@given(traces())
def test_the_definition_block_by_block(made: tuple[Trace, bool]) -> None:
    """Without judgement of sites: the leaked and the withdrawn blocks are those of the definition."""
    trace, ranges = made
    found = find_step_leaks(trace.recording(), DEFINITION)
    leaked, long_lived = reference(trace.rows, ranges=ranges)
    assert of(found, Fate.LEAKED) == leaked
    assert of(found, Fate.LONG_LIVED) == long_lived
    assert bool(found.remarks) == (found.steps_ended < 3)
    sites = found.sites
    assert int(sites["leaked_blocks"].sum()) == len(leaked)
    assert int(sites["long_lived_blocks"].sum()) == len(long_lived)
    sizes = {row["sequence"]: row.get("size", 0) for row in trace.rows}
    assert int(sites["leaked_bytes"].sum()) == sum(sizes[number] for number in leaked)


@examples(by_day=30)
@given(traces())
def test_judgement_only_takes_away(made: tuple[Trace, bool]) -> None:
    """Every block that is called leaked with judgement is one by the definition; the others have another fate."""
    recording = made[0].recording()
    strict, judged = find_step_leaks(recording, DEFINITION), find_step_leaks(recording)
    assert of(judged, Fate.LEAKED) <= of(strict, Fate.LEAKED)
    assert strict.blocks["malloc_sequence"].equals(judged.blocks["malloc_sequence"])
    assert of(judged, Fate.LONG_LIVED) == of(strict, Fate.LONG_LIVED)


@examples(by_day=30)
@given(traces())
def test_peak_without_the_leaks(made: tuple[Trace, bool]) -> None:
    """The peak of each pool without its leaked blocks, all and those of one site, is what following it gives."""
    trace, _ = made
    found = find_step_leaks(trace.recording(), DEFINITION)
    for pool in found.pools:
        mine = found.leaked.filter((pl.col("device") == pool.device) & (pl.col("pool") == pool.pool))
        assert pool.peak_bytes == peak(trace, pool.device, pool.pool, set())
        assert pool.peak_without_bytes == peak(trace, pool.device, pool.pool, set(mine["malloc_sequence"]))
        for (site,), part in mine.partition_by("site_id", as_dict=True).items():
            is_site = (pl.col("site_id") == site) & (pl.col("device") == pool.device) & (pl.col("pool") == pool.pool)
            reported = found.sites.filter(is_site)["peak_without_bytes"].to_list()
            assert reported == [peak(trace, pool.device, pool.pool, set(part["malloc_sequence"]))]


def peak(trace: Trace, device: int, pool: int, without: set[int]) -> int:
    """The peak of a pool, some blocks left out, event by event."""
    in_use = highest = 0
    for row in trace.rows:
        if row["kind"] not in {EventKind.MALLOC, EventKind.FREE} or (row["device"], row["pool"]) != (device, pool):
            continue
        is_malloc = row["kind"] == EventKind.MALLOC
        if (row["sequence"] if is_malloc else row["extra"]) not in without:
            in_use += row["size"] if is_malloc else -row["size"]
        highest = max(highest, in_use)
    return highest


def steady_leak(steps: int, *, every: int = 1) -> Trace:
    """A program that leaks 1000 bytes at SITE in every so many steps, and keeps what the first step makes."""
    trace = Trace()
    trace.malloc(5000, OTHER)
    for step in range(1, steps + 1):
        trace.free(trace.malloc(3000, OTHER))
        if step % every == 0:
            trace.malloc(1000, SITE, operator="aten.clone")
        trace.step()
    return trace


def test_large_blocks_that_leak_for_long_have_their_byte_seconds() -> None:
    """A gigabyte that is kept for ten seconds has more byte-nanoseconds than 63 bits hold."""
    trace = Trace()
    trace.step()
    trace.malloc(1 << 30)
    trace.step()
    begin_ns = trace.rows[1]["timestamp_ns"]
    trace.step(timestamp_ns=begin_ns + 100 * 10**9)
    (found,) = find_step_leaks(trace.recording()).blocks["byte_seconds"]
    assert found == pytest.approx(100 * (1 << 30))


def test_a_steady_leak() -> None:
    """Its growth, its confidence, and what each block says; the last step cannot be judged yet."""
    trace = steady_leak(10)
    found = find_step_leaks(trace.recording())
    assert found.steps_ended == 10
    (site,) = found.leaking_sites.iter_rows(named=True)
    assert (site["leaked_bytes"], site["leaked_blocks"], site["growth_bytes_per_step"]) == (8000, 8, 1000.0)
    assert (site["first_step"], site["last_step"], site["leaking_steps"], site["longest_run"]) == (2, 9, 8, 8)
    assert site["confidence"] == Confidence.HIGH.value
    assert site["site"] == "/home/me/train.py(10): step"
    assert site["site_path"].splitlines() == SITE.splitlines()
    assert site["operators"] == ["aten.clone"]
    assert found.leaked["step"].to_list() == list(range(2, 10))
    (pool,) = found.pools
    assert (pool.leaked_bytes, pool.peak_bytes, pool.peak_without_bytes) == (8000, 17000, 9000)
    first = found.leaked.row(0, named=True)
    ends = [row["sequence"] for row in trace.rows if row["kind"] == EventKind.STEP]
    assert first["byte_seconds"] == pytest.approx(1000 * (ends[-1] - first["malloc_sequence"]) * EVENT_NS / 1e9)
    assert found.to_polars().height == 8


@pytest.mark.parametrize(("steps", "every", "confidence"), [(3, 1, "low"), (4, 1, "medium"), (6, 1, "high")])
def test_confidence_grows_with_the_steps(steps: int, every: int, confidence: str) -> None:
    """One step can be anything; four in a row are sure."""
    found = find_step_leaks(steady_leak(steps, every=every).recording())
    assert found.leaking_sites["confidence"].to_list() == [confidence]


def test_a_leak_with_pauses_is_one() -> None:
    """A site that leaks in every fifth step still does, although nothing leaked in the last four steps."""
    found = find_step_leaks(steady_leak(25, every=5).recording())
    (site,) = found.leaking_sites.iter_rows(named=True)
    assert (site["leaking_steps"], site["longest_run"], site["confidence"]) == (4, 1, "medium")
    assert find_step_leaks(steady_leak(50, every=5).recording()).leaking_sites["confidence"].to_list() == ["high"]


def test_what_is_set_up_once_is_kept() -> None:
    """A site that allocates in one step and never again keeps what it has; soon after, that is not known yet."""
    for after, fate in ((4, Fate.LEAKED), (5, Fate.KEPT)):
        trace = steady_leak(2)
        block = trace.malloc(700, OTHER)
        for _ in range(after):
            trace.step()
        assert of(find_step_leaks(trace.recording()), fate) >= {block}


def test_a_leak_that_has_stopped_still_holds_its_memory() -> None:
    """Nobody sets up something in eight steps in a row. Over two thirds of the run, a cache is full that an epoch filled."""
    for steps, epochs, is_leak in ((8, 2, False), (9, 2, True), (30, 2, True), (30, 3, False)):
        trace = steady_leak(steps)
        for _ in range((epochs - 1) * steps):
            trace.step()
        found = find_step_leaks(trace.recording())
        assert found.leaked.height == (steps - 1) * is_leak
        assert found.leaking_sites["last_step"].to_list() == [steps] * is_leak


def bounded_cache(steps: int, entries: int) -> Trace:
    """A program that keeps the blocks of the last steps."""
    trace = Trace()
    held: list[int] = []
    for _ in range(steps):
        held.append(trace.malloc(1000, SITE))
        if len(held) > entries:
            trace.free(held.pop(0))
        trace.step()
    for block in held:
        trace.free(block)
    return trace


@pytest.mark.parametrize("entries", [2, 3, 8, 15])
def test_a_bounded_cache_leaks_nothing(entries: int) -> None:
    """Blocks alive at the end are no older than blocks that the site has freed.

    By the definition alone they would leak.
    """
    recording = bounded_cache(20, entries).recording()
    assert find_step_leaks(recording, DEFINITION).leaked.height == entries - 1
    found = find_step_leaks(recording)
    assert found.leaked.is_empty()
    assert found.pools == ()
    assert int(found.sites["expected_blocks"].sum()) == entries - 1
    assert int(found.sites["long_lived_blocks"].sum()) > 0


@pytest.mark.parametrize("is_bounded", [True, False])
def test_a_cache_drops_nothing_in_steps_that_add_nothing(*, is_bounded: bool) -> None:
    """Its blocks grow older than any that it dropped, but no more are there than before: unless it keeps every other one."""
    trace = Trace()
    held: list[int] = []
    for step in range(48):
        if step % 3 == 0 and (step < 42 or not is_bounded):
            held.append(trace.malloc(1000, SITE))
            if len(held) > 5 and is_bounded:
                trace.free(held.pop(0))
            elif step % 6 == 3 and not is_bounded:
                trace.free(held.pop(-2))
        trace.step()
    assert find_step_leaks(trace.recording()).leaked.is_empty() is is_bounded


@pytest.mark.parametrize("leaks_every", [0, 20])
def test_a_cache_that_keeps_what_is_used(leaks_every: int) -> None:
    """Some of its blocks are older than any that it dropped. It is full: as many are there as long before."""
    trace = Trace()
    used = [trace.malloc(1000, SITE) for _ in range(2)]
    held: list[int] = []
    for step in range(200):
        held.append(trace.malloc(1000, SITE))
        if step in {10, 30, 50}:
            used.append(held.pop())
        elif len(held) > 40:
            trace.free(held.pop(0))
        if leaks_every and step % leaks_every == 0:
            trace.malloc(1000, SITE)
        trace.step()
    assert len(used) == 5
    assert find_step_leaks(trace.recording()).leaked.is_empty() == (leaks_every == 0)


def test_a_leak_beside_a_bounded_cache_at_the_same_site() -> None:
    """Blocks older than any that the site freed have leaked, and the site goes on leaking."""
    trace = Trace()
    held: list[int] = []
    leaked = []
    for step in range(1, 21):
        leaked.append((step, trace.malloc(500, SITE)))
        held.append(trace.malloc(1000, SITE))
        if len(held) > 3:
            trace.free(held.pop(0))
        trace.step()
    found = find_step_leaks(trace.recording())
    # Blocks that outlived no more than the two steps after their own may yet be freed.
    assert of(found, Fate.LEAKED) == {block for step, block in leaked if 2 <= step <= 17}
    assert found.leaking_sites["confidence"].to_list() == ["high"]


def test_one_early_free_does_not_excuse_a_leak() -> None:
    """A single old block that was freed is no proof that the others will be, once one leaked that is older."""
    trace = Trace()
    blocks = []
    for step in range(1, 21):
        blocks.append(trace.malloc(1000, SITE))
        if step == 18:
            trace.free(blocks[2])
        trace.step()
    assert of(find_step_leaks(trace.recording()), Fate.LEAKED) == {*blocks[1:19]} - {blocks[2]}


def test_a_free_after_the_last_step_does_not_withdraw() -> None:
    """At its end a program frees what it leaked."""
    trace = steady_leak(8)
    expected = of(find_step_leaks(trace.recording()), Fate.LEAKED)
    for row in [row for row in trace.rows if row["kind"] == EventKind.MALLOC and row["size"] == 1000]:
        trace.free(row["sequence"])
    found = find_step_leaks(trace.recording())
    assert of(found, Fate.LEAKED) == expected
    assert found.leaked["free_sequence"].null_count() == 0


def test_kernel_index_counts_launches_before_the_block() -> None:
    """As the reference counts them: launches of the whole process so far."""
    trace = Trace()
    for _ in range(5):
        trace.add(EventKind.KERNEL_LAUNCH)
        trace.malloc(10, SITE)
        trace.add(EventKind.KERNEL_LAUNCH)
        trace.step()
    assert find_step_leaks(trace.recording()).leaked["kernel_index"].to_list() == [3, 5, 7]


def test_devices_with_loops_of_their_own() -> None:
    """Where steps of two devices overlap, each device is judged by its own; the others by those of the longest loop."""
    trace = Trace()
    for device in (0, 1):
        trace.malloc(9, SITE, device=device)
    for step in range(1, 5):
        first = trace.begin_range(device=0)
        a = trace.malloc(100, SITE, device=0)
        second = trace.begin_range(device=1) if step < 3 else 0
        b = trace.malloc(200, SITE, device=1)
        trace.malloc(50, SITE, device=DEVICE_CPU, pool=Pool.HOST)
        trace.end_range(first, device=0)
        if second:
            trace.end_range(second, device=1)
        assert a < b
    found = find_step_leaks(trace.recording(), DEFINITION)
    assert {
        device: set(part["step"]) for (device,), part in found.leaked.partition_by("device", as_dict=True).items()
    } == {
        0: {2, 3},
        DEVICE_CPU: {2, 3},
    }


def test_a_step_without_an_end_lasts_to_the_next() -> None:
    """And the last one has not ended."""
    trace = Trace()
    for _ in range(5):
        trace.begin_range()
        trace.malloc(100, SITE)
    found = find_step_leaks(trace.recording())
    assert found.steps_ended == 4
    assert found.leaked["step"].to_list() == [2, 3]


def test_without_stacks_the_operator_is_the_site() -> None:
    """Then the native stack, without frames of libraries and without addresses; then the operator; then nothing."""
    trace = Trace()
    native = "/lib/libc10.so(alloc+0x1) [0x1]\n/opt/app/server(grow+0x20) [0x2]\n/opt/app/server(main+0x5) [0x3]"
    for _ in range(6):
        trace.malloc(1, "", native=native, operator="aten.add")
        trace.malloc(2, "", operator="aten.add")
        trace.malloc(3, "")
        trace.step()
    found = find_step_leaks(trace.recording())
    assert found.leaking_sites["site"].to_list() == ["(no call site)", "aten.add", "/opt/app/server(grow+0x20)"]


def test_frames_of_libraries_do_not_split_a_site() -> None:
    """The path of a site is that of the program: where inside torch the block came from does not matter."""
    trace = Trace()
    torch = "/x/site-packages/torch/nn/functional.py({line}): linear\n"
    ours = "/x/src/msmemscope/capture/operators.py(5): __torch_dispatch__\n"
    for line in range(1, 8):
        trace.malloc(1, ours + torch.format(line=line) + SITE)
        trace.step()
    found = find_step_leaks(trace.recording())
    assert found.leaking_sites["site"].to_list() == ["/home/me/train.py(10): step"]
    assert found.leaking_sites["leaked_blocks"].to_list() == [5]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_too_few_steps_are_said(steps: int) -> None:
    """Nothing is found, and why is said."""
    trace = Trace()
    for _ in range(steps):
        trace.malloc(1, SITE)
        trace.step()
    found = find_step_leaks(trace.recording())
    assert found.blocks.is_empty()
    assert "at least 3 are needed" in found.remarks[0].sentence


def test_the_reserve_of_a_pool_is_no_leak_of_the_driver() -> None:
    """A block of the driver that a pool hands out in parts is judged by the parts; one that a program leaks is found."""
    trace = Trace()
    segment = 0x7000_0000
    for step in range(1, 9):
        size = 2 << 20
        trace.malloc(size, native="/opt/torch/libtorch_npu.so(segment+0x1) [0x1]", pool=Pool.HAL, address=segment)
        trace.free(trace.malloc(4096, SITE, address=segment + 512 * step))
        # Physical memory, whose address is a handle: the pool's reserve grows by it.
        trace.malloc(size, native="a(map+0x1) [0x1]", pool=Pool.HAL, address=0x10 + step)
        trace.add(EventKind.RESERVED, pool=int(Pool.PTA), size=size * step)
        trace.malloc(size, native="/opt/app(leak+0x1) [0x1]", pool=Pool.HAL, address=segment + (1 << 30))
        segment += size
        trace.step()
    found = find_step_leaks(trace.recording())
    assert found.leaking_sites["site"].to_list() == ["/opt/app(leak+0x1)"]
    assert len(of(found, Fate.RESERVE)) == 12


@pytest.mark.parametrize(("bound", "leaked"), [(10, 0), (8, 10), (None, 10)])
def test_a_container_that_is_not_full_yet_leaks_nothing(bound: int | None, leaked: int) -> None:
    """A deque that keeps the last ten: up to ten blocks may be in it."""
    trace = Trace()
    for step in range(11):
        block = trace.malloc(100, "/home/me/keep.py(3): main")
        if step:
            trace.holder(block, f"main.last[{step - 1}{f' of at most {bound}' if bound else ''}], from main.keeper")
        trace.step()
        if step == 0:
            trace.free(block)
    found = find_step_leaks(trace.recording())
    assert found.leaked.height == max(leaked - 1, 0)


def test_a_bound_of_nonsense_is_none() -> None:
    """As a damaged recording can have it."""
    trace = Trace()
    for step in range(6):
        trace.holder(trace.malloc(100, "/home/me/keep.py(3): main"), f"main.last[{step} of at most {10**30}]")
        trace.step()
    assert find_step_leaks(trace.recording()).leaked.height == 4


def test_blocks_of_the_time_between_two_collections_are_of_no_step() -> None:
    """Where collection begins again, they appear all at once: nobody knows when they were allocated."""
    trace = Trace()
    for step in range(8):
        trace.malloc(100, "/home/me/keep.py(3): main")
        if step == 4:
            for _ in range(50):
                trace.malloc(1000, flags=EventFlag.SHADOW)
        trace.step()
    (site,) = find_step_leaks(trace.recording()).leaking_sites.rows(named=True)
    assert (site["site"], site["growth_bytes_per_step"]) == ("/home/me/keep.py(3): main", 100)


def test_older_blocks_alone_do_not_say_that_nothing_leaks() -> None:
    """Another tool took the allocations away from us, and steps were seen."""
    trace = Trace()
    trace.malloc(1000, flags=EventFlag.SHADOW)
    for _ in range(12):
        trace.step()
    assert find_leaks(trace.recording()).coverage.missing == ("no allocations were recorded but older ones",)
