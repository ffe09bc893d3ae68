"""The functions that a shared library calls and offers, read from its file: nothing is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

if TYPE_CHECKING:
    from pathlib import Path


def imported_functions(library: Path) -> set[str]:
    """Names of the functions that a shared library calls through relocations, which can be redirected.

    Raises:
        OSError: If the file cannot be read.
        ELFError: If it is no shared library.
    """
    names: set[str] = set()
    with library.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if isinstance(section, RelocationSection):
                symbols = ELFFile(file).get_section(section["sh_link"])
                if symbols is None or not hasattr(symbols, "get_symbol"):
                    continue
                names.update(symbols.get_symbol(entry["r_info_sym"]).name for entry in section.iter_relocations())
    return names


def exported_functions(library: Path) -> set[str]:
    """Names that a shared library defines for others.

    Raises:
        OSError: If the file cannot be read.
        ELFError: If it is no shared library.
    """
    with library.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym")
        if not isinstance(symbols, SymbolTableSection):
            return set()
        return {symbol.name for symbol in symbols.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"}
