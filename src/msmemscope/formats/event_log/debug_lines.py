"""Source lines of machine code, from DWARF.

Only compilation units that an address falls into are decoded, once each.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from pathlib import Path
from typing import Any, Final, NamedTuple

from msmemscope.formats.event_log.elf import AddressRanges, ElfError, ElfFile

_LARGEST_UNINDEXED_BYTES: Final = 8 << 20
"""Debug information without an index of addresses is searched only up to this size: it takes seconds."""

_DEBUG_DIRECTORY: Final = Path("/usr/lib/debug/.build-id")
"""Where distributions put what they stripped, by build id."""


class SourceLine(NamedTuple):
    """A line of a source file."""

    file: str
    """Base name."""
    line: int


class _LineRows(NamedTuple):
    """The line table of one compilation unit, by rising address; line 0 marks an end."""

    addresses: list[int]
    lines: list[SourceLine]


_NO_ROWS: Final = _LineRows([], [])


class DebugLines:
    """Line information of one file.

    Args:
        path: The file. One that is damaged, or cannot be read, has no lines.
    """

    def __init__(self, path: Path) -> None:
        # A tenth of the time of a short run's summary, and most runs have no native stacks.
        from elftools.elf.elffile import ELFFile

        self._units: dict[int, _LineRows] = {}
        self._dwarf: Any = None
        self._ranges = AddressRanges([], [], [])
        try:
            with path.open("rb") as file:
                # Mapped, so that of a large file only what is looked at is read.
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._dwarf = ELFFile(content).get_dwarf_info(relocate_dwarf_sections=False)
            self._ranges = _unit_ranges(self._dwarf)
        except Exception:  # noqa: BLE001 - pyelftools raises whatever its parser stumbles over, NotImplementedError among it
            self._dwarf = None

    def line_at(self, address: int) -> SourceLine | None:
        """Return the source line of a file address, None if nothing tells."""
        unit = self._ranges.owner_of(address)
        if unit is None or self._dwarf is None:
            return None
        rows = self._units.get(unit)
        if rows is None:
            try:
                rows = _line_rows(self._dwarf, unit)
            except Exception:  # noqa: BLE001 - likewise
                rows = _NO_ROWS
            self._units[unit] = rows
        index = bisect_right(rows.addresses, address) - 1
        found = rows.lines[index] if index >= 0 else None
        return found if found and found.line > 0 else None


def debug_file_of(file: ElfFile) -> Path | None:
    """Find the file with the line information of another: itself, or the file that the distribution split off."""
    if file.has_section(".debug_line"):
        return file.path
    identity = file.build_id.hex()
    path = _DEBUG_DIRECTORY / identity[:2] / f"{identity[2:]}.debug"
    try:
        if identity and path.is_file() and ElfFile(path).has_section(".debug_line"):
            return path
    except ElfError:
        pass
    return None


def _unit_ranges(dwarf: Any) -> AddressRanges:
    """Index the address ranges of compilation units, from `.debug_aranges` where the compiler wrote one."""
    table = dwarf.get_aranges()
    found = [] if table is None else [(entry.begin_addr, entry.length, entry.info_offset) for entry in table.entries]
    if not found and dwarf.debug_info_sec and dwarf.debug_info_sec.size <= _LARGEST_UNINDEXED_BYTES:
        found = list(_ranges_of_units(dwarf))
    found.sort()
    return AddressRanges(
        [start for start, _, _ in found], [start + length for start, length, _ in found], [unit for _, _, unit in found]
    )


def _ranges_of_units(dwarf: Any) -> Any:
    for unit in dwarf.iter_CUs():
        attributes = unit.get_top_DIE().attributes
        low = attributes.get("DW_AT_low_pc")
        high = attributes.get("DW_AT_high_pc")
        if low is None or high is None:
            continue
        length = high.value - low.value if high.form == "DW_FORM_addr" else high.value
        yield low.value, length, unit.cu_offset


def _line_rows(dwarf: Any, unit_offset: int) -> _LineRows:
    program = dwarf.line_program_for_CU(dwarf.get_CU_at(unit_offset))
    if program is None:
        return _NO_ROWS
    # File numbers count from 1 before DWARF 5.
    first_file = 0 if program.header["version"] >= 5 else 1  # noqa: PLR2004
    names = [
        (entry.name.decode(errors="replace") if isinstance(entry.name, bytes) else str(entry.name)).rpartition("/")[2]
        for entry in program["file_entry"]
    ]
    rows = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        index = state.file - first_file
        name = names[index] if 0 <= index < len(names) else "?"
        rows.append((state.address, SourceLine(name, 0 if state.end_sequence else state.line)))
    # Sequences are not in address order; an end comes before what begins at the same place.
    rows.sort(key=lambda row: (row[0], row[1].line > 0))
    return _LineRows([address for address, _ in rows], [line for _, line in rows])
