"""Changes by operators and launches are right on small logs, and agree with a plain rereading of random ones."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.operators.memory_changes import CHANGE_SCHEMA, find_memory_changes
from msmemscope.configuration import Level
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import Pool
from tests.fakes.event_rows import dataset_of, end, free, launch, malloc, start
from tests.support.nightly import examples


def test_operators() -> None:
    """Net, peak above the beginning, total after; nested operators belong to the outermost; others to nobody."""
    found = find_memory_changes(
        dataset_of([
            malloc(1000),  # 1: outside
            start(1), malloc(100, python_stack_id=7), start(2), malloc(50, python_stack_id=8), end(2), free(5, 50), end(1),
            free(1, 1000),
            start(3, python_stack_id=9), free(3, 100), end(3),
            {"kind": EventKind.MALLOC, "pool": Pool.HAL, "size": 4096},  # the driver's is not counted again
        ])
    )  # fmt: skip
    assert found.rows.schema == CHANGE_SCHEMA
    columns = ["sequence", "event", "name", "net_bytes", "peak_bytes", "total_bytes", "python_stack_id"]
    assert found.to_polars().select(columns).rows() == [
        (2, "OP_LAUNCH", "add", 100, 150, 1100, 7),
        (10, "OP_LAUNCH", "sub", -100, 0, 0, 9),
    ]
    assert found.totals["total_bytes"].to_list() == [1000, 1100, 1150, 1100, 100, 0]


def test_kernels() -> None:
    """Without operators everything that is allocated since the launch before, and what is freed until the next one."""
    found = find_memory_changes(
        dataset_of([
            malloc(1), launch(1), malloc(100), malloc(30, device=1), launch(2), free(3, 100), launch(1, device=1), malloc(5),
        ]),
        {Level.KERNEL},
    )  # fmt: skip
    columns = ["device", "name", "net_bytes", "peak_bytes", "total_bytes"]
    assert found.rows.select(columns).rows() == [
        (0, "add", 1, 1, 1), (0, "mul", 5, 100, 6), (1, "add", 30, 30, 30),
    ]  # fmt: skip


def test_an_output_belongs_to_the_kernel_that_it_was_allocated_for() -> None:
    """That is the one that its operator launches next; what another operator allocates stays with the launch before."""
    rows = [
        start(1), malloc(100), launch(1), malloc(7), end(1),  # 2 is for the launch, 4 for none after it
        start(2), malloc(30), end(2),  # launches nothing
        free(4, 7),
        start(3), malloc(50), malloc(9), launch(2), free(11, 9), end(3),
        malloc(4, flags=EventFlag.SHADOW), free(2, 100, flags=EventFlag.SHADOW),
    ]  # fmt: skip
    found = find_memory_changes(dataset_of(rows), {Level.KERNEL}).rows
    assert found.select("name", "net_bytes", "peak_bytes").rows() == [("add", 130, 137), ("mul", 50, 59)]
    step = find_memory_changes(dataset_of(rows), {Level.KERNEL, Level.OP}, bounds=(6, 13)).rows
    assert step.select("sequence", "name", "net_bytes").rows() == [(6, "mul", 30), (10, "sub", 59), (13, "mul", 59)]


def test_both_levels_stand_in_sequence_order() -> None:
    """Each with its own change."""
    rows = find_memory_changes(
        dataset_of([start(1), malloc(10), launch(2), malloc(20), end(1), malloc(40)]), {Level.OP, Level.KERNEL}
    ).rows
    assert rows.select("event", "net_bytes").rows() == [("OP_LAUNCH", 30), ("KERNEL_LAUNCH", 70)]


def test_nothing() -> None:
    """No events, no rows."""
    assert find_memory_changes(dataset_of([])).rows.is_empty()
    assert find_memory_changes(dataset_of([malloc(5)]), {Level.KERNEL}).rows.is_empty()


actions = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "free", "start", "end", "launch"]), st.integers(0, 2), st.sampled_from([0, DEVICE_CPU]),
        st.integers(1, 3), st.integers(1, 1000),
    ),
    max_size=60,
)  # fmt: skip


@examples(by_day=30)
@given(actions)
def test_against_a_plain_rereading(chosen: list[tuple[str, int, int, int, int]]) -> None:
    """Random threads, devices and nesting: the same figures as of a loop over the events."""
    rows: list[dict[str, Any]] = []
    alive: dict[int, dict[str, Any]] = {}
    running: dict[int, list[int]] = defaultdict(list)
    for action, thread, device, name, size in chosen:
        place = {"thread_id": thread, "device": device}
        pool = Pool.HOST if device == DEVICE_CPU else Pool.PTA
        if action == "malloc":
            rows.append(malloc(size, pool=pool, **place))
            alive[len(rows)] = rows[-1]
        elif action == "free" and alive:
            block = sorted(alive)[size % len(alive)]
            gone = alive.pop(block)
            rows.append(free(block, gone["size"], pool=gone["pool"], thread_id=thread, device=gone["device"]))
        elif action == "start":
            rows.append(start(name, **place))
            running[thread].append(name)
        elif action == "end" and running[thread]:
            rows.append(end(running[thread].pop(), **place))
        elif action == "launch":
            rows.append(launch(name, **place))
    for thread, names in running.items():
        rows.extend(end(name, thread_id=thread) for name in reversed(names))
    found = find_memory_changes(dataset_of(rows), {Level.OP, Level.KERNEL}).rows
    assert sorted(found.select("sequence", "device", "net_bytes", "peak_bytes", "total_bytes").rows()) == sorted(
        _read_plainly(rows)
    )


def _read_plainly(rows: list[dict[str, Any]]) -> list[tuple[int, int, int, int, int]]:
    """One element at a time, from its beginning to its end."""
    found = []
    for begin, row in enumerate(rows):
        if row["kind"] == EventKind.ATEN_START:
            thread = row["thread_id"]
            depth = sum(
                {EventKind.ATEN_START: 1, EventKind.ATEN_END: -1}.get(other["kind"], 0)
                for other in rows[:begin]
                if other.get("thread_id", 1) == thread
            )
            if depth:
                continue
            level = 0
            for finish in range(begin, len(rows)):
                if rows[finish].get("thread_id", 1) == thread:
                    level += {EventKind.ATEN_START: 1, EventKind.ATEN_END: -1}.get(rows[finish]["kind"], 0)
                    if level == 0:
                        break
            members = [
                place
                for place in range(begin, finish + 1)
                if _is_memory(rows[place]) and rows[place]["thread_id"] == thread
            ]
            devices = {row["device"]} | {rows[place]["device"] for place in members}
            found += [_figures(rows, begin, finish, device, members) for device in devices]
        elif row["kind"] == EventKind.KERNEL_LAUNCH:
            launches = [
                place
                for place, other in enumerate(rows)
                if other["kind"] == EventKind.KERNEL_LAUNCH and other["device"] == row["device"]
            ]
            number = launches.index(begin)
            after = launches[number + 1] if number + 1 < len(launches) else len(rows)
            served = _allocated_for(rows, launches[number - 1] if number else -1, begin)
            of_next = _allocated_for(rows, begin, after) if after < len(rows) else []
            rest = [place for place in range(begin, after) if _is_memory(rows[place]) and place not in of_next]
            finish = min([after, *of_next]) - 1 if after < len(rows) else after
            found.append(_figures(rows, min([begin, *served]), finish, row["device"], [*served, *rest], begin))
    return found


def _allocated_for(rows: list[dict[str, Any]], before: int, launch_place: int) -> list[int]:
    """The allocations on the device since the launch before.

    A launch inside an operator counts only those of that operator.
    """
    around = _operator_around(rows, launch_place)
    return [
        place
        for place in range(before + 1, launch_place)
        if rows[place]["kind"] == EventKind.MALLOC
        and rows[place]["device"] == rows[launch_place]["device"]
        and around in {None, _operator_around(rows, place)}
    ]


def _operator_around(rows: list[dict[str, Any]], place: int) -> int | None:
    """The start of the outermost operator of the thread that is open, if one is."""
    depth, begun = 0, None
    for earlier, row in enumerate(rows[:place]):
        if row.get("thread_id", 1) != rows[place].get("thread_id", 1):
            continue
        if row["kind"] == EventKind.ATEN_START:
            begun = begun if depth else earlier
            depth += 1
        elif row["kind"] == EventKind.ATEN_END:
            depth -= 1
    return begun if depth else None


def _is_memory(row: dict[str, Any]) -> bool:
    return row["kind"] in {EventKind.MALLOC, EventKind.FREE}


def _change(row: dict[str, Any]) -> int:
    return int(row["size"]) if row["kind"] == EventKind.MALLOC else -int(row["size"])


def _figures(
    rows: list[dict[str, Any]], begin: int, finish: int, device: int, members: list[int], identity: int | None = None
) -> tuple[int, int, int, int, int]:
    net = sum(_change(rows[place]) for place in members if rows[place]["device"] == device)
    total = sum(_change(row) for row in rows[:begin] if _is_memory(row) and row["device"] == device)
    highest = before = total
    for row in rows[begin : finish + 1]:
        if _is_memory(row) and row["device"] == device:
            total += _change(row)
            highest = max(highest, total)
    return (begin if identity is None else identity) + 1, device, net, highest - before, total


@pytest.mark.parametrize("count", [1000])
def test_sums(count: int) -> None:
    """If nothing happens outside of operators, their changes add up to the total."""
    rows: list[dict[str, Any]] = []
    for number in range(count):
        rows += [start(1 + number % 3), malloc(number), end(1 + number % 3)]
    changes = find_memory_changes(dataset_of(rows)).rows
    assert changes["net_bytes"].sum() == changes["total_bytes"][-1] == sum(range(count))
