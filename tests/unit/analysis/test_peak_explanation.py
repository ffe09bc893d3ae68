"""The explanation of full memory agrees with plain sums, and each failure gets its cause."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.peak.cause import OutOfMemoryCause, find_cause
from msmemscope.analysis.peak.cause_words import Cause, Remedy
from msmemscope.analysis.peak.explanation import (
    MOST_SAVINGS,
    OWNER_SCHEMA,
    RECENT_SCHEMA,
    SITE_SCHEMA,
    Moment,
    PeakGrowth,
    explain_peak,
)
from msmemscope.analysis.peak.out_of_memory import analyze_out_of_memory
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import OOM_SNAPSHOT_NAME, EventFlag, EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import Recording
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.reports.out_of_memory_report import heading
from tests.fakes.traces import EVENT_NS, Trace
from tests.support.inefficient_oracle import Row
from tests.support.nightly import examples
from tests.support.traces import data_set, traces

MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30
MAIN = "/home/me/train.py(40): main"
WEIGHTS = f"/home/me/model.py(5): __init__\n{MAIN}"
LAYER = f"/home/me/model.py(9): forward\n{MAIN}"
LOSS = f"/home/me/train.py(21): loss\n{MAIN}"
BASE = 0x12C0_0000_0000
USUAL_POOLS = (Pool.HOST, Pool.PTA, Pool.PTA_WORKSPACE, Pool.ATB, Pool.MIND_SPORE)


def training(steps: int = 3, growth: int = 0) -> Trace:
    """Weights of 10 MiB, and in each step an activation of 4 MiB and, when it is gone, a gradient of 6 MiB."""
    trace = Trace()
    trace.malloc(10 * MEBIBYTE, WEIGHTS, operator="aten.randn")
    for step in range(steps):
        activation = trace.malloc(4 * MEBIBYTE + step * growth, LAYER, operator="aten.mm")
        trace.free(activation)
        gradient = trace.malloc(6 * MEBIBYTE + step * growth, LOSS, operator="aten.add")
        trace.free(gradient)
        trace.step()
    return trace


def test_the_peak() -> None:
    """Its moment, who reached it, what was in use, and since when."""
    (found,) = explain_peak(training().recording()).devices
    assert (found.moment, found.sequence, found.step) == (Moment.PEAK, 4, 1)
    assert (found.in_use_bytes, found.peak_bytes, found.peak_sequence) == (16 * MEBIBYTE, 16 * MEBIBYTE, 4)
    assert (found.operator, found.site, found.request_bytes) == ("aten.add", LOSS.splitlines()[0], 6 * MEBIBYTE)
    assert found.pools.rows() == [(0, Pool.PTA, 16 * MEBIBYTE, 2, None)]
    columns = ("size_bytes", "block_count", "oldest_sequence", "oldest_age_ns", "oldest_step")
    assert found.sites.select(columns).rows() == [
        (10 * MEBIBYTE, 1, 1, 3 * EVENT_NS, 1),
        (6 * MEBIBYTE, 1, 4, 0, 1),
    ]
    assert found.owners.schema == OWNER_SCHEMA
    assert found.cause is None
    assert explain_peak(training().recording()).to_polars().schema == SITE_SCHEMA


def test_savings_are_no_differences() -> None:
    """Without the gradients the activations are the peak: 6 MiB less in use, but only 2 MiB less at the peak."""
    (found,) = explain_peak(training().recording()).devices
    assert found.sites.select("peak_without_bytes", "saved_bytes").rows() == [
        (6 * MEBIBYTE, 10 * MEBIBYTE),
        (14 * MEBIBYTE, 2 * MEBIBYTE),
    ]


def test_a_moment_that_is_given() -> None:
    """In use right after it; what the step has brought; no allocation, no call site."""
    recording = training().recording()
    (found,) = explain_peak(recording, at=7).devices
    assert (found.moment, found.in_use_bytes, found.step) == (Moment.GIVEN, 14 * MEBIBYTE, 2)
    assert found.site == LAYER.splitlines()[0]
    assert found.recent.select("operator", "size_bytes", "last_sequence").rows() == [("aten.mm", 4 * MEBIBYTE, 7)]
    assert found.recent.schema == RECENT_SCHEMA
    (after,) = explain_peak(recording, at=8).devices
    assert (after.in_use_bytes, after.site, after.request_bytes) == (10 * MEBIBYTE, None, None)
    assert after.recent.is_empty()


@pytest.mark.parametrize("at", [0, 17])
def test_a_moment_that_does_not_exist(at: int) -> None:
    """The message names what there is."""
    with pytest.raises(ValueError, match=rf"at: {at} is no number of an event of trace; expected 1 to 16"):
        explain_peak(training().recording(), at=at)


def test_without_steps_the_last_tenth() -> None:
    """Without steps, memory is recent if it came since memory was last below nine tenths of what it is."""
    trace = Trace()
    for size in (85, 4, 8, 3):
        trace.malloc(size, LAYER)
    (found,) = explain_peak(trace.recording()).devices
    assert (found.step, found.recent_since) == (None, 3)
    assert found.recent.select("size_bytes", "block_count").rows() == [(11, 2)]
    assert found.sites["oldest_step"].to_list() == [None]


def test_what_was_there_before_is_not_recent() -> None:
    """Blocks that a recording finds when it begins came at some time before."""
    trace = Trace()
    trace.malloc(100, LAYER, flags=int(EventFlag.SHADOW))
    trace.malloc(1, LOSS)
    (found,) = explain_peak(trace.recording()).devices
    assert found.recent["size_bytes"].to_list() == [1]


def test_devices() -> None:
    """Accelerators by number, then the cpu; one that has nothing but the driver's memory is explained by that."""
    trace = Trace()
    trace.malloc(5, MAIN, pool=Pool.HOST, device=DEVICE_CPU)
    trace.malloc(7, native="/opt/app/serve(main+0x10) [0x401000]", pool=Pool.HAL, device=3)
    trace.malloc(100, MAIN, pool=Pool.HAL, device=0)
    trace.malloc(9, MAIN, device=0)
    recording = trace.recording()
    found = explain_peak(recording)
    assert [(one.device, one.peak_bytes) for one in found.devices] == [(0, 9), (3, 7), (DEVICE_CPU, 5)]
    assert found.devices[2].fragmentation is None
    assert found.devices[1].site == "/opt/app/serve(main+0x10)"
    nothing = explain_peak(recording, device=5)
    assert nothing.devices == ()
    assert nothing.coverage.missing[-1] == "no memory of npu:5 was recorded"
    assert not explain_peak(Trace().recording()).coverage.is_answered


@pytest.mark.parametrize(("growth", "is_growing"), [(0, False), (1000, True)])
def test_growth_of_the_peak(growth: int, is_growing: bool) -> None:  # noqa: FBT001
    """The median growth per step; the first step is warm-up."""
    (found,) = explain_peak(training(12, growth).recording()).devices
    assert found.growth == PeakGrowth(11, float(growth), is_growing)
    assert found.step_peaks["peak_bytes"].to_list() == [16 * MEBIBYTE + step * growth for step in range(12)]


def test_growth_that_has_ended() -> None:
    """Memory that fills up and then stays does not grow any more. A few steps are too few to judge."""
    trace = Trace()
    held: list[int] = []
    for step in range(40):
        held.append(trace.malloc(1000, LAYER))
        if step >= 10:
            trace.free(held.pop(0))
        trace.step()
    (found,) = explain_peak(trace.recording()).devices
    assert found.growth.is_growing is False
    (short,) = explain_peak(training(4).recording()).devices
    assert short.growth == PeakGrowth(3, None, None)


def peak_of(lives: list[tuple[int, int | None, int]]) -> int:
    """The peak of blocks, moment by moment."""
    moments = {begin for begin, _, _ in lives}
    return max(
        (sum(size for begin, end, size in lives if begin <= at and (end is None or at < end)) for at in moments),
        default=0,
    )


def with_sites(rows: list[Row], sites: list[int]) -> Recording:
    """The data set of a trace whose allocations come from a few call sites."""
    stacks = {number: f"/home/me/site{number}.py(1): f\n" for number in range(1, 5)}
    stack_of = {row.sequence: sites[index % len(sites)] for index, row in enumerate(rows)}
    return data_set(rows, stacks, stack_of)


@examples(by_day=25)
@given(traces(), st.lists(st.integers(1, 4), min_size=1, max_size=7))
def test_against_plain_sums(rows: list[Row], sites: list[int]) -> None:
    """Peak, what is in use at it by site and owner, and the peak without each site: block by block, moment by moment."""
    recording = with_sites(rows, sites)
    for found in explain_peak(recording).devices:
        here = recording.blocks.filter(pl.col("device") == found.device)
        of_frameworks = here.filter(pl.col("pool").is_in(USUAL_POOLS))
        blocks = of_frameworks if len(of_frameworks) else here
        paths = call_sites(recording, blocks)
        blocks = blocks.join(paths, on=STACK_COLUMNS, how="left", maintain_order="left")
        lives = [
            (row["malloc_sequence"], row["free_sequence"], row["size"], row["pool"], row["site_path"])
            for row in blocks.iter_rows(named=True)
        ]
        assert found.peak_bytes == peak_of([life[:3] for life in lives])
        alive = [life for life in lives if life[0] <= found.sequence and (life[1] is None or found.sequence < life[1])]
        assert found.in_use_bytes == sum(life[2] for life in alive) == found.peak_bytes
        assert sum(found.sites["size_bytes"]) == sum(found.owners["size_bytes"]) == found.in_use_bytes
        assert sum(found.pools["size_bytes"]) == found.in_use_bytes
        keys = {life[3:] for life in alive}
        assert set(found.sites.select("pool", "site_path").iter_rows()) == keys
        assert len(keys) <= MOST_SAVINGS
        for row in found.sites.iter_rows(named=True):
            rest = [life[:3] for life in lives if life[3:] != (row["pool"], row["site_path"])]
            assert row["peak_without_bytes"] == peak_of(rest)
            assert row["saved_bytes"] == found.peak_bytes - row["peak_without_bytes"]
            mine = [life for life in alive if life[3:] == (row["pool"], row["site_path"])]
            assert row["size_bytes"] == sum(life[2] for life in mine)
            assert row["largest_bytes"] == max(life[2] for life in mine)
            assert row["oldest_sequence"] == min(life[0] for life in mine)


def failure(
    *,
    pieces: tuple[int, ...] = (),
    segment: int = 400,
    driver: int = 0,
    used: int = 400,
    process: int | None = None,
    request: int = 700,
    total: int = 1024,
    function: str = "halMemAlloc",
    has_snapshot: bool = True,
) -> Recording:
    """A device with one segment, blocks at its begin (`pieces`: a size, then a gap, and so on), and a failure. In MiB."""
    trace = Trace()
    trace.malloc(segment * MEBIBYTE, pool=Pool.HAL, address=BASE, attributes="CANN@APP")
    address = BASE
    for number, size in enumerate(pieces):
        if number % 2 == 0:
            trace.malloc(size * MEBIBYTE, LAYER, address=address)
        address += size * MEBIBYTE
    if driver:
        trace.malloc(driver * MEBIBYTE, WEIGHTS, pool=Pool.HAL, address=BASE + (1 << 40), attributes="CANN@HCCL")
    by_process = (1 << 64) - 1 if process is None else process * MEBIBYTE
    trace.add(EventKind.DEVICE_USAGE, size=used * MEBIBYTE, extra=by_process)
    if has_snapshot:
        text = f"reserved:1,allocated:1,total:{total * MEBIBYTE},free:{(total - used) * MEBIBYTE},device_rate:4.000000"
        trace.add(EventKind.SNAPSHOT, name_id=trace.text(OOM_SNAPSHOT_NAME), attribute_id=trace.text(text))
    trace.add(EventKind.ATEN_START, name_id=trace.text("aten.empty"))
    trace.add(EventKind.OOM, size=request * MEBIBYTE, name_id=trace.text(function))
    return trace.recording()


def cause_of(recording: Recording) -> OutOfMemoryCause:
    """The cause of the last failure, as the explanation has it."""
    (found,) = explain_peak(recording).devices
    assert found.moment is Moment.OUT_OF_MEMORY
    assert found.operator == "aten.empty"
    assert found.cause is not None
    assert found.cause.cause is find_cause(recording, found.sequence).cause
    return found.cause


def test_real_shortage() -> None:
    """In use, beside it and asked for are more than there is."""
    found = cause_of(failure(pieces=(400,), used=400))
    assert found.cause is Cause.REAL_SHORTAGE
    assert found.sentence == (
        "Real shortage: 400 MiB in use by the pools, and the 700 MiB asked for exceed the 1.00 GiB of the device by 76.0 MiB."
    )
    assert found.missing == ()


def test_more_than_the_device_has() -> None:
    """Then others are not to blame, however much they have."""
    found = cause_of(failure(pieces=(400,), used=800, process=400, request=2000))
    assert found.cause is Cause.ONE_BLOCK


def test_fragmentation_of_the_reserve() -> None:
    """The reserve alone has enough, in gaps that are too small."""
    found = cause_of(failure(segment=900, pieces=(100, 300, 100, 250), used=1000, request=500))
    assert found.cause is Cause.SPLIT
    assert found.sentence == (
        "Fragmentation: 700 MiB of the 900 MiB that the pool held were free, enough for the 500 MiB asked for, but the "
        "largest gap was 400 MiB."
    )


def test_fragmentation_with_what_the_device_had() -> None:
    """The gaps and what was free on the device would be enough together."""
    found = cause_of(failure(segment=600, pieces=(100, 150, 100, 150, 100), used=600, request=700))
    assert found.cause is Cause.SPLIT
    assert "with the 424 MiB free on the device enough for the 700 MiB asked for" in found.sentence


def test_one_page_decides() -> None:
    """Expandable segments grow in pages of 20 MiB: they are a remedy only where the request fits in whole ones."""
    enough = cause_of(failure(segment=600, pieces=(300, 300), used=600, request=700))
    assert (enough.cause, enough.remedy) == (Cause.SPLIT, Remedy.EXPANDABLE_SEGMENTS)
    assert enough.next_command == "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True"
    other = cause_of(failure(segment=600, pieces=(300, 300), used=600, request=721))
    assert (other.cause, other.remedy) == (Cause.SPLIT, Remedy.ALLOCATOR_SETTING)
    assert other.next_command == "export PYTORCH_NPU_ALLOC_CONF=max_split_size_mb:21"
    assert "replayed with it, the request is served" in other.advice
    shortage = cause_of(failure(segment=600, pieces=(300, 300), used=600, request=725))
    assert (shortage.cause, shortage.figures.missing_bytes) == (Cause.ONE_BLOCK, MEBIBYTE)


def test_other_process() -> None:
    """Other processes have at least the missing bytes."""
    found = cause_of(failure(pieces=(400,), used=900, process=400, request=500))
    assert found.cause is Cause.OTHER_PROCESS
    assert found.sentence == (
        "Another process: 500 MiB of the 1.00 GiB of the device were not this process's, and 376 MiB were missing for the "
        "500 MiB asked for."
    )
    # Without the others it would not have fitted either.
    assert cause_of(failure(pieces=(400,), used=900, process=500, request=800)).cause is Cause.REAL_SHORTAGE
    # The bytes that the system keeps of every device are no process.
    assert cause_of(failure(pieces=(400,), used=430, process=400, request=600)).cause is Cause.REAL_SHORTAGE


def test_growth_outside_the_framework() -> None:
    """Memory of the driver that no pool holds, with its module and call site."""
    found = cause_of(failure(pieces=(400,), driver=450, used=850, process=850, request=300))
    assert found.cause is Cause.OUTSIDE_FRAMEWORK
    assert found.sentence == (
        "Growth outside the framework: 450 MiB of the driver's memory were no pool's, mostly CANN@HCCL at "
        "/home/me/model.py(5): __init__, and 126 MiB were missing for the 300 MiB asked for."
    )


def test_the_larger_of_the_two_is_to_blame() -> None:
    """Both have more than what is missing."""
    recording = failure(pieces=(300,), segment=300, driver=200, used=900, process=500, request=200)
    assert cause_of(recording).cause is Cause.OTHER_PROCESS


def test_a_limit() -> None:
    """No driver was asked."""
    found = cause_of(failure(pieces=(400,), used=400, request=300, function="torch.npu"))
    assert found.cause is Cause.LIMIT
    assert "the pool held 400 MiB, and torch itself refused the 300 MiB asked for" in found.sentence
    assert "while 624 MiB of the device were free" in found.sentence


def test_refused_although_there_was_enough() -> None:
    """Nobody can say why."""
    found = cause_of(failure(pieces=(400,), used=400, request=100))
    assert found.cause is Cause.UNKNOWN
    assert "624 MiB of the device were reported free, and halMemAlloc refused the 100 MiB" in found.sentence


def test_a_gap_that_was_not_used() -> None:
    """Streams and sizes have segments of their own."""
    found = cause_of(failure(segment=900, pieces=(100,), used=1000, request=500))
    assert (found.cause, found.remedy) == (Cause.OTHER_STREAM, Remedy.ONE_STREAM)
    assert "a gap of 800 MiB in the pool's reserve would have held the 500 MiB asked for" in found.sentence


def test_how_the_allocator_came_to_refuse() -> None:
    """The pool of the request, what is free there, what holds it; without streams no room is said to be overlooked."""
    refusal = cause_of(failure(segment=900, pieces=(100,), used=1000, request=500)).refusal
    assert refusal is not None
    assert (refusal.is_small, refusal.is_of_stream, refusal.block_bytes) == (False, False, None)
    assert refusal.free_bytes == refusal.largest_free_bytes == 800 << 20
    assert (refusal.overlooked_bytes, refusal.elsewhere_bytes, refusal.released_segments) == (0, 0, 0)
    (holder,) = refusal.holders
    assert (holder.size_bytes, holder.pin_bytes, holder.block_count) == (900 << 20, 100 << 20, 1)
    # Of the small pool nothing is free: its blocks have segments of their own.
    small = cause_of(failure(segment=900, pieces=(100,), used=1000, request=2)).refusal
    assert small is not None
    assert (small.is_small, small.free_bytes, small.elsewhere_bytes) == (True, 0, 800 << 20)
    assert small.holders == ()


def test_without_figures_of_the_device() -> None:
    """It says what is missing; fragmentation shows in the reserve alone."""
    found = cause_of(failure(pieces=(400,), has_snapshot=False))
    assert found.cause is Cause.UNKNOWN
    assert "nothing says how much the device had" in found.sentence
    assert len(found.missing) == 1
    fragmented = failure(segment=900, pieces=(100, 300, 100, 250), request=500, has_snapshot=False)
    assert cause_of(fragmented).cause is Cause.SPLIT


def test_without_memory_of_the_driver() -> None:
    """The pool's own word for what it holds is used, and the missing figures are named."""
    trace = Trace()
    trace.add(EventKind.RESERVED, size=900, pool=int(Pool.PTA))
    trace.malloc(200, LAYER)
    trace.add(EventKind.OOM, size=500, name_id=trace.text("halMemAlloc"))
    found = find_cause(trace.recording(), 3)
    assert found.cause is Cause.SPLIT
    assert "no gap could be used" in found.sentence
    assert [line.partition(":")[0] for line in found.missing] == [
        "how much of npu", "what this process held of npu", "memory of the driver of npu",
    ]  # fmt: skip


def test_physical_memory_in_pieces() -> None:
    """Pieces that the request got before one failed are part of it, and not in use by anything else."""
    trace = Trace()
    trace.malloc(400 * MEBIBYTE, pool=Pool.HAL, address=1)
    trace.add(EventKind.RESERVED, size=400 * MEBIBYTE, pool=int(Pool.PTA))
    trace.malloc(400 * MEBIBYTE, LAYER)
    for piece in range(6):
        trace.malloc(100 * MEBIBYTE, pool=Pool.HAL, address=10 + piece)
    text = f"total:{GIBIBYTE},free:{24 * MEBIBYTE}"
    trace.add(EventKind.SNAPSHOT, name_id=trace.text(OOM_SNAPSHOT_NAME), attribute_id=trace.text(text))
    sequence = trace.add(EventKind.OOM, size=100 * MEBIBYTE, name_id=trace.text("halMemCreate"))
    found = find_cause(trace.recording(), sequence)
    assert found.cause is Cause.REAL_SHORTAGE
    assert found.figures.request_bytes == 700 * MEBIBYTE
    # The summary and the report on failures have the same number.
    recording = trace.recording()
    (described,) = analyze_out_of_memory(recording).failures
    (explained,) = explain_peak(recording).devices
    assert described.size_bytes == explained.request_bytes == 700 * MEBIBYTE
    assert heading(described, 0) == "Out of memory on npu:0: at least 700 MiB asked for"
    assert found.figures.device_used_bytes == 400 * MEBIBYTE
    assert "at least the 700 MiB asked for exceed the 1.00 GiB of the device by at least 76.0 MiB" in found.sentence


def test_the_host() -> None:
    """The machine takes the place of the device."""
    trace = Trace()
    trace.malloc(3 * GIBIBYTE, LAYER, pool=Pool.HOST, device=DEVICE_CPU)
    text = f"total:{8 * GIBIBYTE},free:{4 * GIBIBYTE}"
    snapshot = {"name_id": trace.text(OOM_SNAPSHOT_NAME), "attribute_id": trace.text(text)}
    trace.add(EventKind.SNAPSHOT, device=DEVICE_CPU, **snapshot)
    trace.add(EventKind.OOM, size=9 * GIBIBYTE, device=DEVICE_CPU, name_id=trace.text("posix_memalign"))
    found = find_cause(trace.recording(), 3)
    assert found.cause is Cause.ONE_BLOCK
    assert "3.00 GiB in use by tensors, 1.00 GiB beside them" in found.sentence
    assert "exceed the 8.00 GiB of the machine by 5.00 GiB" in found.sentence


def test_an_event_that_is_no_failure() -> None:
    """The message names it."""
    with pytest.raises(ValueError, match="sequence: 1 is no event of an allocation that failed"):
        find_cause(training().recording(), 1)


def test_the_last_failure_is_explained() -> None:
    """Of several on a device; a moment that is given takes its place."""
    recording = failure(pieces=(400,))
    doubled = dataclasses.replace(
        recording,
        events=pl.concat([recording.events, recording.events.tail(1).with_columns(sequence=pl.col("sequence") + 10)]),
    )
    (found,) = explain_peak(doubled).devices
    assert found.sequence == recording.events["sequence"][-1] + 10
    (given_one,) = explain_peak(doubled, at=2).devices
    assert (given_one.moment, given_one.cause) == (Moment.GIVEN, None)
    # Numbers behind a failure belong to its rows in a dump: no event has them, and they are no failure.
    (between,) = explain_peak(doubled, at=found.sequence - 5).devices
    assert (between.moment, between.cause) == (Moment.GIVEN, None)
