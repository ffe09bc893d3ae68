"""Random traces of operators, allocations, accesses and frees, and data sets made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import polars as pl
from hypothesis import strategies as st

from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, RECORDING_BLOCK_SCHEMA, STRING_SCHEMA, Recording, build_blocks
from tests.support.inefficient_oracle import Row

STRINGS: Mapping[int, str] = {1: "aten.add", 2: "aten.mm", 3: "aten.relu", 4: "aten.copy_"}


def data_set(
    rows: list[Row], stacks: Mapping[int, str] | None = None, stack_of: Mapping[int, int] | None = None
) -> Recording:
    """The tables of some events.

    Args:
        rows: In sequence order.
        stacks: Python stacks by id.
        stack_of: Python stack id of events, by sequence.
    """
    stack_of = stack_of or {}
    columns = {name: [0] * len(rows) for name in EVENT_SCHEMA.names()} | {
        "sequence": [row.sequence for row in rows],
        "timestamp_ns": [1_000 * row.sequence for row in rows],
        "thread_id": [row.thread for row in rows],
        "device": [row.device for row in rows],
        "kind": [int(row.kind) for row in rows],
        "pool": [int(row.pool) for row in rows],
        "flags": [int(EventFlag.SHADOW) if row.is_shadow else 0 for row in rows],
        "address": [0x1000 * (row.block or row.sequence) for row in rows],
        "size": [row.size for row in rows],
        "name_id": [row.name for row in rows],
        "python_stack_id": [stack_of.get(row.sequence, 0) for row in rows],
        "extra": [row.block for row in rows],
    }
    events = pl.DataFrame(columns, schema=EVENT_SCHEMA)
    strings = _texts(STRINGS)
    blocks = (
        build_blocks(events, strings).with_columns(owner=pl.lit(None, pl.String)).select(RECORDING_BLOCK_SCHEMA.names())
    )
    return Recording("trace", "event log", 7, events, blocks, strings, _texts(stacks or {}), _texts({}), (), ())


def _texts(texts: Mapping[int, str]) -> pl.DataFrame:
    return pl.DataFrame({"id": list(texts), "text": list(texts.values())}, schema=STRING_SCHEMA)


class _Maker:
    """Appends events as a program with a few threads makes them."""

    def __init__(self, random: Random, *, threads: int, fault_rate: float) -> None:
        self.rows: list[Row] = []
        self._random = random
        self._fault_rate = fault_rate
        self._open: dict[int, list[tuple[int, int, int]]] = {11 + number: [] for number in range(threads)}
        self._alive: list[Row] = []

    def event(self) -> None:
        random = self._random
        thread = random.choice([*self._open])
        action = random.choice(["begin", "begin", "end", "end", "malloc", "malloc", "access", "access", "free"])
        if action == "begin":
            kind = random.choice([EventKind.ATEN_START, EventKind.ATEN_START, EventKind.ATB_START])
            name, device = random.randint(1, 4), self._device()
            self._add(kind, thread, name=name, device=device, pool=Pool.NONE)
            self._open[thread].append((kind, name, device))
        elif action == "end":
            self._end(thread)
        elif action == "malloc" or not self._alive:
            # As the recorder has it: the name of the outermost operator.
            name = self._open[thread][0][1] if self._open[thread] else 0
            block = self._add(
                EventKind.MALLOC,
                thread,
                name=name,
                size=random.randint(0, 6) * 10,
                device=self._device(),
                pool=random.choice([Pool.PTA, Pool.PTA, Pool.PTA, Pool.ATB, Pool.HAL]),
                is_shadow=self._fails(),
            )
            self._alive.append(block)
        else:
            self._use(thread, action)

    def _end(self, thread: int) -> None:
        """Mostly that of the innermost operator; it may be missing, or belong to an operator that was not seen."""
        begun = self._open[thread]
        if begun and not self._fails():
            kind, name, device = begun.pop()
            self._add(EventKind(kind + 1), thread, name=name, device=device, pool=Pool.NONE)
        elif begun and self._random.random() < 1 / 2:
            begun.pop()
        elif self._fails():
            kind = self._random.choice([EventKind.ATEN_END, EventKind.ATB_END])
            self._add(kind, thread, name=self._random.randint(1, 4), pool=Pool.NONE)

    def _use(self, thread: int, action: str) -> None:
        block = self._random.choice(self._alive)
        # Sometimes one that was never seen.
        identity = 0 if self._fails() else block.sequence
        fields: dict[str, Any] = {"device": block.device, "pool": block.pool, "block": identity}
        if action == "access":
            kinds = [EventKind.ACCESS_READ, EventKind.ACCESS_WRITE, EventKind.ACCESS_WRITE, EventKind.ACCESS_UNKNOWN]
            self._add(self._random.choice(kinds), thread, **fields)
            return
        if identity:
            self._alive.remove(block)
        self._add(EventKind.FREE, thread, size=block.size, is_shadow=self._fails(), **fields)

    def _add(self, kind: EventKind, thread: int, **fields: Any) -> Row:
        row = Row(len(self.rows) * 3 + 1, kind, thread, **fields)
        self.rows.append(row)
        return row

    def _device(self) -> int:
        return self._random.choice([0, 0, 0, 0, 1, -2])

    def _fails(self) -> bool:
        return self._random.random() < self._fault_rate


@st.composite
def traces(draw: st.DrawFn, most: int = 60) -> list[Row]:
    """Events of several threads, devices and pools; in some, ends, allocations or moments are missing."""
    # One number instead of one per choice: ten times as many traces in the same time.
    random = Random(draw(st.integers(0, 1 << 32)))  # noqa: S311 - not for secrets
    maker = _Maker(random, threads=draw(st.integers(1, 3)), fault_rate=draw(st.sampled_from([0, 0.05, 0.25])))
    for _ in range(draw(st.integers(0, most))):
        maker.event()
    return maker.rows


class Program:
    """A trace written down call by call, as one thread makes it."""

    def __init__(self, thread: int = 11, rows: list[Row] | None = None) -> None:
        """Begin with nothing, or go on with the events of another thread."""
        self.rows: list[Row] = [] if rows is None else rows
        self._thread = thread
        self._stacks: dict[int, str] = {}
        self._stack_of: dict[int, int] = {}

    def add(self, kind: EventKind, **fields: Any) -> int:
        """Append an event and return its sequence number."""
        self.rows.append(Row(len(self.rows) + 1, kind, self._thread, **fields))
        return len(self.rows)

    @contextmanager
    def operator(self, name: int = 1, device: int = 0, kind: EventKind = EventKind.ATEN_START) -> Iterator[None]:
        """Puts the events of the block inside of an operator."""
        self.add(kind, name=name, device=device, pool=Pool.NONE)
        yield
        self.add(EventKind(kind + 1), name=name, device=device, pool=Pool.NONE)

    def whole_operator(self, count: int = 1, **fields: Any) -> None:
        """Append operators that do nothing with memory."""
        for _ in range(count):
            with self.operator(**fields):
                pass

    def stack(self, text: str) -> int:
        """Define a Python stack and return its id."""
        self._stacks[len(self._stacks) + 1] = text
        return len(self._stacks)

    def malloc(self, size: int = 512, stack: int = 0, **fields: Any) -> int:
        """Append an allocation and return the block."""
        block = self.add(EventKind.MALLOC, size=size, **fields)
        self._stack_of[block] = stack
        return block

    def read(self, block: int) -> int:
        """Append a read."""
        return self._of(EventKind.ACCESS_READ, block)

    def write(self, block: int) -> int:
        """Append a write."""
        return self._of(EventKind.ACCESS_WRITE, block)

    def free(self, block: int, **fields: Any) -> int:
        """Append a free."""
        return self._of(EventKind.FREE, block, **fields)

    def data_set(self) -> Recording:
        """The tables, with stacks."""
        return data_set(self.rows, self._stacks, self._stack_of)

    def _of(self, kind: EventKind, block: int, **fields: Any) -> int:
        malloc = self.rows[block - 1]
        return self.add(kind, block=block, device=malloc.device, pool=malloc.pool, size=malloc.size, **fields)
