"""Strings, code objects, stacks, modules and facts of a capture.

Opening a capture only notes where each entry lies. An entry is decoded when it is asked for, since a capture has far
more stacks than anyone looks at.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from msmemscope.formats.event_log.layout import (
    CODE_PAYLOAD,
    DEFINITION_ALIGNMENT,
    DEFINITION_COMMIT,
    DEFINITION_HEADER,
    MODULE_PAYLOAD,
    DefinitionKind,
    struct_format,
)
from msmemscope.formats.event_log.line_tables import line_of_offset
from msmemscope.formats.event_log.segment_file import SegmentFile, read_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN_TEXT: Final = "<unknown>"
"""Stands for an id that is used and was never defined: the process died between the two."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_KINDS: Final = frozenset(int(kind) for kind in DefinitionKind if kind is not DefinitionKind.NONE)
_HEADER_BYTES: Final = DEFINITION_HEADER.itemsize
_FRAME_BYTES: Final = 8
_ADDRESS_BYTES: Final = 8
_DEEPEST_STACK: Final = 1024
"""Frames; no recorder takes more."""
_MOST_MODULES: Final = 1 << 14
"""Modules that addresses are looked up in, the latest ones: no process maps nearly so many."""


@dataclass(frozen=True)
class PythonFrame:
    """One call of a Python stack."""

    file: str
    """Path as the code object has it."""
    line: int
    """Line being executed, or the first line of the function where that is not known."""
    function: str
    """Plain name, as `co_name`."""

    def __str__(self) -> str:
        """Return the form that dumps use."""
        return f"{self.file}({self.line}): {self.function}"


@dataclass(frozen=True)
class CodeObject:
    """A Python function, class body or module."""

    file: str
    name: str
    first_line: int
    line_table_format: int
    line_table: bytes

    def frame_at(self, instruction_offset: int) -> PythonFrame:
        """Return the call that executes the instruction at a bytecode offset in bytes."""
        line = line_of_offset(self.line_table, self.line_table_format, self.first_line, instruction_offset)
        return PythonFrame(self.file, self.first_line if line is None else line, self.name)


_UNKNOWN_CODE: Final = CodeObject(UNKNOWN_TEXT, UNKNOWN_TEXT, 0, 0, b"")


class Module(NamedTuple):
    """A file that was mapped into the observed process."""

    path: str
    build_id: bytes
    """Empty if the file had none."""
    load_bias: int
    """Address minus file address."""
    start: int
    end: int
    """First address behind it."""
    seen_at_sequence: int
    """From this event on; until then something else may have been at the same place."""

    def file_address(self, address: int) -> int:
        """Return where an address of the process is in the file; both have 64 bits, and so has the difference."""
        return (address - self.load_bias) % (1 << 64)


class DefinitionTable:
    """All committed definitions of a capture.

    Args:
        files: The definition segments, in the order of their numbers.
    """

    def __init__(self, files: Sequence[SegmentFile]) -> None:
        self._places: dict[int, dict[int, Payload]] = {kind: {} for kind in _KINDS}
        self._listed: list[tuple[int, Payload]] = []
        for file in files:
            content = b"".join(
                # Pads a hole between two extents, so that offsets stay multiples of 8.
                read_bytes(file, extent.start, extent.end - extent.start).ljust(extent.end - extent.start, b"\0")
                for extent in file.extents
            )
            self._note(content, big_endian=file.big_endian)
        self.strings: Mapping[int, str] = _Strings(self._places[DefinitionKind.STRING])
        self.attributes: Mapping[int, Payload] = self._places[DefinitionKind.ATTRIBUTES]
        """Where sets of typed attributes lie, by their ids: arrays of `layout.ATTRIBUTE`."""
        self._codes: dict[int, CodeObject] = {}
        self.facts = self._read_facts()
        self.modules = self._read_modules()

    def add(self, content: bytes, *, big_endian: bool) -> int:
        """Note further entries: a program that still runs defines more and more.

        Args:
            content: Bytes of a segment, from the end of an entry on.
            big_endian: Byte order of the writer.

        Returns:
            Bytes up to the end of the last entry that was completely written; 0 if there is none.
        """
        listed = len(self._listed)
        end = self._note(content, big_endian=big_endian)
        if len(self._listed) > listed:
            self.facts = self._read_facts()
            self.modules = self._read_modules()
        return end

    @property
    def first_sequence(self) -> int:
        """The smallest number of an event that counts. Nobody may have asked for events that were recorded before."""
        values = self.facts.get("events.from", ())
        return max((int(value) for value in values if _NUMBER.fullmatch(value)), default=0)

    def entries(self, *, big_endian: bool) -> bytes:
        """Return all entries of one byte order, as a segment that holds each once has them."""
        head = struct.Struct(struct_format(DEFINITION_HEADER, big_endian=big_endian))
        content = bytearray()
        named = ((kind, key, entry) for kind in sorted(_KINDS) for key, entry in self._places[kind].items())
        for kind, identity, payload in (*named, *((kind, 0, payload) for kind, payload in self._listed)):
            if payload.big_endian == big_endian:
                content += head.pack(DEFINITION_COMMIT, kind, 0, identity, payload.size) + payload.raw()
                content += bytes(-len(content) % DEFINITION_ALIGNMENT)
        return bytes(content)

    def python_stack_ids(self) -> Sequence[int]:
        """Return the ids of all Python stacks."""
        return tuple(self._places[DefinitionKind.PYTHON_STACK])

    def native_stack_ids(self) -> Sequence[int]:
        """Return the ids of all native stacks."""
        return tuple(self._places[DefinitionKind.NATIVE_STACK])

    def code_ids(self) -> Sequence[int]:
        """Return the ids of all code objects."""
        return tuple(self._places[DefinitionKind.CODE])

    def code(self, code_id: int) -> CodeObject:
        """Return a code object, or one with unknown names if it was never defined."""
        known = self._codes.get(code_id)
        if known is None:
            known = self._codes[code_id] = self._read_code(code_id)
        return known

    def python_stack(self, stack_id: int) -> tuple[tuple[int, int], ...]:
        """Return (code id, instruction offset in bytes) per frame, innermost first; empty if unknown."""
        payload = self._places[DefinitionKind.PYTHON_STACK].get(stack_id)
        if payload is None:
            return ()
        values = payload.integers("I", min(payload.size // _FRAME_BYTES, _DEEPEST_STACK) * 2)
        return tuple(zip(values[::2], values[1::2], strict=True))

    def python_calls(self) -> Sequence[tuple[int, int]]:
        """Return each different frame of all Python stacks, as `python_stack` has them."""
        payloads = self._places[DefinitionKind.PYTHON_STACK].values()
        parts = [np.zeros((0, 2), np.uint32)]
        for payload in payloads:
            count = min(payload.size // _FRAME_BYTES, _DEEPEST_STACK) * 2
            order = ">u4" if payload.big_endian else "<u4"
            parts.append(np.frombuffer(payload.content, order, count, payload.start).reshape(-1, 2))
        pairs: list[list[int]] = np.unique(np.concatenate(parts), axis=0).tolist()
        return [(code_id, offset) for code_id, offset in pairs]

    def native_stack(self, stack_id: int) -> tuple[int, ...]:
        """Return the return addresses, innermost first; empty if unknown."""
        payload = self._places[DefinitionKind.NATIVE_STACK].get(stack_id)
        if payload is None:
            return ()
        return payload.integers("Q", min(payload.size // _ADDRESS_BYTES, _DEEPEST_STACK))

    def _note(self, content: bytes, *, big_endian: bool) -> int:
        """Walk the entries of one segment, and return where the last one ends.

        A process that is killed leaves entries without their commit marker. Threads share a segment, so whole entries
        can come behind such a one: go on at the next place where an entry can begin.
        """
        header = struct.Struct(struct_format(DEFINITION_HEADER, big_endian=big_endian))
        words = np.frombuffer(content[: len(content) // 8 * 8], dtype=">u4" if big_endian else "<u4")
        markers: list[int] = (np.flatnonzero(words[::2] == DEFINITION_COMMIT) * DEFINITION_ALIGNMENT).tolist()
        last = len(content) - _HEADER_BYTES
        position = 0
        index = 0
        end = 0
        while index < len(markers):
            if markers[index] != position:
                index = bisect_left(markers, position, lo=index)
                if index == len(markers):
                    break
                position = markers[index]
            index += 1
            if position > last:
                break
            _, kind, reserved, identity, size = header.unpack_from(content, position)
            start = position + _HEADER_BYTES
            if kind not in _KINDS or reserved != 0 or start + size > len(content):
                position += DEFINITION_ALIGNMENT
                continue
            payload = Payload(content, start, size, big_endian)
            if kind in (DefinitionKind.FACT, DefinitionKind.MODULE):
                self._listed.append((kind, payload))
            else:
                self._places[kind][identity] = payload
            end = position = start + -(-size // DEFINITION_ALIGNMENT) * DEFINITION_ALIGNMENT
        return end

    def _read_code(self, code_id: int) -> CodeObject:
        payload = self._places[DefinitionKind.CODE].get(code_id)
        fixed = CODE_PAYLOAD.itemsize
        if payload is None or payload.size < fixed:
            return _UNKNOWN_CODE
        file_name_id, name_id, first_line, table_format, table_bytes, _ = payload.integers("I", fixed // 4)
        table = payload.raw()[fixed : fixed + table_bytes]
        file_name = self.strings.get(file_name_id, UNKNOWN_TEXT)
        return CodeObject(file_name, self.strings.get(name_id, UNKNOWN_TEXT), first_line, table_format, table)

    def _read_facts(self) -> Mapping[str, tuple[str, ...]]:
        facts: dict[str, list[str]] = {}
        for kind, payload in self._listed:
            if kind == DefinitionKind.FACT:
                key, _, value = payload.text().partition("=")
                facts.setdefault(key, []).append(value)
        return {key: tuple(values) for key, values in facts.items()}

    def _read_modules(self) -> tuple[Module, ...]:
        modules = []
        layout = {order: struct.Struct(struct_format(MODULE_PAYLOAD, big_endian=order)) for order in (False, True)}
        for kind, payload in self._listed:
            if kind == DefinitionKind.MODULE and payload.size >= MODULE_PAYLOAD.itemsize:
                content = payload.raw()
                bias, start, end, seen, id_bytes, path_bytes = layout[payload.big_endian].unpack_from(content)
                build_id = content[MODULE_PAYLOAD.itemsize :][:id_bytes]
                path = content[MODULE_PAYLOAD.itemsize + id_bytes :][:path_bytes]
                if start < end:
                    modules.append(Module(path.decode(errors="replace"), build_id, bias, start, end, seen))
        return tuple(modules[-_MOST_MODULES:])


class Payload(NamedTuple):
    """Where the payload of a definition lies."""

    content: bytes
    start: int
    size: int
    big_endian: bool

    def raw(self) -> bytes:
        """Return its bytes."""
        return self.content[self.start : self.start + self.size]

    def text(self) -> str:
        """Return it as UTF-8; bytes that are none are replaced."""
        return self.raw().decode(errors="replace")

    def integers(self, code: str, count: int) -> tuple[int, ...]:
        """Return so many integers from its beginning; `code` is that of `struct`."""
        order = ">" if self.big_endian else "<"
        return struct.unpack_from(f"{order}{count}{code}", self.content, self.start)


class _Strings(Mapping[int, str]):
    """String id to text, decoded on demand."""

    def __init__(self, places: dict[int, Payload]) -> None:
        self._places = places
        self._decoded: dict[int, str] = {}

    def __getitem__(self, key: int) -> str:
        text = self._decoded.get(key)
        if text is None:
            text = self._decoded[key] = self._places[key].text()
        return text

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
