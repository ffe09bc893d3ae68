"""Just enough of ELF: build id, symbols and the places of sections, of 64-bit files.

Symbol tables are read with numpy, since a large library has hundreds of thousands of symbols. Names are read one by
one, when they are needed.
"""

from __future__ import annotations

import os
import stat
import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from msmemscope.formats.event_log.layout import in_byte_order

if TYPE_CHECKING:
    from pathlib import Path

_CLASS_64: Final = 2
_SECTION_SYMTAB: Final = 2
_SECTION_NOTE: Final = 7
_SECTION_DYNSYM: Final = 11
_SECTION_NOBITS: Final = 8
_NOTE_GNU_BUILD_ID: Final = 3
_TYPE_FUNCTION: Final = 2
_TYPE_INDIRECT_FUNCTION: Final = 10
_HEADER_BYTES: Final = 64
_SECTION_BYTES: Final = 64
_LONGEST_SYMBOL: Final = 1 << 16
_LARGEST_NOTE: Final = 1 << 16

_SYMBOL: Final = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)


class ElfError(Exception):
    """A file that is no ELF file that we can read; never leaves this package."""


class Section(NamedTuple):
    """One row of the section header table."""

    name: str
    kind: int
    offset: int
    size: int
    link: int


class Symbol(NamedTuple):
    """A function as the symbol table has it."""

    name: str
    """Mangled, as in the file."""
    address: int
    """File address of its first instruction."""


@dataclass(frozen=True)
class _SymbolTable:
    addresses: np.ndarray[Any, np.dtype[np.uint64]]
    """Of functions, ascending."""
    places: np.ndarray[Any, np.dtype[np.int64]]
    """Of their rows in `functions`."""
    functions: np.ndarray[Any, np.dtype[np.void]]
    """In the order of the file."""
    strings: Section

    def at(self, address: int) -> np.void | None:
        """The last function that begins at or below an address.

        If a place has several names, the order is: the largest, exported before local (compilers make local twins with
        odd names), first in the file.
        """
        behind = int(np.searchsorted(self.addresses, np.uint64(address), side="right"))
        if behind == 0:
            return None
        first = int(np.searchsorted(self.addresses, self.addresses[behind - 1]))
        candidates = self.places[first:behind]
        named = self.functions[candidates]
        function: np.void = named[np.lexsort((-candidates, named["info"] >> 4 != 0, named["size"]))[-1]]
        return function


class ElfFile:
    """An ELF file opened for look-ups.

    Args:
        path: The file. It is opened for each read, so that no descriptor is held.

    Raises:
        ElfError: it cannot be opened, or is no 64-bit ELF file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        header = self._read(0, _HEADER_BYTES)
        if len(header) < _HEADER_BYTES or header[:4] != b"\x7fELF" or header[4] != _CLASS_64:
            message = f"{path} is not a 64-bit ELF file"
            raise ElfError(message)
        self.big_endian = header[5] == 2  # noqa: PLR2004 - ELFDATA2MSB
        self._order = ">" if self.big_endian else "<"
        (table_offset,) = struct.unpack_from(f"{self._order}Q", header, 40)
        entry_bytes, count, names_index = struct.unpack_from(f"{self._order}HHH", header, 58)
        self.sections = self._read_sections(table_offset, entry_bytes, count, names_index)

    @cached_property
    def build_id(self) -> bytes:
        """The GNU build id, empty if the file has none."""
        for section in self.sections:
            if section.kind == _SECTION_NOTE:
                content = self._read(section.offset, min(section.size, _LARGEST_NOTE))
                found = _build_id_in_notes(content, self._order)
                if found:
                    return found
        return b""

    def has_section(self, name: str) -> bool:
        """Tell whether a section is there with its content."""
        return any(section.name == name and section.kind != _SECTION_NOBITS for section in self.sections)

    def symbol_at(self, address: int) -> Symbol | None:
        """Return the function that contains a file address, from the full symbol table if there is one."""
        for table in self._symbol_tables:
            function = table.at(address)
            if function is None:
                continue
            start, size = int(function["value"]), int(function["size"])
            # Hand-written assembly often has no size: it reaches up to the next symbol.
            if size == 0 or address < start + size:
                return Symbol(self._name(table.strings, int(function["name"])), start)
        return None

    @cached_property
    def _symbol_tables(self) -> tuple[_SymbolTable, ...]:
        tables = []
        for kind in (_SECTION_SYMTAB, _SECTION_DYNSYM):
            for section in self.sections:
                if section.kind == kind and section.link < len(self.sections):
                    tables.append(self._read_symbols(section))  # noqa: PERF401 - reads a file
        return tuple(tables)

    def _read_symbols(self, section: Section) -> _SymbolTable:
        content = self._read(section.offset, section.size)
        dtype = in_byte_order(_SYMBOL, big_endian=self.big_endian)
        symbols = np.frombuffer(content[: len(content) - len(content) % dtype.itemsize], dtype=dtype)
        kinds = symbols["info"] & 15
        is_function = (kinds == _TYPE_FUNCTION) | (kinds == _TYPE_INDIRECT_FUNCTION)
        symbols = symbols[is_function & (symbols["section"] != 0)]
        addresses = symbols["value"].astype(np.uint64)
        places = np.argsort(addresses)
        return _SymbolTable(addresses[places], places, symbols, self.sections[section.link])

    def _name(self, strings: Section, offset: int) -> str:
        content = self._read(strings.offset + offset, min(512, max(strings.size - offset, 0)))
        if b"\0" not in content:
            content = self._read(strings.offset + offset, min(_LONGEST_SYMBOL, max(strings.size - offset, 0)))
        return content.partition(b"\0")[0].decode(errors="replace")

    def _read_sections(self, offset: int, entry_bytes: int, count: int, names_index: int) -> tuple[Section, ...]:
        if entry_bytes != _SECTION_BYTES or count == 0:
            return ()
        content = self._read(offset, count * entry_bytes)
        entry = struct.Struct(f"{self._order}IIQQQQII16x")
        rows = [entry.unpack_from(content, start) for start in range(0, len(content) - entry_bytes + 1, entry_bytes)]
        names = b""
        if names_index < len(rows):
            names = self._read(rows[names_index][4], min(rows[names_index][5], 1 << 20))
        return tuple(
            Section(names[row[0] :].partition(b"\0")[0].decode(errors="replace"), row[1], row[4], row[5], row[6])
            for row in rows
        )

    def _read(self, offset: int, size: int) -> bytes:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            message = f"{self.path} cannot be opened: {error}"
            raise ElfError(message) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not 0 <= offset <= status.st_size:
                return b""
            return os.pread(descriptor, min(size, status.st_size - offset), offset)
        except OSError as error:
            message = f"{self.path} cannot be read: {error.strerror}"
            raise ElfError(message) from error
        finally:
            os.close(descriptor)


def _build_id_in_notes(content: bytes, order: str) -> bytes:
    position = 0
    while position + 12 <= len(content):
        name_bytes, value_bytes, kind = struct.unpack_from(f"{order}III", content, position)
        name_start = position + 12
        value_start = name_start + -(-name_bytes // 4) * 4
        if kind == _NOTE_GNU_BUILD_ID and content[name_start : name_start + name_bytes] == b"GNU\0":
            return content[value_start : value_start + value_bytes]
        position = value_start + -(-value_bytes // 4) * 4
    return b""


@dataclass(frozen=True)
class AddressRanges:
    """Half-open ranges of addresses, each with an owner; ranges do not overlap."""

    starts: list[int]
    ends: list[int]
    owners: list[int]

    def owner_of(self, address: int) -> int | None:
        """Return the owner of the range that contains an address."""
        index = bisect_right(self.starts, address) - 1
        return self.owners[index] if index >= 0 and address < self.ends[index] else None
