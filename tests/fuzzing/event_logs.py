"""Event logs: random runs with odd values in them, and files with damage."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.model.attributes import AttributeKey
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.event_log_builder import EventLogBuilder
from tests.fuzzing import values

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

RECORD_BYTES: Final = 64
DATA_OFFSET: Final = 4096
_FIELDS: Final = (
    (0, 8), (8, 8), (16, 8), (24, 8), (32, 4), (36, 1), (37, 1), (38, 1), (39, 1), (40, 4), (44, 4), (48, 4), (52, 4), (56, 8),
)  # fmt: skip
"""Offset and bytes of the fields of a record (native/FORMAT.md)."""

_KINDS: Final = tuple(int(kind) for kind in EventKind)
_POOLS: Final = (*(int(pool) for pool in Pool), 99)
_DEVICES: Final = (0, 0, 0, 1, -2, -2, -1, 7, 127, -128)
_LABELS: Final = ("5label", "0model\n1weight", "1gradient", "2profile", "x", "", "9", "5a@b,c:d")
_WATCH_KEYS: Final = (
    "watch", "id", "output", "content", "reason", "when", "operator", "call", "source", "previous", "previous_call", "exact",
    "beside", "concurrent", "writer", "writer_call", "before", "after", "changed_bytes", "first", "last", "ranges",
    "granularity", "neighbour", "neighbour_address", "neighbour_size", "written_neighbour", "neighbour_first",
    "more_blocks", "more_until", "trained",
)  # fmt: skip
_WATCH_VALUES: Final = (
    "tensor", "address", "window", "auto", "full", "light", "freed", "during", "between", "aten", "atb", "kernel", "0", "1", "2",
    "64", "0-63,128-191", "0-63,...", "00000000000000ff", "torch._ops.aten.add.Tensor",
)  # fmt: skip
_SNAPSHOT_TEXTS: Final = (
    "free:10,total:20", "reserved:1,allocated:5", "func:halMemAlloc,req_size:64,flag:3", "free:-1", "free:x", "req_size:9" + "9" * 30,
    "dtype:torch.float32,shape:torch.Size([32, 10])", "shape:torch.Size([])", "pinned:true",
    "CANN@RUNTIME,page_type:huge,alloc_type:alloc", "page_type:x", "path:0_1/0_Graph,workspace_ptr:0x12,workspace_size:5",
)  # fmt: skip
_SETTINGS: Final = {
    "setting.output": "out", "setting.analysis": "leaks,inefficient,decompose,oom", "setting.data_format": "csv",
    "setting.devices": "cpu,npu", "setting.python_stack": "1", "setting.native_stack": "1", "setting.steps": "",
    "setting.events": "alloc,free,launch,access,traceback", "setting.oom_top": "3", "argument": "python", "executable": "python3",
    "observed.hal": "/usr/lib/libascend_hal.so", "unobserved.atb": "too old", "message": "a message",
    "watch.coverage": "looked at 5 of 6 blocks", "watch.window_never_began": "add", "watch.files_ended": "1024,No space left",
    "setting.watch": "add,mul", "setting.utc_offset": "3600",
}  # fmt: skip


def random_run(rng: random.Random) -> dict[str, bytes]:
    """The event log of a run that nobody made: events in an order that is mostly right, here and there an odd value."""
    builder = EventLogBuilder(
        Path(),
        process_id=rng.choice((4242, 4242, 4242, 0, values.bits(rng, 32))),
        big_endian=rng.random() < 0.05,
        format_version=rng.choice((1, 2, 3, 4, 5, 6, 6)),
        state=rng.choice((1, 2, 2, 3)),
        segment_bytes=0,
        tail_records=rng.choice((None, None, 1, 4, 30)),
        is_cut_off_between=rng.random() < 0.3,
        header_fields={name: values.bits(rng, size) for name, size in _HEADER_FIELDS if rng.random() < 0.05},
    )
    _Run(rng, builder, oddity=rng.choice((0.0, 0.02, 0.1, 0.4))).record(rng.choice((3, 10, 40, 120)))
    files = builder.contents()
    return _some_damaged(rng, files) if rng.random() < 0.3 else files


_HEADER_FIELDS: Final = (
    ("start_ns", 64), ("end_ns", 64), ("process_start_ticks", 64), ("session", 64), ("failure_errno", 32),
    ("python_version_hex", 32), ("dropped_reentrant", 64), ("dropped_failure", 64), ("dropped_recycled", 64),
    ("lost_definitions", 64), ("untracked_blocks", 64), ("tool_memory_bytes", 64), ("tool_memory_limit_bytes", 64),
    ("maximum_log_bytes", 64), ("log_bytes", 64),
)  # fmt: skip


class _Run:
    """Makes up events.

    Args:
        rng: Where chance comes from.
        builder: Gets the events.
        oddity: Chance that a value is an odd one.
    """

    def __init__(self, rng: random.Random, builder: EventLogBuilder, *, oddity: float) -> None:
        self._rng = rng
        self._builder = builder
        self._oddity = oddity
        self._alive: list[tuple[int, dict[str, int]]] = []
        self._ranges = 0
        self._steps = 0
        self._sequence = 0
        self._time_ns = 1_700_000_000_000_000_000
        self._names = [builder.string(self._text(rng.choice(values.NAMES))) for _ in range(3)]
        self._python_stacks = [0, *(self._python_stack() for _ in range(2))]
        self._native_stacks = [0, *(self._native_stack() for _ in range(2))]
        self._modules()
        for key, text in _SETTINGS.items():
            if rng.random() < 0.5:
                builder.fact(key, self._text(text))

    def record(self, count: int) -> None:
        """Adds so many events."""
        actions: tuple[Callable[[], object], ...] = (
            self._malloc, self._malloc, self._malloc, self._free, self._free, self._access, self._operator, self._operator,
            self._step, self._range, self._total, self._owner, self._text_event, self._watch, self._call, self._kernel,
            self._out_of_memory, self._anything,
        )  # fmt: skip
        chosen = self._rng.sample(actions, self._rng.randrange(1, len(actions) + 1))
        for _ in range(count):
            self._rng.choice(chosen)()

    def _odd(self) -> bool:
        return self._rng.random() < self._oddity

    def _text(self, usual: str) -> str:
        return values.text(self._rng) if self._odd() else usual

    def _add(self, kind: int, **fields: int) -> int:
        rng = self._rng
        self._time_ns += rng.choice((0, 1, 1000, 1_000_000, 1_000_000_000))
        given = {
            "timestamp_ns": self._time_ns, "thread_id": rng.choice((100, 100, 101)), "device": rng.choice(_DEVICES),
            "python_stack_id": rng.choice(self._python_stacks), "native_stack_id": rng.choice(self._native_stacks),
            **fields,
        }  # fmt: skip
        for name, (bits, signed) in _EVENT_FIELDS.items():
            if self._odd() and rng.random() < 0.3:
                given[name] = values.signed(rng, bits) if signed else values.bits(rng, bits)
        segment = rng.choice((0, 0, 0, 1))
        sequence = self._sequence + rng.choice((1, 1, 1, 1, 2, 10))
        if self._odd() and rng.random() < 0.1:
            # Behind it there must be room for the numbers of further events.
            sequence = min(values.bits(rng, 64), (1 << 64) - 10_000)
        self._sequence = max(sequence, self._sequence)
        number = self._builder.add(kind, segment=segment, sequence=sequence, **given)
        if rng.random() < 0.02:
            self._builder.kept.setdefault(0, []).append(self._builder.events[segment][-1])
        return number

    def _malloc(self) -> None:
        rng = self._rng
        fields = {
            "address": rng.randrange(1, 64) * 512, "size": rng.choice((1, 512, 1024, 1 << 20, 2 << 20)),
            "pool": rng.choice(_POOLS), "device": rng.choice(_DEVICES), "flags": rng.choice((0, 0, 0, 1, 8)),
            "name_id": rng.choice((0, *self._names)), "extra": self._labels() if rng.random() < 0.2 else 0,
            "attribute_id": self._attribute() if rng.random() < 0.3 else 0,
        }  # fmt: skip
        number = self._add(EventKind.MALLOC, **fields)
        self._alive.append((number, fields))

    def _free(self) -> None:
        if not self._alive:
            return
        place = self._rng.randrange(len(self._alive))
        number, fields = self._alive[place]
        if self._rng.random() < 0.9:
            del self._alive[place]
        same = {name: fields[name] for name in ("address", "size", "pool", "device")}
        self._add(EventKind.FREE, extra=number, **same)

    def _access(self) -> None:
        number, fields = self._rng.choice(self._alive) if self._alive else (0, {})
        same = {name: fields[name] for name in ("address", "size", "pool", "device") if name in fields}
        kind = self._rng.choice((EventKind.ACCESS_READ, EventKind.ACCESS_WRITE, EventKind.ACCESS_UNKNOWN))
        self._add(kind, extra=number, name_id=self._rng.choice(self._names), attribute_id=self._attribute(), **same)

    def _operator(self) -> None:
        kinds = (EventKind.ATEN_START, EventKind.ATEN_START, EventKind.ATEN_END, EventKind.ATEN_END)
        kind = self._rng.choice((*kinds, EventKind.ATB_START, EventKind.ATB_END))
        self._add(kind, name_id=self._rng.choice(self._names))

    def _step(self) -> None:
        self._steps += 1
        self._add(EventKind.STEP, size=self._steps)

    def _range(self) -> None:
        if self._rng.random() < 0.5:
            self._ranges += 1
            name = self._builder.string(self._text("step start"))
            self._add(EventKind.RANGE_START, name_id=name, extra=self._ranges)
        else:
            self._add(EventKind.RANGE_END, extra=self._rng.randrange(self._ranges + 1))

    def _total(self) -> None:
        size = self._rng.choice((0, 1 << 20, 2 << 20, -1))
        if self._rng.random() < 0.5:
            self._add(EventKind.RESERVED, size=size, pool=self._rng.choice(_POOLS))
        else:
            self._add(EventKind.DEVICE_USAGE, size=size, extra=self._rng.choice((0, 1 << 20, (1 << 64) - 1)))

    def _owner(self) -> None:
        number, fields = self._rng.choice(self._alive) if self._alive else (0, {})
        same = {name: fields[name] for name in ("address", "size", "pool", "device") if name in fields}
        self._add(EventKind.OWNER, extra=number, attribute_id=self._labels(), **same)

    def _text_event(self) -> None:
        kinds = (EventKind.MARK, EventKind.SNAPSHOT, EventKind.START_TRACE, EventKind.STOP_TRACE, EventKind.ACL_INIT)
        name = self._builder.string(self._text(self._rng.choice(("test", "OOM_Snapshot", "OOM_Snapshot After"))))
        self._add(self._rng.choice(kinds), name_id=name, attribute_id=self._attribute())

    def _watch(self) -> None:
        keys = self._rng.sample(_WATCH_KEYS, self._rng.randrange(len(_WATCH_KEYS)))
        lines = [f"{key}={self._text(self._rng.choice(_WATCH_VALUES))}" for key in keys]
        kind = self._rng.choice((EventKind.WATCH, EventKind.WATCH_START, EventKind.WATCH_STOP))
        block = self._rng.choice(self._alive)[0] if self._alive else 0
        attribute = self._typed() if self._is_typed() else self._builder.string("\n".join(lines))
        name = self._rng.choice((0, *self._names))
        flags = self._rng.choice((0, 16, 32))
        self._add(kind, name_id=name, attribute_id=attribute, address=512, size=64, flags=flags, extra=block)

    def _call(self) -> None:
        end_ns = self._time_ns + self._rng.choice((0, 10, 1000))
        name = self._rng.choice((0, *self._names))
        self._add(
            EventKind.FUNCTION_CALL, name_id=name, attribute_id=1, extra=end_ns, flags=self._rng.choice((0, 2, 4))
        )

    def _kernel(self) -> None:
        kinds = (
            EventKind.KERNEL_LAUNCH, EventKind.KERNEL_EXECUTE_START, EventKind.KERNEL_EXECUTE_END, EventKind.KERNEL_START,
            EventKind.KERNEL_END,
        )  # fmt: skip
        self._add(self._rng.choice(kinds), name_id=self._rng.choice(self._names), extra=self._rng.randrange(9) << 32)

    def _out_of_memory(self) -> None:
        most = self._rng.choice((0, 1, 3))
        self._add(EventKind.OOM, extra=most, size=self._rng.choice((0, 1 << 30)), attribute_id=self._attribute())

    def _anything(self) -> None:
        self._add(self._rng.choice((*_KINDS, self._rng.randrange(256))), pool=self._rng.choice(_POOLS))

    def _labels(self) -> int:
        return self._builder.string(self._text(self._rng.choice(_LABELS)))

    def _is_typed(self) -> bool:
        return self._builder.format_version >= 6 and self._rng.random() < 0.8

    def _typed(self) -> int:
        """Attributes of any keys, with values of any kind."""
        keys = (*AttributeKey, 0, 9, 1 << 15)
        texts = (*_WATCH_VALUES, *_SNAPSHOT_TEXTS)
        numbers = (0, 1, 2, 64, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
        return self._builder.attributes(
            *(
                (
                    int(key),
                    self._text(self._rng.choice(texts)) if self._rng.random() < 0.5 else self._rng.choice(numbers),
                )
                for key in self._rng.choices(keys, k=self._rng.randrange(12))
            )
        )

    def _attribute(self) -> int:
        if self._is_typed():
            return self._typed()
        return self._builder.string(self._text(self._rng.choice(_SNAPSHOT_TEXTS)))

    def _python_stack(self) -> int:
        rng = self._rng
        frames = []
        for _ in range(rng.choice((1, 2, 60))):
            table = rng.randbytes(rng.randrange(12)) if rng.random() < 0.5 else b"\x80\x01\xd8"
            line = values.bits(rng, 32) if self._odd() else 7
            code = self._builder.code(self._text("train.py"), self._text("step"), line, table, rng.choice((0, 1, 2, 3)))
            frames.append((code, values.bits(rng, 32) if self._odd() else rng.randrange(8)))
        return self._builder.python_stack(*frames)

    def _native_stack(self) -> int:
        rng = self._rng
        count = rng.choice((0, 1, 3))
        addresses = [values.bits(rng, 64) if self._odd() else 0x1000 + rng.randrange(0x2000) for _ in range(count)]
        return self._builder.native_stack(*addresses)

    def _modules(self) -> None:
        rng = self._rng
        for path in ("/nowhere/lib.so", sys.executable, "[vdso]", "/dev/zero"):
            if rng.random() < 0.5:
                start, end = (values.bits(rng, 64), values.bits(rng, 64)) if self._odd() else (0x1000, 0x3000)
                bias = values.bits(rng, 64) if self._odd() or rng.random() < 0.2 else 0x1000
                build_id = _build_id() if path == sys.executable else b""
                self._builder.module(path, start, end, load_bias=bias, build_id=build_id, seen=rng.randrange(1, 50))


_EVENT_FIELDS: Final = {
    "timestamp_ns": (64, False), "address": (64, False), "size": (64, True), "thread_id": (32, False), "device": (8, True),
    "pool": (8, False), "flags": (8, False), "name_id": (32, False), "attribute_id": (32, False),
    "python_stack_id": (32, False), "native_stack_id": (32, False), "extra": (64, False),
}  # fmt: skip


def _build_id() -> bytes:
    """The build id of the Python that runs this, so that its symbols are believed."""
    from elftools.elf.elffile import ELFFile

    if not _BUILD_ID:
        with Path(sys.executable).open("rb") as file:
            section = ELFFile(file).get_section_by_name(".note.gnu.build-id")
            _BUILD_ID.append(bytes.fromhex(next(section.iter_notes())["n_desc"]) if section else b"")
    return _BUILD_ID[0]


_BUILD_ID: list[bytes] = []


def damaged_log(rng: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """Event logs with damage: fields of records and entries, bytes anywhere, files that are missing or exchanged."""
    changed = _some_damaged(rng, files)
    if rng.random() < 0.05:
        del changed[rng.choice(sorted(changed))]
    if rng.random() < 0.03 and len(changed) > 1:
        one, other = rng.sample(sorted(changed), 2)
        changed[one], changed[other] = changed[other], changed[one]
    return changed


def _some_damaged(rng: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    changed = dict(files)
    names = sorted(changed)
    for _ in range(1 + int(rng.expovariate(1))):
        name = rng.choice(names)
        is_segment = name.endswith(".segment") and len(changed[name]) > DATA_OFFSET
        if not is_segment or rng.random() < 0.15:
            changed[name] = values.damaged(rng, changed[name])
        elif "definitions" in name:
            changed[name] = _damaged_definitions(rng, changed[name])
        else:
            changed[name] = _damaged_records(rng, changed[name])
    return changed


def _damaged_records(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    count = (len(changed) - DATA_OFFSET) // RECORD_BYTES
    for _ in range(1 + int(rng.expovariate(0.5))):
        record = DATA_OFFSET + rng.randrange(max(count, 1)) * RECORD_BYTES
        offset, size = rng.choice(_FIELDS)
        value = values.bits(rng, 8 * size)
        if rng.random() < 0.2:
            other = DATA_OFFSET + rng.randrange(max(count, 1)) * RECORD_BYTES + offset
            value = int.from_bytes(changed[other : other + size], "little")
        changed[record + offset : record + offset + size] = value.to_bytes(size, "little")
    return bytes(changed)


def _damaged_definitions(rng: random.Random, content: bytes) -> bytes:
    entries = _entries(content)
    if not entries:
        return values.damaged(rng, content)
    for _ in range(1 + int(rng.expovariate(0.7))):
        place = rng.randrange(len(entries))
        kind, identity, payload = entries[place]
        choice = rng.random()
        if choice < 0.15:
            kind = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 255, 65535))
        elif choice < 0.3:
            identity = values.bits(rng, 32)
        elif choice < 0.6 and kind in {1, 6}:
            key, equals, _ = payload.partition(b"=") if kind == 6 else (b"", b"", b"")
            payload = key + equals + values.raw_text(rng)
        elif choice < 0.8:
            payload = payload[: len(payload) // 8 * 8]
            words = [*struct.unpack(f"<{len(payload) // 8}Q", payload), 0]
            words[rng.randrange(len(words))] = values.bits(rng, 64)
            payload = struct.pack(f"<{len(words)}Q", *words)
        else:
            payload = values.damaged(rng, payload)
        entries[place] = (kind, identity, payload)
    return content[:DATA_OFFSET] + b"".join(
        struct.pack("<IHHII", 0x4645444D, kind, 0, identity, len(payload)) + payload + bytes(-len(payload) % 8)
        for kind, identity, payload in entries
    )


def _entries(content: bytes) -> list[tuple[int, int, bytes]]:
    entries = []
    place = DATA_OFFSET
    while place + 16 <= len(content):
        commit, kind, _, identity, size = struct.unpack_from("<IHHII", content, place)
        if commit != 0x4645444D or place + 16 + size > len(content):
            break
        entries.append((kind, identity, content[place + 16 : place + 16 + size]))
        place += 16 + size + -size % 8
    return entries
