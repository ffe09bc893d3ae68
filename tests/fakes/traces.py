"""Makes data sets event by event, without a program and without files."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from msmemscope.formats.attributes import table_of_texts
from msmemscope.model.devices import DEVICE_NONE
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, RECORDING_BLOCK_SCHEMA, STRING_SCHEMA, Recording, build_blocks

START_NS = 1_700_000_000_000_000_000
EVENT_NS = 1_000_000
"""Time between two events."""
_PAGE = 512


@dataclass
class Trace:
    """The events of a process, in their order."""

    rows: list[dict[str, int]] = field(default_factory=list)
    _texts: dict[str, int] = field(default_factory=dict)
    _python_stacks: dict[str, int] = field(default_factory=dict)
    _native_stacks: dict[str, int] = field(default_factory=dict)
    _steps: int = 0
    _ranges: int = 0
    _next_address: int = 0x12C0_0000_0000

    def add(self, kind: EventKind, **fields: int) -> int:
        """Appends an event and returns its sequence number."""
        sequence = len(self.rows) + 1
        given = {"thread_id": 100, "device": 0, **fields}
        self.rows.append(
            {"sequence": sequence, "timestamp_ns": START_NS + EVENT_NS * sequence, "kind": int(kind), **given}
        )
        return sequence

    def malloc(
        self,
        size: int,
        site: str = "",
        *,
        operator: str = "",
        native: str = "",
        attributes: str = "",
        pool: Pool = Pool.PTA,
        **fields: int,
    ) -> int:
        """Appends the allocation of a block and returns its number.

        Args:
            size: The bytes of the block.
            site: Its Python stack, one `file(line): function` per line, innermost first; empty for none.
            operator: The outermost operator; empty for none.
            native: Its native stack, in the same form.
            attributes: The text of its attributes.
            pool: Its pool.
            fields: Further columns of the event. If no address is given, one is made up.
        """
        if "address" not in fields:
            # No address is used twice, and those of different pools lie far apart.
            fields["address"] = self._next_address + (int(pool) << 44)
            self._next_address += -(-size // _PAGE) * _PAGE
        return self.add(
            EventKind.MALLOC,
            size=size,
            pool=int(pool),
            name_id=self.text(operator),
            attribute_id=self.text(attributes),
            python_stack_id=_identity(self._python_stacks, f"{site}\n" if site else ""),
            native_stack_id=_identity(self._native_stacks, f"{native}\n" if native else ""),
            **fields,
        )

    def free(self, block: int, **fields: int) -> None:
        """Appends the free of a block; fields: further columns of the event."""
        row = self.rows[block - 1]
        copied = {name: row[name] for name in ("size", "pool", "device", "address")}
        self.add(EventKind.FREE, extra=block, **copied, **fields)

    def sample(self, size: int, site: str, *, native: str = "", function: str = "malloc", block: int = 1) -> int:
        """Appends a sample of host memory that stands for so many bytes, and returns its number; block: its own bytes."""
        return self.add(
            EventKind.HOST_SAMPLE,
            size=block,
            extra=size,
            device=DEVICE_NONE,
            name_id=self.text(function),
            python_stack_id=_identity(self._python_stacks, f"{site}\n"),
            native_stack_id=_identity(self._native_stacks, f"{native}\n" if native else ""),
        )

    def free_sample(self, sample: int, *, in_memory: int | None = None) -> None:
        """Appends the end of a sample; in_memory: the bytes of its block that were, by default all."""
        size = self.rows[sample - 1]["size"] if in_memory is None else in_memory
        self.add(EventKind.HOST_SAMPLE_FREE, extra=sample, size=size, device=DEVICE_NONE)

    def holder(self, block: int, chain: str) -> None:
        """Notes what of the program refers to a block."""
        row = self.rows[block - 1]
        copied = {name: row[name] for name in ("size", "pool", "device", "address")}
        self.add(EventKind.HOLDER, extra=block, name_id=self.text(chain), **copied)

    def step(self, **fields: int) -> None:
        """Ends a step as `msmemscope.step()` does."""
        self._steps += 1
        self.add(EventKind.STEP, size=self._steps, **fields)

    def begin_range(self, text: str = "step start", **fields: int) -> int:
        """Begins a range of mstx and returns its id."""
        self._ranges += 1
        self.add(EventKind.RANGE_START, name_id=self.text(text), extra=self._ranges, **fields)
        return self._ranges

    def end_range(self, number: int, **fields: int) -> None:
        """Ends a range."""
        self.add(EventKind.RANGE_END, extra=number, **fields)

    def mark(self, text: str, **fields: int) -> int:
        """Makes a mark."""
        return self.add(EventKind.MARK, name_id=self.text(text), **fields)

    def text(self, text: str) -> int:
        """Returns the id of a text, 0 for the empty one."""
        return _identity(self._texts, text)

    def recording(self) -> Recording:
        """Returns the data set of what was added so far."""
        columns = {name: [row.get(name, 0) for row in self.rows] for name in EVENT_SCHEMA.names()}
        events = pl.DataFrame(columns, schema=EVENT_SCHEMA)
        strings = _table(self._texts)
        blocks = build_blocks(events, strings).with_columns(owner=pl.lit(None, dtype=pl.String))
        return Recording(
            source="trace",
            form="event log",
            process_id=4242,
            events=events,
            blocks=blocks.select(RECORDING_BLOCK_SCHEMA.names()),
            strings=strings,
            python_stacks=_table(self._python_stacks),
            native_stacks=_table(self._native_stacks),
            coverage=(),
            problems=(),
            attributes=table_of_texts(strings),
        )


def _identity(texts: dict[str, int], text: str) -> int:
    return texts.setdefault(text, len(texts) + 1) if text else 0


def _table(texts: dict[str, int]) -> pl.DataFrame:
    return pl.DataFrame({"id": list(texts.values()), "text": list(texts)}, schema=STRING_SCHEMA)
