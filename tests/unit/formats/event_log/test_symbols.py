"""Return addresses get the names and lines that the binary tools give them."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from msmemscope.formats.event_log import symbols
from msmemscope.formats.event_log.debug_lines import DebugLines
from msmemscope.formats.event_log.definitions import Module
from msmemscope.formats.event_log.elf import ElfError, ElfFile
from msmemscope.formats.event_log.symbols import Symbolizer

needs_tools = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("gcc", "nm", "objcopy", "strip")), reason="no C compiler or binutils"
)

SOURCE = """\
extern void sink(int);
static __attribute__((noinline)) void hidden(int value) {
    sink(value);
    sink(value + 1);
}
void visible(int value) {
    hidden(value);
    sink(value);
}
void last(void) {
    sink(0);
}
"""

BIAS = 0x7F00_0000_0000
SIZE = 0x10_0000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library with a visible and a hidden function, and debug information."""
    folder = tmp_path_factory.mktemp("library")
    source = folder / "calls.c"
    source.write_text(SOURCE, encoding="utf-8")
    path = folder / "libcalls.so"
    command = ["gcc", "-g", "-O0", "-fPIC", "-shared", "-Wl,--build-id", "-Wl,-z,undefs", "-o", str(path), str(source)]
    subprocess.run(command, check=True)
    return path


def symbols_of(path: Path) -> dict[str, tuple[int, int]]:
    """Address and size of each function, as `nm` says."""
    output = subprocess.run(["nm", "-S", path], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in output.splitlines()]
    return {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[2] in "tT"}


def calls_of(path: Path, function: str) -> list[int]:
    """Return addresses of the calls in a function, as `objdump` shows them."""
    command = ["objdump", "-d", f"--disassemble={function}", "--no-show-raw-insn", str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in output.splitlines() if line.startswith(" ")]
    addresses = [int(line[0].rstrip(":"), 16) for line in lines]
    calls = {"call", "callq", "bl"}
    return [addresses[index + 1] for index, line in enumerate(lines) if line[1] in calls]


def module_of(path: Path, build_id: bytes | None = None, *, bias: int = BIAS, seen: int = 1) -> Module:
    """The library as if it had been mapped at an address."""
    identity = ElfFile(path).build_id if build_id is None else build_id
    return Module(str(path), identity, bias, bias, bias + SIZE, seen)


@needs_tools
def test_symbol_and_line_of_a_call(library: Path) -> None:
    """The form is that of `backtrace_symbols`, with the line of the call behind it."""
    start, _ = symbols_of(library)["visible"]
    first, second = calls_of(library, "visible")
    symbolizer = Symbolizer([module_of(library)])
    assert symbolizer.text(BIAS + first) == (f"{library}(visible+{first - start:#x}) [{BIAS + first:#x}] calls.c:7")
    assert symbolizer.text(BIAS + second).endswith(f"(visible+{second - start:#x}) [{BIAS + second:#x}] calls.c:8")
    hidden = calls_of(library, "hidden")
    assert [symbolizer.text(BIAS + call).rpartition(" ")[2] for call in hidden] == ["calls.c:3", "calls.c:4"]


@needs_tools
def test_without_lines_there_is_the_symbol_alone(library: Path) -> None:
    """For samples of host memory, whose native stacks nobody asked for: lines of a large library take seconds."""
    call = calls_of(library, "visible")[0]
    whole = Symbolizer([module_of(library)]).text(BIAS + call)
    assert Symbolizer([module_of(library)], has_lines=False).text(BIAS + call) == whole.removesuffix(" calls.c:7")


@needs_tools
def test_call_at_the_end_of_a_function_belongs_to_it(library: Path) -> None:
    """A function that ends with a call has its return address in the next one."""
    start, size = symbols_of(library)["hidden"]
    text = Symbolizer([module_of(library)]).text(BIAS + start + size)
    assert f"(hidden+{size:#x})" in text


@needs_tools
def test_stripped_library_has_its_exported_names(library: Path, tmp_path: Path) -> None:
    """Without the full symbol table the dynamic one is used; what it does not have gets an offset only."""
    stripped = tmp_path / "libstripped.so"
    subprocess.run(["strip", "-o", stripped, library], check=True)
    symbolizer = Symbolizer([module_of(stripped)])
    start, _ = symbols_of(library)["visible"]
    call = calls_of(library, "visible")[0]
    assert symbolizer.text(BIAS + call) == f"{stripped}(visible+{call - start:#x}) [{BIAS + call:#x}]"
    hidden = calls_of(library, "hidden")[0]
    assert symbolizer.text(BIAS + hidden) == f"{stripped}(+{hidden:#x}) [{BIAS + hidden:#x}]"


@needs_tools
def test_lines_without_an_index_of_addresses(library: Path, tmp_path: Path) -> None:
    """Some compilers write no `.debug_aranges`: the compilation units are searched instead."""
    bare = tmp_path / "libbare.so"
    subprocess.run(["objcopy", "--remove-section=.debug_aranges", library, bare], check=True)
    call = calls_of(library, "visible")[0]
    assert Symbolizer([module_of(bare)]).text(BIAS + call).endswith(" calls.c:7")


@needs_tools
@pytest.mark.parametrize("version", [3, 4, 5])
def test_lines_in_every_version_of_dwarf(library: Path, tmp_path: Path, version: int) -> None:
    """File numbers count differently before version 5."""
    path = tmp_path / "libversion.so"
    flags = [f"-gdwarf-{version}", "-O0", "-fPIC", "-shared", "-Wl,--build-id", "-Wl,-z,undefs"]
    subprocess.run(["gcc", *flags, "-o", path, library.with_name("calls.c")], check=True)
    symbolizer = Symbolizer([module_of(path)])
    lines = [symbolizer.text(BIAS + call).rpartition(" ")[2] for call in calls_of(path, "visible")]
    assert lines == ["calls.c:7", "calls.c:8"]


@needs_tools
def test_file_with_another_build_id_is_not_believed(library: Path) -> None:
    """The library was rebuilt since: names from the new file would be wrong."""
    call = calls_of(library, "visible")[0]
    text = Symbolizer([module_of(library, b"\x01" * 20)]).text(BIAS + call)
    assert text == f"{library}(+{call:#x}) [{BIAS + call:#x}]"


@needs_tools
def test_processes_share_a_library_as_long_as_one_needs_it(
    library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its lines are decoded once; a library with another build id is another one. Only names are kept for ever."""
    opened: list[Path] = []

    def lines_of(path: Path) -> DebugLines:
        opened.append(path)
        return DebugLines(path)

    monkeypatch.setattr(symbols, "DebugLines", lines_of)
    own = tmp_path / "libown.so"
    shutil.copyfile(library, own)
    module, call = module_of(own), BIAS + calls_of(own, "visible")[0]
    first, second = Symbolizer([module]), Symbolizer([module])
    assert first.text(call) == second.text(call)
    assert opened == [own]
    assert "visible" not in Symbolizer([module_of(own, b"\x01" * 20)]).text(call)
    del first, second
    gc.collect()
    later = Symbolizer([module])
    assert "(visible+" in later.text(call)
    assert opened == [own]
    assert "(hidden+" in later.text(BIAS + calls_of(own, "hidden")[0])
    assert opened == [own, own]


@needs_tools
def test_damaged_debug_information_costs_the_lines_only(library: Path, tmp_path: Path) -> None:
    """Garbage in the line table leaves the symbol."""
    garbage = tmp_path / "garbage"
    garbage.write_bytes(os.urandom(300))
    for section in (".debug_line", ".debug_info", ".debug_aranges", ".debug_abbrev"):
        damaged = tmp_path / f"libdamaged{section}.so"
        subprocess.run(["objcopy", f"--update-section={section}={garbage}", library, damaged], check=True)
        call = calls_of(library, "visible")[0]
        assert "(visible+" in Symbolizer([module_of(damaged)]).text(BIAS + call)


def test_missing_file_gives_module_and_offset() -> None:
    """A file that is gone, or never was one, still has its name."""
    symbolizer = Symbolizer(
        [
            Module("/gone/lib.so", b"", 0x1000, 0x1000, 0x2000, 1),
            Module("[vdso]", b"", 0x5000, 0x5000, 0x6000, 1),
        ]
    )
    assert symbolizer.text(0x1234) == "/gone/lib.so(+0x234) [0x1234]"
    assert symbolizer.text(0x5678) == "[vdso](+0x678) [0x5678]"
    assert symbolizer.text(0x9999) == "[0x9999]"
    assert symbolizer.text(0) == "[0x0]"


def test_address_means_the_module_of_its_time() -> None:
    """A library that was unloaded makes place for another one: the event decides which is meant."""
    old = Module("/old.so", b"", 0x1000, 0x1000, 0x3000, 1)
    new = Module("/new.so", b"", 0x2000, 0x2000, 0x4000, 100)
    again = Module("/old.so", b"", 0x1000, 0x1000, 0x3000, 200)
    symbolizer = Symbolizer([new, again, old])
    assert symbolizer.changes == (100, 200)
    assert symbolizer.text(0x2800, 99).startswith("/old.so")
    assert symbolizer.text(0x2800, 100).startswith("/new.so")
    assert symbolizer.text(0x2800, 250).startswith("/old.so")
    assert symbolizer.text(0x2800).startswith("/old.so")
    assert symbolizer.text(0x1800, 150).startswith("/old.so")
    # Noted a little after it was mapped: nothing else was there before.
    assert symbolizer.text(0x3800, 50).startswith("/new.so")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x01" + bytes(100), b"#!/bin/sh\n" * 10])
def test_files_that_are_not_elf_are_refused(tmp_path: Path, content: bytes) -> None:
    """Scripts, 32-bit files and truncated ones have no symbols."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ElfError):
        ElfFile(path)


@needs_tools
def test_any_truncation_is_survived(library: Path, tmp_path: Path) -> None:
    """A library cut anywhere gives names, or none, and no error."""
    content = library.read_bytes()
    call = calls_of(library, "visible")[0]
    identity = ElfFile(library).build_id
    for step in range(20):
        path = tmp_path / f"cut{step}.so"
        path.write_bytes(content[: len(content) * step // 20])
        assert f"[{BIAS + call:#x}]" in Symbolizer([module_of(path, identity)]).text(BIAS + call)


def test_library_loaded_again_and_again_counts_once() -> None:
    """A plug-in that comes and goes at the same place makes no list that grows."""
    modules = [Module("/plugin.so", b"", 0x1000, 0x1000, 0x3000, seen) for seen in range(1, 5000)]
    symbolizer = Symbolizer([*modules, Module("/other.so", b"", 0x5000, 0x5000, 0x6000, 1)])
    assert symbolizer.changes == ()
    assert len(symbolizer._modules) == 2
    assert symbolizer.text(0x1234, 3) == "/plugin.so(+0x234) [0x1234]"


@needs_tools
def test_two_threads_get_the_names_that_one_gets(library: Path) -> None:
    """Dumps are written while questions are answered: both look into the same files."""
    first, size = symbols_of(library)["visible"]
    addresses = [BIAS + first + offset for offset in range(1, size)]
    alone = [*map(Symbolizer([module_of(library)]).text, addresses)]
    assert any(":" in text for text in alone)
    for _ in range(5):
        gc.collect()
        shared = Symbolizer([module_of(library)])
        with ThreadPoolExecutor(2) as threads:
            found = [threads.submit(list, map(shared.text, addresses)) for _ in range(2)]
        assert [one.result() for one in found] == [alone, alone]
