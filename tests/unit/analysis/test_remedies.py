"""False causes of a failure are not named: their remedy would not have let the program finish."""

from __future__ import annotations

import polars as pl
import pytest

from msmemscope.analysis.peak.candidates import Candidate
from msmemscope.analysis.peak.cause import OutOfMemoryCause, find_cause
from msmemscope.analysis.peak.cause_words import Cause, Remedy, verdict_of
from msmemscope.analysis.peak.figures import MemoryFigures
from msmemscope.model.events import OOM_SNAPSHOT_NAME, EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.holders import filling_blocks
from tests.fakes.traces import Trace

MEBIBYTE = 1 << 20
MAIN = "/home/me/train.py(40): main"
LAYER = f"/home/me/model.py(9): forward\n{MAIN}"
BASE = 0x12C0_0000_0000


def failed(trace: Trace, *, used: int, request: int, function: str = "halMemAlloc") -> OutOfMemoryCause:
    """The cause of a failure at the last block's line on a card of 1 GiB; sizes in MiB."""
    total = 1024
    stack = [row["python_stack_id"] for row in trace.rows if row["kind"] == EventKind.MALLOC][-1]
    trace.add(EventKind.DEVICE_USAGE, size=used * MEBIBYTE, extra=(1 << 64) - 1)
    text = f"reserved:1,allocated:1,total:{total * MEBIBYTE},free:{(total - used) * MEBIBYTE},device_rate:4.000000"
    trace.add(EventKind.SNAPSHOT, name_id=trace.text(OOM_SNAPSHOT_NAME), attribute_id=trace.text(text))
    trace.add(EventKind.OOM, size=request * MEBIBYTE, name_id=trace.text(function), python_stack_id=stack)
    recording = trace.recording()
    (sequence,) = recording.events.filter(pl.col("kind") == EventKind.OOM)["sequence"].to_list()
    return find_cause(recording, sequence)


def collected(held_by: str, *, weights: int = 0, function: str = "halMemAlloc") -> OutOfMemoryCause:
    """Eight blocks of 20 MiB on one line that are kept one by one, behind weights; sizes in MiB."""
    trace = Trace()
    trace.malloc((weights + 160) * MEBIBYTE, pool=Pool.HAL, address=BASE, attributes="CANN@APP")
    address = BASE
    if weights:
        trace.malloc(weights * MEBIBYTE, f"/home/me/model.py(5): __init__\n{MAIN}", address=address)
        address += weights * MEBIBYTE
    for number in range(8):
        block = trace.malloc(20 * MEBIBYTE, LAYER, address=address + 20 * number * MEBIBYTE)
        trace.holder(block, held_by.format(number))
    used = 500 if function.startswith("torch.") else 1000
    return failed(trace, used=used, request=40, function=function)


def test_weights_of_parts_are_not_collected() -> None:
    """Tensors that modules have as plain attributes are no results that pile up."""
    assert collected("main.results[{}]").cause is Cause.KEPT
    assert collected("Experts.gate_up, from main.model.{}").cause is not Cause.KEPT
    # A list of such a module is one.
    assert collected("Experts.seen[{}], from main.model.0").cause is Cause.KEPT


@pytest.mark.parametrize(("collected_before", "is_kept"), [(2, True), (8, False)])
def test_all_that_is_collected_would_be_free(collected_before: int, *, is_kept: bool) -> None:
    """The bytes are those of the blocks that are counted; if a good step collected as much, it is not the cause."""
    trace = Trace()
    trace.malloc(160 * MEBIBYTE, pool=Pool.HAL, address=BASE, attributes="CANN@APP")
    for number in range(collected_before):
        trace.malloc(20 * MEBIBYTE, LAYER, address=BASE + 20 * number * MEBIBYTE)
    for block in [row["sequence"] for row in trace.rows[1:]]:
        trace.free(block)
    trace.step()
    for number in range(8):
        block = trace.malloc(20 * MEBIBYTE, LAYER, address=BASE + 20 * number * MEBIBYTE)
        trace.holder(block, f"main.results[{number}]")
    found = failed(trace, used=1000, request=40)
    assert (found.cause is Cause.KEPT) is is_kept
    if is_kept:
        assert (found.candidates[0].freed_bytes, found.candidates[0].block_count) == (160 * MEBIBYTE, 8)


def test_what_fits_but_for_a_limit() -> None:
    """A limit is the cause unless most of what is in use was collected."""
    mostly = collected("main.adapters[{}]", weights=150, function="torch.npu")
    assert (mostly.cause, mostly.remedy) == (Cause.KEPT, Remedy.RELEASE_KEPT)
    partly = collected("main.adapters[{}]", weights=170, function="torch.npu")
    assert (partly.cause, partly.remedy) == (Cause.LIMIT, Remedy.RAISE_LIMIT)


@pytest.mark.parametrize(("request_mebibytes", "expected"), [(20, Cause.LIMIT), (200, Cause.BATCH_JUMP)])
def test_a_segment_is_no_larger_batch(request_mebibytes: int, expected: Cause) -> None:
    """A pool asks for 20 MiB where blocks of 4 MiB, as before, fit nowhere."""
    trace = Trace()
    trace.malloc(16 * MEBIBYTE, pool=Pool.HAL, address=BASE, attributes="CANN@APP")
    for number in range(4):
        trace.malloc(4 * MEBIBYTE, LAYER, address=BASE + 4 * number * MEBIBYTE)
    assert failed(trace, used=500, request=request_mebibytes, function="torch.npu").cause is expected


FIELDS = [f"main.window[{entry} of at most 4][{field}]" for entry in range(3) for field in range(2)]


@pytest.mark.parametrize(
    ("chains", "expected"),
    [
        (["main.last[0 of at most 2]", "main.last[1 of at most 2]"], True),
        (["main.last[0 of at most 1]", "main.last[1 of at most 1]"], False),
        (FIELDS, True),
        ([f"main.window[0 of at most 100][{field}]" for field in range(9)], False),
        (["main.window[0 of at most 4].history[3]"], False),
        (["main.history[3], from main.window[0 of at most 4]"], False),
        (["Transition[0], from main.memory[0 of at most 4]", "Transition[1], from main.memory[0 of at most 4]"], True),
        ([f"Sample.x, from main.memory[{entry} of at most 2]" for entry in range(2)], True),
        ([f"Sample.x, from main.memory[{entry} of at most 2]" for entry in range(3)], False),
        ([f"History[{field}], from main.memory[0 of at most 9]" for field in range(6)], False),
        ([f"main.cache['{key}'; 3 of at most 3]" for key in "abc"], True),
        ([f"main.cache['{key}'; 4 of at most 3]" for key in "abcd"], False),
        (["main.embedded(cache)[5 of at most 8]"] * 5, True),
    ],
)
def test_entries_of_a_bounded_container(chains: list[str], expected: bool) -> None:  # noqa: FBT001
    """Tuples in a deque fill it up as tensors do; lists in it may grow."""
    found = filling_blocks(pl.DataFrame({"held_by": chains}))
    assert found.to_list() == [expected] * len(chains)


def test_a_checkpoint_that_was_loaded() -> None:
    """A loaded checkpoint that is still there beside the model is to be released, not to be copied."""
    trace = Trace()
    load = f"/venv/torch/serialization.py(1400): load\n{MAIN}"
    module = "/venv/torch/nn/modules/linear.py(110): __init__"
    stacks = [*[load] * 3, *[f"{module}\n/home/me/train.py(30): main"] * 3]
    trace.malloc(841 * MEBIBYTE, pool=Pool.HAL, address=BASE, attributes="CANN@APP")
    for number, stack in enumerate(stacks):
        block = trace.malloc(140 * MEBIBYTE, stack, address=BASE + 140 * number * MEBIBYTE)
        trace.holder(block, "main.checkpoint['model']" if stack == load else "parameter Linear.weight")
    trace.malloc(MEBIBYTE, LAYER, address=BASE + 840 * MEBIBYTE)
    found = failed(trace, used=1020, request=40)
    assert (found.cause, found.remedy) == (Cause.CHECKPOINT, Remedy.RELEASE_LOADED)
    assert "held by main.checkpoint['model']" in found.verdict
    assert found.sentence.startswith("Checkpoint: 420 MiB that were loaded are still there")
    assert found.advice.startswith("Let go of the checkpoint")


@pytest.mark.parametrize(
    ("cause", "request_site", "refused"),
    [
        (Cause.SPLIT, MAIN, f"40.0 MiB refused at {MAIN}"),
        (Cause.SPLIT, "/home/me/model.py(9): forward", "40.0 MiB refused"),
        (Cause.SPLIT, "", "40.0 MiB refused"),
        (Cause.KEPT, MAIN, "40.0 MiB refused"),
    ],
)
def test_gaps_are_held_by_one_line_and_asked_for_by_another(cause: Cause, request_site: str, refused: str) -> None:
    """Both are in the first line, where they differ."""
    site = "/home/me/model.py(9): forward"
    figures = MemoryFigures(0, "halMemAlloc", 40 * MEBIBYTE, 160 * MEBIBYTE, request_site=request_site)
    sentence = verdict_of(Candidate(cause, 60 * MEBIBYTE, site), figures, 3)
    assert sentence.endswith(f" at {site} ({refused})")
