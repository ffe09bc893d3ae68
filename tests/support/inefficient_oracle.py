"""Inefficient memory by the definitions, event by event and block by block: slow, plain, and written apart.

It shares nothing with `msmemscope.analysis` but the numbers of the kinds of events.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from itertools import pairwise

from msmemscope.model.events import ACCESS_KINDS, EventKind
from msmemscope.model.pools import Pool

STARTS = {EventKind.ATEN_START: EventKind.ATEN_END, EventKind.ATB_START: EventKind.ATB_END}
ENDS = set(STARTS.values())
END_OF_TIME = 1 << 62


@dataclasses.dataclass(frozen=True)
class Row:
    """One event."""

    sequence: int
    kind: int
    thread: int = 1
    device: int = 0
    pool: int = Pool.PTA
    size: int = 0
    name: int = 0
    block: int = 0
    """Sequence of the MALLOC, for FREE and ACCESS."""
    is_shadow: bool = False


@dataclasses.dataclass
class Operator:
    """One outermost operator."""

    begin: int
    end: int
    thread: int
    devices: set[int]

    def holds(self, row: Row) -> bool:
        """Whether an event happens inside it."""
        return row.thread == self.thread and self.begin <= row.sequence < self.end


@dataclasses.dataclass
class Block:
    """One block and its events."""

    malloc: Row
    free: Row | None = None
    accesses: list[Row] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Found:
    """One way in which a block is held without need."""

    kind: str
    block: int
    wasted: int
    saved: int


def outermost_operators(rows: list[Row]) -> list[Operator]:
    """Recursive: an operator is a start, whole operators, and the end of the same name."""
    found = []
    for thread in {row.thread for row in rows}:
        boundaries = [row for row in rows if row.thread == thread and (row.kind in STARTS or row.kind in ENDS)]
        place = 0
        while place < len(boundaries):
            row = boundaries[place]
            after = end_of(boundaries, place)
            if row.kind not in STARTS:
                place += 1
            elif after is None:
                following = boundaries[place + 1].sequence if place + 1 < len(boundaries) else END_OF_TIME
                found.append(Operator(row.sequence, following, thread, {row.device}))
                place += 1
            else:
                found.append(Operator(row.sequence, boundaries[after].sequence, thread, {row.device}))
                place = after + 1
    return sorted(found, key=lambda operator: operator.begin)


def end_of(boundaries: list[Row], start: int) -> int | None:
    """The place of the end of the operator that starts at a place, if only whole operators lie between."""
    place = start + 1
    while place < len(boundaries):
        row = boundaries[place]
        if row.kind in ENDS:
            is_own = STARTS.get(EventKind(boundaries[start].kind)) == row.kind and row.name == boundaries[start].name
            return place if is_own else None
        inner = end_of(boundaries, place)
        if inner is None:
            return None
        place = inner + 1
    return None


class Trace:
    """Rows of a process, with the blocks and operators in them."""

    def __init__(self, rows: list[Row]) -> None:
        """Bring together what belongs together."""
        self.rows = rows
        self.blocks: dict[int, Block] = {row.sequence: Block(row) for row in rows if row.kind == EventKind.MALLOC}
        self.strays: list[Row] = []
        for row in rows:
            block = self.blocks.get(row.block)
            if row.kind == EventKind.FREE and block is None:
                self.strays.append(row)
            elif row.kind == EventKind.FREE and block is not None and block.free is None:
                block.free = row
            elif row.kind in ACCESS_KINDS and block is not None:
                block.accesses.append(row)
        self.operators = outermost_operators(rows)
        for block in self.blocks.values():
            events = [block.malloc, *block.accesses, *([block.free] if block.free else [])]
            for row in events:
                self._note_device(row, block.malloc.device)
        for row in self.strays:
            if not row.is_shadow:
                self._note_device(row, row.device)

    def _note_device(self, row: Row, device: int) -> None:
        operator = self.operator_of(row)
        if operator is not None:
            operator.devices.add(device)

    def operator_of(self, row: Row) -> Operator | None:
        """The operator that an event is inside of."""
        return next((operator for operator in self.operators if operator.holds(row)), None)

    def number(self, row: Row) -> int:
        """The API number of an event: as its operator, else a number of its own. Moments serve as numbers."""
        return self.begin_of(row)

    def first_use_elsewhere(self, block: Block) -> Row | None:
        """The first access with another number than the allocation."""
        return next((row for row in block.accesses if self.number(row) != self.number(block.malloc)), None)

    def is_computed(self, block: Block) -> bool:
        """Whether the operator that allocates it also accesses blocks that it did not allocate."""
        operator = self.operator_of(block.malloc)
        return operator is not None and any(
            self.operator_of(row) is operator
            for other in self.blocks.values()
            if self.operator_of(other.malloc) is not operator
            for row in other.accesses
        )

    def between(self, first: Row, second: Row, device: int) -> list[Operator]:
        """The operators of a device strictly between two events; an event outside of operators stands for itself."""
        begin, end = self.begin_of(first), self.begin_of(second)
        return [operator for operator in self.operators if device in operator.devices and begin < operator.begin < end]

    def pool(self, block: Block) -> list[Block]:
        """All blocks of the same pool and device."""
        place = (block.malloc.device, block.malloc.pool)
        return [other for other in self.blocks.values() if (other.malloc.device, other.malloc.pool) == place]

    def begin_of(self, row: Row) -> int:
        """Begin of the operator of an event, or the event."""
        operator = self.operator_of(row)
        return operator.begin if operator else row.sequence

    def finish_of(self, row: Row) -> int:
        """End of the operator of an event, or the event."""
        operator = self.operator_of(row)
        return operator.end if operator else row.sequence

    def peak(self, block: Block, absences: dict[int, list[tuple[int, int]]]) -> int:
        """Most bytes in use of the pool of a block, at any moment after any event.

        Args:
            block: One of the pool.
            absences: For blocks by identity the times (after one event, before another) in which they are not in use.
        """
        moments = {row.sequence for row in self.rows} | {END_OF_TIME}
        highest = 0
        for moment in moments:
            total = 0
            for other in self.pool(block):
                is_alive = other.malloc.sequence <= moment and (other.free is None or moment < other.free.sequence)
                gone = absences.get(other.malloc.sequence, [])
                total += other.malloc.size * (is_alive and not any(begin <= moment < end for begin, end in gone))
            highest = max(highest, total)
        return highest

    def saved(self, block: Block, begin: int, end: int) -> int:
        """By how much the peak is lower without a block for a time."""
        return self.peak(block, {}) - self.peak(block, {block.malloc.sequence: [(begin, end)]})


def inefficient(rows: list[Row], *, threshold: int, least_size: int = 0) -> set[Found]:
    """Every way in which a block is held inefficiently."""
    trace = Trace(rows)
    found = set()
    for identity, block in trace.blocks.items():
        if block.malloc.size < least_size or block.malloc.pool in {Pool.NONE, Pool.HAL, Pool.PTA_WORKSPACE}:
            continue
        found.update(_of_block(trace, identity, block, threshold))
    return found


def absences(rows: list[Row], *, threshold: int, least_size: int = 0) -> dict[int, list[tuple[int, int]]]:
    """For each block found the times in which it is not needed."""
    times = defaultdict(list)
    trace = Trace(rows)
    for found in inefficient(rows, threshold=threshold, least_size=least_size):
        begin, end = _time(trace, trace.blocks[found.block], found.kind)
        times[found.block].append((begin, end))
    return times


def _time(trace: Trace, block: Block, kind: str) -> tuple[int, int]:
    if kind == "early_allocation":
        first_use = trace.first_use_elsewhere(block)
        assert first_use is not None
        if trace.is_computed(block):
            return block.malloc.sequence, block.malloc.sequence
        return block.malloc.sequence, trace.begin_of(first_use)
    if kind == "late_deallocation":
        assert block.free is not None
        return trace.finish_of(block.accesses[-1]), block.free.sequence
    first, second = _longest_pause(trace, block)
    return trace.finish_of(first), trace.begin_of(second)


def _longest_pause(trace: Trace, block: Block) -> tuple[Row, Row]:
    pairs = list(pairwise(block.accesses))
    return max(pairs, key=lambda pair: len(trace.between(pair[0], pair[1], block.malloc.device)))


def _of_block(trace: Trace, identity: int, block: Block, threshold: int) -> list[Found]:
    device = block.malloc.device
    others = [other for other in trace.pool(block) if other is not block]
    found = []

    def add(kind: str, between: list[Operator]) -> None:
        begin, end = _time(trace, block, kind)
        found.append(Found(kind, identity, len(between), trace.saved(block, begin, end) if begin < end else 0))

    if not block.accesses:
        return []
    first_use = trace.first_use_elsewhere(block)
    if not block.malloc.is_shadow and first_use is not None:
        frees = [other.free for other in others if other.free] + [
            row for row in trace.strays if (row.device, row.pool) == (device, block.malloc.pool)
        ]
        numbers = [trace.number(row) for row in frees if not row.is_shadow]
        if any(trace.number(block.malloc) < number < trace.number(first_use) for number in numbers):
            add("early_allocation", trace.between(block.malloc, first_use, device))
    if block.free is not None and not block.free.is_shadow:
        numbers = [trace.number(other.malloc) for other in others if not other.malloc.is_shadow]
        if any(trace.number(block.accesses[-1]) < number < trace.number(block.free) for number in numbers):
            add("late_deallocation", trace.between(block.accesses[-1], block.free, device))
    if len(block.accesses) > 1:
        first, second = _longest_pause(trace, block)
        between = trace.between(first, second, device)
        if len(between) > threshold:
            add("temporary_idleness", between)
    return found


def patterns(rows: list[Row]) -> set[Found]:
    """Every pattern that concerns one block."""
    trace = Trace(rows)
    found = set()
    for identity, block in trace.blocks.items():
        malloc, free = block.malloc, block.free
        if malloc.is_shadow or malloc.pool in {Pool.NONE, Pool.HAL, Pool.PTA_WORKSPACE}:
            continue
        end = free or Row(END_OF_TIME, EventKind.NONE, -1)
        candidates = []
        is_pool_accessed = any(other.accesses for other in trace.pool(block))
        if not block.accesses and is_pool_accessed and not (free and free.is_shadow):
            candidates.append(("unused_allocation", malloc, end, malloc.sequence))
        if block.accesses and block.accesses[-1].kind == EventKind.ACCESS_WRITE and free and not free.is_shadow:
            reads = [row for row in block.accesses if row.kind != EventKind.ACCESS_WRITE]
            start = reads[-1] if reads else malloc
            candidates.append(("dead_write", start, end, trace.finish_of(start) if reads else malloc.sequence))
        serving = [other.free for other in trace.pool(block) if _could_serve(trace, other, malloc)]
        if serving:
            latest = max((row for row in serving if row is not None), key=lambda row: row.sequence)
            until = latest if latest.sequence < end.sequence else end
            candidates.append(("redundant_allocation", malloc, until, malloc.sequence))
        for kind, first, last, begin in candidates:
            between = trace.between(first, last, malloc.device)
            if between:
                saved = trace.saved(block, begin, last.sequence) if begin < last.sequence else 0
                found.add(Found(kind, identity, len(between), saved))
    return found


def _could_serve(trace: Trace, other: Block, malloc: Row) -> bool:
    """Whether a block is dead and not freed when another of its size is allocated."""
    if not other.accesses or other.free is None or other.free.is_shadow or other.malloc.size != malloc.size:
        return False
    return trace.finish_of(other.accesses[-1]) < malloc.sequence < other.free.sequence


def churn(rows: list[Row], *, short_life: int, least: int) -> dict[tuple[int, int, int, int], tuple[int, int, int]]:
    """For each device, pool, size and allocating operator: repetitions, and the first and last block that is one."""
    trace = Trace(rows)
    lives = defaultdict(list)
    for block in trace.blocks.values():
        malloc, free = block.malloc, block.free
        if malloc.is_shadow or malloc.pool in {Pool.NONE, Pool.HAL, Pool.PTA_WORKSPACE}:
            continue
        if free and not free.is_shadow and len(trace.between(malloc, free, malloc.device)) <= short_life:
            lives[malloc.device, malloc.pool, malloc.size, malloc.name].append(block)
    found = {}
    for key, blocks in lives.items():
        repeated = []
        for before, after in pairwise(blocks):
            assert before.free is not None
            if before.free.sequence < after.malloc.sequence:
                between = trace.between(before.free, after.malloc, key[0])
                if len(between) <= short_life:
                    repeated.append(after.malloc.sequence)
        if len(repeated) >= least:
            found[key] = (len(repeated), repeated[0], repeated[-1])
    return found
