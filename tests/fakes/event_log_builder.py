"""Writes event logs without an observed process, valid ones and damaged ones.

Built from `struct` alone, with its own copy of the layout: a mistake in the
reader's `layout.py` cannot hide here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MALLOC, FREE, READ, WRITE = 1, 2, 3, 4
ATEN_START, ATEN_END, MARK, STEP, RESERVED, DEVICE_USAGE, FUNCTION_CALL = 10, 11, 30, 44, 51, 52, 60
HAL, HOST, PTA, PTA_WORKSPACE, ATB, MIND_SPORE = 1, 2, 3, 4, 5, 6
CPU, NO_DEVICE = -2, -1
STATE_OPEN, STATE_CLOSED = 1, 2
OWNER = 53
SHADOW, BACKWARD, RECOMPUTED = 1, 8, 64

_DATA_OFFSET = 4096
_BLOCKS_OFFSET = _DATA_OFFSET + (1 << 18)
_BLOCK_HEADER = "IIIIQQ"
_RECORD = "QQQqIBBBBIIIIQ"
_FIRST_VERSION_WITH_KINDS = 5
_SEGMENT_HEADER = "QQII40x"
_PROCESS_HEADER = "QQIIIIIIQQQQIIQQQQQQQQQ"
_BYTE_ORDER_MARK = 0x0102030405060708
_COMMIT = 0x4645444D
_FIRST_IDS = {"attributes": 1 << 20}
_MAGICS = {"process": b"MSMSCOPE", "events": b"MSEVENTS", "kept": b"MSEVENTS", "definitions": b"MSDEFINE"}

START_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Event:
    """One record; the defaults are those of an event that is about nothing."""

    sequence: int
    kind: int
    timestamp_ns: int = 0
    address: int = 0
    size: int = 0
    thread_id: int = 100
    device: int = CPU
    pool: int = 0
    flags: int = 0
    name_id: int = 0
    attribute_id: int = 0
    python_stack_id: int = 0
    native_stack_id: int = 0
    extra: int = 0


@dataclass
class EventLogBuilder:
    """Collects events and definitions, and writes them as the directory of one process."""

    root: Path
    process_id: int = 4242
    big_endian: bool = False
    format_version: int = 6
    state: int = STATE_CLOSED
    header_fields: dict[str, int] = field(default_factory=dict)
    """Fields of the process header other than the ones above, by name."""
    events: dict[int, list[Event | bytes]] = field(default_factory=dict)
    """Segment number to its slots; bytes are written as they are, 64 of them."""
    kept: dict[int, list[Event | bytes]] = field(default_factory=dict)
    segment_bytes: int = 1 << 16
    """Chunks are allocated whole: what is not used yet reads as zeros, up to here."""
    tail_records: int | None = None
    """If given, segments of events are packed: so many records are a block, and the rest is the tail."""
    is_cut_off_between: bool = False
    """Of packed segments whose records are whole blocks: the last one was written, and the tail not cleared yet."""
    _definitions: dict[int, list[bytes]] = field(default_factory=dict)
    _ids: dict[str, int] = field(default_factory=dict)
    _strings: dict[str, int] = field(default_factory=dict)
    _last_sequence: int = 0

    @property
    def directory(self) -> Path:
        """The directory of the process."""
        return self.root / f"msmemscope_{self.process_id}_20240101120000_ascend"

    @property
    def log(self) -> Path:
        """The event log in it."""
        return self.directory / "event_log"

    def add(self, kind: int, *, segment: int = 0, sequence: int | None = None, **fields: int) -> int:
        """Appends an event with the next sequence number, and returns that number."""
        number = self._last_sequence + 1 if sequence is None else sequence
        self._last_sequence = max(self._last_sequence, number)
        fields.setdefault("timestamp_ns", START_NS + 1000 * number)
        self.events.setdefault(segment, []).append(Event(number, kind, **fields))
        return number

    def malloc(self, address: int, size: int, *, pool: int = HOST, segment: int = 0, **fields: int) -> int:
        """Appends the allocation of a block."""
        return self.add(MALLOC, address=address, size=size, pool=pool, segment=segment, **fields)

    def free(self, malloc: int, address: int, size: int, *, pool: int = HOST, segment: int = 0, **fields: int) -> int:
        """Appends the free of a block; `malloc` is the number of its allocation."""
        return self.add(FREE, address=address, size=size, pool=pool, extra=malloc, segment=segment, **fields)

    def access(self, malloc: int, address: int, *, kind: int = READ, pool: int = HOST, **fields: int) -> int:
        """Appends the use of a block by an operator; `malloc` is the number of its allocation."""
        return self.add(kind, address=address, size=8, pool=pool, extra=malloc, **fields)

    def labels(self, *lines: str) -> int:
        """Defines a set of labels, each a digit and the label, and returns the id of its text."""
        return self.string("\n".join(lines))

    def owner(self, malloc: int, *lines: str, pool: int = HOST, **fields: int) -> int:
        """Appends that a block was given labels; `malloc` is the number of its allocation."""
        return self.add(OWNER, extra=malloc, attribute_id=self.labels(*lines), pool=pool, **fields)

    def zero_slots(self, count: int, *, segment: int = 0) -> None:
        """Appends slots that were reserved and never committed."""
        self.events.setdefault(segment, []).extend([bytes(64)] * count)

    def torn(self, *, segment: int = 0, **fields: int) -> None:
        """Appends a record without its commit marker."""
        self.events.setdefault(segment, []).append(self.record(Event(0, MALLOC, **fields)))

    def string(self, text: str, *, segment: int = 0) -> int:
        """Defines a string, once, and returns its id."""
        if text not in self._strings:
            self._strings[text] = self.define(1, text.encode(), family="string", segment=segment)
        return self._strings[text]

    def attributes(self, *pairs: tuple[int, int | str]) -> int:
        """Defines attributes, (key, value) each, and returns their id, which is that of no string."""
        content = b"".join(
            self._pack("HHIQ", key, *((2, 0, self.string(value)) if isinstance(value, str) else (1, 0, value)))
            for key, value in pairs
        )
        return self.define(7, content, family="attributes")

    def code(self, file: str, name: str, first_line: int, table: bytes = b"", table_format: int = 0) -> int:
        """Defines a code object."""
        fixed = self._pack("6I", self.string(file), self.string(name), first_line, table_format, len(table), 0)
        return self.define(2, fixed + table, family="code")

    def python_stack(self, *frames: tuple[int, int]) -> int:
        """Defines a Python stack of (code id, instruction offset), innermost first."""
        return self.define(3, b"".join(self._pack("II", *frame) for frame in frames), family="python_stack")

    def native_stack(self, *addresses: int) -> int:
        """Defines a native stack of return addresses, innermost first."""
        return self.define(4, self._pack(f"{len(addresses)}Q", *addresses), family="native_stack")

    def module(self, path: str, start: int, end: int, *, load_bias: int, build_id: bytes = b"", seen: int = 1) -> None:
        """Notes a mapped file."""
        raw_path = path.encode()
        fixed = self._pack("4Q2I", load_bias, start, end, seen, len(build_id), len(raw_path))
        self.define(5, fixed + build_id + raw_path, family=None)

    def fact(self, key: str, value: str) -> None:
        """Notes a fact."""
        self.define(6, f"{key}={value}".encode(), family=None)

    def define(self, kind: int, payload: bytes, *, family: str | None, segment: int = 0) -> int:
        """Appends a definition entry and returns its id."""
        identity = 0
        if family is not None:
            identity = self._ids[family] = self._ids.get(family, _FIRST_IDS.get(family, 0)) + 1
        header = self._pack("IHHII", _COMMIT, kind, 0, identity, len(payload))
        self.raw_definition(header + payload + bytes(-len(payload) % 8), segment=segment)
        return identity

    def raw_definition(self, content: bytes, *, segment: int = 0) -> None:
        """Appends bytes to a definition segment as they are."""
        self._definitions.setdefault(segment, []).append(content)

    def record(self, event: Event) -> bytes:
        """Returns the 64 bytes of an event."""
        device = event.device & (0xFFFF if self.format_version >= _FIRST_VERSION_WITH_KINDS else 0xFF)
        return self._pack(
            _RECORD,
            event.sequence,
            event.timestamp_ns,
            event.address,
            event.size,
            event.thread_id | (device >> 8) << 24,
            device & 0xFF,
            event.kind,
            event.pool,
            event.flags,
            event.name_id,
            event.attribute_id,
            event.python_stack_id,
            event.native_stack_id,
            event.extra,
        )

    def write(self, *, header: bool = True) -> Path:
        """Writes all files.

        Args:
            header: False leaves `process.header` out, as a process does that is killed right at its start.

        Returns:
            The directory of the process.
        """
        self.log.mkdir(parents=True, exist_ok=True)
        for name, content in self.contents(header=header).items():
            (self.log / name).write_bytes(content)
        return self.directory

    def contents(self, *, header: bool = True) -> dict[str, bytes]:
        """Returns the files that `write` writes, by their names in the event log."""
        files = {"process.header": self._process_header().ljust(_DATA_OFFSET, b"\0")} if header else {}
        for family, segments in (("events", self.events), ("kept", self.kept)):
            for number, slots in segments.items():
                content = b"".join(slot if isinstance(slot, bytes) else self.record(slot) for slot in slots)
                is_packed = family == "events" and self.tail_records is not None
                segment = self._packed_segment(number, slots) if is_packed else self._segment(family, number, content)
                files[f"{family}_{number}.segment"] = segment
        for number, entries in self._definitions.items():
            files[f"definitions_{number}.segment"] = self._segment("definitions", number, b"".join(entries))
        return files

    def _segment(self, family: str, number: int, content: bytes) -> bytes:
        fields = (self._magic(family), _BYTE_ORDER_MARK, self.format_version, number)
        header = self._pack(_SEGMENT_HEADER, *fields).ljust(_DATA_OFFSET, b"\0")
        return (header + content).ljust(self.segment_bytes, b"\0")

    def _packed_segment(self, number: int, slots: list[Event | bytes]) -> bytes:
        from msmemscope import _native

        size = self.tail_records
        assert size is not None
        records = [self.record(slot) if isinstance(slot, Event) else slot for slot in slots]
        blocks, position = bytearray(), 0
        while position + size <= len(records):
            unpacked = b"".join(records[position : position + size])
            if self.big_endian:
                unpacked = struct.pack("<" + _RECORD * size, *struct.unpack(">" + _RECORD * size, unpacked))
            block = _native.pack_block(unpacked, position)
            header = self._pack(_BLOCK_HEADER, *struct.unpack_from("<" + _BLOCK_HEADER, block))
            before = len(blocks)
            blocks += header + block[len(header) :]
            position += size
        tail = records[position:]
        tail_position = _BLOCKS_OFFSET + len(blocks)
        if self.is_cut_off_between and not tail and blocks:
            tail, tail_position = records[-size:], _BLOCKS_OFFSET + before
        fields = (int.from_bytes(b"MSPACKED", "little"), _BYTE_ORDER_MARK, 8, number, tail_position, size * 64)
        content = self._pack("QQIIQQ24x", *fields).ljust(_DATA_OFFSET, b"\0") + b"".join(tail)
        return content.ljust(_BLOCKS_OFFSET, b"\0") + bytes(blocks)

    def _process_header(self) -> bytes:
        names = (
            "parent_process_id", "start_ns", "end_ns", "process_start_ticks", "session", "failure_errno",
            "python_version_hex", "dropped_reentrant", "dropped_failure", "dropped_recycled", "lost_definitions",
            "untracked_blocks", "tool_memory_bytes", "tool_memory_limit_bytes", "maximum_log_bytes", "log_bytes",
        )  # fmt: skip
        assert set(self.header_fields) <= set(names)
        values = {"parent_process_id": 1, "start_ns": START_NS, **self.header_fields}
        return self._pack(
            _PROCESS_HEADER,
            self._magic("process"),
            _BYTE_ORDER_MARK,
            self.format_version,
            152,
            64,
            self.state,
            self.process_id,
            *(values.get(name, 0) for name in names),
        )

    def _magic(self, family: str) -> int:
        return int.from_bytes(_MAGICS[family], "little")

    def _pack(self, layout: str, *values: int) -> bytes:
        return struct.pack((">" if self.big_endian else "<") + layout, *values)
