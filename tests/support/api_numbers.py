"""Early and late blocks of a dump by the rule of API numbers: row by row, from the columns alone, and written apart.

Every outermost operator of a thread has the next number, and so has every allocation and free outside of operators.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from tests.unit.formats.dump.conftest import csv_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

TENSOR_POOLS = {"HOST", "PTA", "ATB", "MINDSPORE"}


@dataclasses.dataclass
class Life:
    """The numbers of one block."""

    pool: str
    allocation: int
    accesses: list[int] = dataclasses.field(default_factory=list)
    free: int | None = None


def early_and_late(dump: Path) -> tuple[set[int], set[int]]:
    """Return the blocks of a CSV dump that are allocated early, and those that are freed late, by their IDs."""
    lives = lives_of(csv_rows(dump))
    early, late = set(), set()
    for identity, life in lives.items():
        others = [other for key, other in lives.items() if key != identity and other.pool == life.pool]
        elsewhere = [number for number in life.accesses if number != life.allocation]
        frees = [other.free for other in others if other.free is not None]
        if elsewhere and any(life.allocation < number < elsewhere[0] for number in frees):
            early.add(identity)
        if life.accesses and life.free is not None:
            allocations = [other.allocation for other in others]
            if any(life.accesses[-1] < number < life.free for number in allocations):
                late.add(identity)
    return early, late


def written_types(dump: Path) -> tuple[set[int], set[int]]:
    """Return the blocks whose rows say so: those of early_allocation, and those of late_deallocation."""
    rows = csv_rows(dump)
    early, late = (
        {int(row["ID"]) for row in rows if re.search(rf"inefficient_type:[^}}]*{word}", row["Attr"])}
        for word in ("early_allocation", "late_deallocation")
    )
    return early, late


def lives_of(rows: Iterable[Mapping[str, str]]) -> dict[int, Life]:
    """Give each block the numbers of what happens to it."""
    lives: dict[int, Life] = {}
    depth: dict[str, int] = {}
    running: dict[str, int] = {}
    number = 0
    for row in rows:
        event, kind, thread = row["Event"], row["Event Type"], row["Thread Id"]
        if event == "OP_LAUNCH":
            depth[thread] = depth.get(thread, 0) + (1 if kind.endswith("_START") else -1)
            if kind.endswith("_START") and depth[thread] == 1:
                number += 1
                running[thread] = number
            continue
        if event not in {"MALLOC", "FREE", "ACCESS"} or (event != "ACCESS" and kind not in TENSOR_POOLS):
            continue
        here = running[thread] if depth.get(thread) else None
        if here is None and event != "ACCESS":
            number += 1
            here = number
        named = re.search(r"\ballocation_id:(\d+)", row["Attr"])
        if named is None:
            continue
        block = int(named[1])
        if event == "MALLOC":
            lives[block] = Life(kind, here or 0)
        elif block in lives and event == "FREE":
            lives[block].free = here
        elif block in lives:
            assert here is not None, f"an access outside of operators: {row}"
            lives[block].accesses.append(here)
    return lives
