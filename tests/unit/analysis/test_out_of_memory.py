"""Why memory ran out, from small hand-built tables."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest

from msmemscope.analysis.peak.cause import find_cause
from msmemscope.analysis.peak.explanation import explain_peak
from msmemscope.analysis.peak.out_of_memory import (
    ONLY_SNAPSHOTS,
    OutOfMemoryOptions,
    OutOfMemoryResult,
    analyze_out_of_memory,
)
from msmemscope.formats.attributes import table_of_texts
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, RECORDING_BLOCK_SCHEMA, STRING_SCHEMA, Recording
from msmemscope.recording.block_sets import NO_PYTHON_STACK, Ranking, Share
from msmemscope.recording.call_sites import NO_CALL_SITE

TEXTS = {
    1: "halMemAlloc",
    2: "OOM_Snapshot",
    3: "OOM_Snapshot After",
    4: "reserved:200,allocated:100,total:1000,free:300,device_rate:70.000000,reserved_rate:50.000000",
    5: "reserved:150,allocated:100,total:1000,free:350",
    6: "aten.empty",
    7: "CANN@HCCL,page_type:huge",
}
STACKS = {1: "/app/model.py(3): build\n/app/main.py(9): <module>\n", 2: "/app/main.py(12): step\n"}


def recorded(events: list[dict[str, int]], blocks: list[dict[str, int | str]]) -> Recording:
    """Tables whose missing fields are 0."""
    zeros: dict[str, int] = dict.fromkeys(EVENT_SCHEMA, 0)
    strings = pl.DataFrame({"id": list(TEXTS), "text": list(TEXTS.values())}, schema=STRING_SCHEMA)
    return Recording(
        source="",
        form="event log",
        process_id=1,
        events=pl.DataFrame([zeros | event for event in events], schema=EVENT_SCHEMA),
        blocks=pl.DataFrame(
            [dict.fromkeys(RECORDING_BLOCK_SCHEMA) | block for block in blocks], schema=RECORDING_BLOCK_SCHEMA
        ),
        strings=strings,
        python_stacks=pl.DataFrame({"id": list(STACKS), "text": list(STACKS.values())}, schema=STRING_SCHEMA),
        native_stacks=STRING_SCHEMA.to_frame(),
        coverage=(),
        problems=(),
        attributes=table_of_texts(strings),
    )


def analyse(
    events: list[dict[str, int]], blocks: list[dict[str, int | str]], options: OutOfMemoryOptions | None = None
) -> OutOfMemoryResult:
    """Analyse tables whose missing fields are 0."""
    return analyze_out_of_memory(recorded(events, blocks), options)


def block(
    sequence: int, size: int, *, pool: int = Pool.PTA, device: int = 0, freed: int | None = None
) -> dict[str, int | str]:
    """A block that begins at an event and may end at another."""
    row: dict[str, int | str] = {
        "allocation_id": sequence, "malloc_sequence": sequence, "address": sequence << 12, "size": size,
        "device": device, "pool": pool, "flags": 0, "allocated_ns": sequence, "name_id": 6, "name": "aten.empty",
        "attribute_id": 0, "python_stack_id": 1, "native_stack_id": 0, "thread_id": 1,
    }  # fmt: skip
    return row | ({"free_sequence": freed, "freed_ns": freed} if freed is not None else {})


def failure(sequence: int, size: int = 500, **fields: int) -> dict[str, int]:
    """An attempt that failed."""
    return {
        "sequence": sequence, "kind": EventKind.OOM, "size": size, "thread_id": 7, "name_id": 1, "python_stack_id": 2,
        "timestamp_ns": sequence,
    } | fields  # fmt: skip


def snapshot(sequence: int, *, after: bool = False, **fields: int) -> dict[str, int]:
    """A snapshot of a failure."""
    return {
        "sequence": sequence, "kind": EventKind.SNAPSHOT, "name_id": 3 if after else 2, "attribute_id": 5 if after else 4,
    } | fields  # fmt: skip


def test_attempts_are_one_failure() -> None:
    """The driver fails twice and torch gives up: one failure, with its state and what was alive then."""
    result = analyse(
        [snapshot(20), failure(21), snapshot(30), failure(31), snapshot(40, after=True)],
        [
            block(1, 10), block(2, 70), block(3, 20), block(4, 99, freed=10), block(50, 1000),
            block(5, 5000, device=1), block(6, 300, pool=Pool.HAL), block(7, 60, freed=25),
        ],
        OutOfMemoryOptions(limit=2),
    )  # fmt: skip
    assert result.failure_count == 1
    (found,) = result.failures
    assert (found.sequence, found.attempts, found.was_given_up) == (31, 2, True)
    assert (found.function, found.size_bytes, found.device, found.thread_id) == ("halMemAlloc", 500, 0, 7)
    assert found.source_line == "/app/main.py(12): step"
    # The bytes that torch holds are those when it gave up. The free bytes are those when the driver refused.
    assert found.state == {"reserved": 150, "allocated": 100, "total": 1000, "free": 300, "device_rate": 70.0}
    assert [(part.pool, part.blocks.size_bytes, part.blocks.block_count) for part in found.alive] == [
        (Pool.HAL, 300, 1),
        (Pool.PTA, 100, 3),
    ]
    (line,) = found.alive[1].blocks.by_source_line.shares
    assert (line.label, line.size_bytes) == ("/app/model.py(3): build", 100)
    assert [taken.size_bytes for taken in found.largest] == [70, 20]
    assert [taken.size_bytes for taken in found.most_recent] == [20, 70]
    assert {taken.source_line for taken in found.largest} == {"/app/model.py(3): build"}


def test_failures_are_told_apart() -> None:
    """By what was given up in between, by size, and by device; percentages are numbers with a point."""
    events = [
        snapshot(10), failure(11), snapshot(12, after=True),
        snapshot(20), failure(21), snapshot(22, after=True),
        failure(31, 600), failure(41, 600, device=1),
    ]  # fmt: skip
    result = analyse(events, [])
    assert [(found.sequence, found.attempts, found.was_given_up) for found in result.failures] == [
        (11, 1, True),
        (21, 1, True),
        (31, 1, False),
        (41, 1, False),
    ]
    # The first on a device says why, and so does the last.
    assert [found.cause is not None for found in result.failures] == [True, False, True, True]
    # A snapshot belongs to the failure right behind it, or right before it where torch gave up.
    assert [found.state.get("free") for found in result.failures] == [300, 300, None, None]
    assert result.failures[0].alive == ()
    assert analyse([snapshot(10), failure(11)], []).failures[0].state["device_rate"] == 70.0


def test_only_the_latest_are_described() -> None:
    """A program that goes on failing does not make the analysis long; all failures are counted."""
    events = [failure(number, size=number) for number in range(1, 101)]
    result = analyse(events, [block(1, 10)], OutOfMemoryOptions(most_failures=3))
    assert result.failure_count == 100
    assert [found.sequence for found in result.failures] == [98, 99, 100]


def test_driver_blocks_alone() -> None:
    """Where no framework has a pool, the driver's blocks are the ones to list, by the module that asked for them."""
    (found,) = analyse([failure(9)], [block(1, 10, pool=Pool.HAL) | {"attribute_id": 7}]).failures
    assert [taken.size_bytes for taken in found.largest] == [10]
    assert found.alive[0].blocks.by_module == Ranking((Share("HCCL", 10, 1),), None)


@pytest.mark.parametrize("after", [False, True])
def test_the_cause_is_decided_by_the_same_figures(after: bool) -> None:  # noqa: FBT001
    """The cause counts the same bytes as free as the description of the failure."""
    events = [snapshot(20), failure(21), *([snapshot(22, after=True)] if after else [])]
    recording = recorded(events, [block(1, 10)])
    (found,) = analyze_out_of_memory(recording).failures
    figures = find_cause(recording, 21).figures
    assert (figures.free_bytes, figures.capacity_bytes) == (found.state["free"], found.state["total"]) == (300, 1000)


def test_without_a_python_stack() -> None:
    """A program without Python is shown where it asked, as the explanation of the failure shows it; never the function."""
    native = dataclasses.replace(
        recorded([failure(9, python_stack_id=0, native_stack_id=3)], [block(1, 10)]),
        native_stacks=pl.DataFrame(
            {"id": [3], "text": ["libascend_hal.so(f)\n/opt/app/serve(main+0x10) [0x401000]\n"]}, STRING_SCHEMA
        ),
    )
    (found,) = analyze_out_of_memory(native).failures
    (explained,) = explain_peak(native).devices
    assert found.source_line == explained.site == "/opt/app/serve(main+0x10)"
    nothing = recorded([failure(9, python_stack_id=0)], [block(1, 10)])
    assert analyze_out_of_memory(nothing).failures[0].source_line == NO_PYTHON_STACK
    assert explain_peak(nothing).devices[0].site == NO_CALL_SITE


def test_nothing_failed() -> None:
    """No failure, no result to speak of; where no allocation was recorded, no answer either."""
    assert analyse([], [block(1, 10)]) == OutOfMemoryResult(0, ())
    assert analyse([], []).coverage.missing == ("no allocations were recorded",)


def test_a_dump_with_snapshots_of_failures_alone() -> None:
    """That nothing failed would be wrong; a snapshot that the program took itself says nothing."""
    assert analyse([snapshot(20)], [block(1, 10)]).coverage.missing == (ONLY_SNAPSHOTS,)
    assert analyse([snapshot(20, name_id=6)], [block(1, 10)]).coverage.is_answered
    assert analyse([snapshot(20), failure(21)], []).coverage.is_answered
    # An allocator that gives its cache back is served then.
    granted = {"sequence": 22, "kind": EventKind.MALLOC, "size": 500, "thread_id": 7, "pool": Pool.HAL}
    served = analyse([snapshot(20), failure(21), granted], [block(1, 10)])
    assert served.coverage.is_answered
    assert served.failures == ()
