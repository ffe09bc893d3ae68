"""Event logs with numbers that no process recorded: what cannot be is left out and counted, and nothing takes forever."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.debug_lines import DebugLines
from msmemscope.formats.event_log.definitions import Module
from msmemscope.formats.event_log.layout import PACKED_BLOCK_ALIGNMENT, PACKED_BLOCKS_OFFSET, LineTableFormat
from msmemscope.formats.event_log.line_tables import line_of_offset
from msmemscope.formats.event_log.symbols import Symbolizer
from tests.fakes.event_log_builder import DEVICE_USAGE, MALLOC, RESERVED, Event, EventLogBuilder
from tests.support.limited import run_limited
from tests.support.nightly import NIGHT

DAMAGED = "damaged and left out: a checksum, time, number or size that cannot be"
OOM = 54
IMPOSSIBLE = {
    "a number": {"sequence": 2**63},
    "a time": {"timestamp_ns": 2**64 - 1},
    "a size": {"size": 2**50 + 1},
    "a size below zero": {"size": -1},
    "the smallest size": {"size": -(2**63)},
    "a last value below all": {"kind": RESERVED, "size": -2},
}


@pytest.mark.parametrize("family", ["events", "kept"])
@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_record_that_cannot_be_is_left_out(what: str, family: str, tmp_path: Path) -> None:
    """The others are in order and counted without it, and it is reported."""
    builder = EventLogBuilder(tmp_path)
    for number in range(1, 4):
        builder.malloc(0x1000 * number, 64)
    damaged = Event(**{"sequence": 2, "kind": MALLOC, "timestamp_ns": 5, **IMPOSSIBLE[what]})
    if family == "events":
        builder.events[0][1] = damaged
    else:
        builder.kept[0] = [damaged]
    capture = Capture(builder.write())
    numbers = [number for batch in capture.event_batches() for number in batch["sequence"]]
    assert numbers == ([1, 3] if family == "events" else [1, 2, 3])
    assert capture.event_count() == len(numbers)
    assert capture.problems == ("1 record is damaged and left out: a checksum, time, number or size that cannot be",)


def test_what_was_asked_for_in_vain_may_be_of_any_size(tmp_path: Path) -> None:
    """A program that asks for an exabyte gets an allocation that failed; a total that is not known is below zero."""
    builder = EventLogBuilder(tmp_path)
    builder.add(OOM, size=2**62)
    builder.add(RESERVED, size=-1)
    builder.add(DEVICE_USAGE, size=-1)
    capture = Capture(builder.write())
    assert capture.event_count() == 3
    assert capture.problems == ()


def test_as_many_facts_as_fit(tmp_path: Path) -> None:
    """Of one key: each takes as long as the one before."""
    builder = EventLogBuilder(tmp_path)
    count = 200_000 if NIGHT else 50_000
    for _ in range(count):
        builder.fact("a", "b")
    assert len(Capture(builder.write()).facts["a"]) == count


def test_stacks_of_a_million_frames(tmp_path: Path) -> None:
    """No recorder takes so many: the innermost thousand are shown."""
    builder = EventLogBuilder(tmp_path)
    code = builder.code("x" * 2000, "f", 1)
    python = builder.python_stack(*[(code, 0)] * 300_000)
    native = builder.native_stack(*range(300_000))
    capture = Capture(builder.write())
    assert capture.python_stack_text(python).count("\n") == 1024
    assert capture.native_stack_text(native).count("\n") == 1024


def test_as_many_modules_as_fit(tmp_path: Path) -> None:
    """Each at the place of the one before; addresses are looked up in them all."""
    builder = EventLogBuilder(tmp_path)
    modules = 100_000 if NIGHT else 25_000
    for number in range(modules):
        place = 0x10000 * (number % (3 * modules // 10))
        builder.module(f"/{number}", place, place + 0x20000 * (number % 3), load_bias=0x1000, seen=number)
    for number in range(modules // 50):
        builder.malloc(0x1000, 64, native_stack_id=builder.native_stack(*range(0x3000 * number, 0x3000 * number + 64)))
    run = run_limited(["analyze", "leaks", builder.write()])
    assert run.returncode == 0, run.stderr


def test_a_line_table_of_megabytes() -> None:
    """The table has one endless number in it, or a million entries that are all asked for."""
    endless = b"\xe8" + b"\x7f" * 5_000_000
    assert line_of_offset(endless, LineTableFormat.PYTHON311, 1, 0) is not None
    entries = b"\xd8" * 1_000_000
    for offset in range(0, 2_000_000, 2_000):
        assert line_of_offset(entries, LineTableFormat.PYTHON311, 1, offset) == 1 + offset // 2 + 1


def test_addresses_below_their_module(tmp_path: Path) -> None:
    """Differences of addresses have 64 bits, in a damaged log too."""
    modules = [Module("/gone/lib.so", b"", 2**64 - 0x10, 0, 2**64 - 1, 1)]
    symbolizer = Symbolizer(modules)
    assert symbolizer.text(0x1234) == "/gone/lib.so(+0x1244) [0x1234]"
    assert symbolizer.text(0) == "[0x0]"
    assert modules[0].file_address(0x10) == 0x20


def test_damaged_debug_information_of_any_kind(tmp_path: Path) -> None:
    """The parser of DWARF raises whatever it stumbles over; the lines are missing then, and nothing else."""
    import shutil
    import subprocess

    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library, damaged = (tmp_path / name for name in ("a.c", "a.so", "b.so"))
    source.write_text("int add(int a, int b) { return a + b; }\n", encoding="utf-8")
    subprocess.run([compiler, "-g", "-shared", "-fPIC", "-o", library, source], check=True)
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        sections = [
            (section["sh_offset"], section["sh_size"])
            for section in ELFFile(file).iter_sections()
            if section.name.startswith(".debug")
        ]
    rng = random.Random(7)  # noqa: S311 - not for secrets
    for _ in range(300 if NIGHT else 100):
        content = bytearray(library.read_bytes())
        offset, size = rng.choice(sections)
        for _ in range(rng.choice((1, 5, size))):
            content[offset + rng.randrange(size)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        damaged.write_bytes(content)
        lines = DebugLines(damaged)
        for address in range(0x1000, 0x1200, 32):
            lines.line_at(address)


@pytest.mark.parametrize(
    ("lost", "zeroed", "missing"),
    [([], 0, 0), ([0], 64, 50), ([1], 64, 50), ([1, 2], 64, 100), ([3], 64, 1), ([1], 4096, 50)],
    ids=["nothing", "first", "second", "two", "last", "a whole one"],
)
def test_a_block_without_its_beginning_is_missed(lost: list[int], zeroed: int, missing: int, tmp_path: Path) -> None:
    """Blocks say how many records stand before them. Of the last one nobody knows how many it had."""
    builder = EventLogBuilder(tmp_path, tail_records=50)
    for number in range(220):
        builder.malloc(0x1000 + 64 * number, 64)
    builder.write()
    (segment,) = builder.log.glob("events_*.segment")
    content = bytearray(segment.read_bytes())
    for block in lost:
        begin = PACKED_BLOCKS_OFFSET + block * PACKED_BLOCK_ALIGNMENT
        content[begin : begin + zeroed] = bytes(zeroed)
    segment.write_bytes(content)
    capture = Capture(builder.directory)
    assert capture.event_count() == 220 - 50 * len(lost)
    said = [line for line in capture.problems if "damaged and left out" in line]
    assert said == ([] if not lost else [f"{missing} record{' is' if missing == 1 else 's are'} {DAMAGED}"])


def test_what_the_flight_recorder_gave_back_is_not_missed(tmp_path: Path) -> None:
    """The oldest blocks, all zeros."""
    builder = EventLogBuilder(tmp_path, tail_records=50, header_fields={"maximum_log_bytes": 1 << 20})
    for number in range(220):
        builder.malloc(0x1000 + 64 * number, 64)
    builder.write()
    (segment,) = builder.log.glob("events_*.segment")
    content = bytearray(segment.read_bytes())
    content[PACKED_BLOCKS_OFFSET : PACKED_BLOCKS_OFFSET + 2 * PACKED_BLOCK_ALIGNMENT] = bytes(
        2 * PACKED_BLOCK_ALIGNMENT
    )
    segment.write_bytes(content)
    capture = Capture(builder.directory)
    assert capture.event_count() == 120
    assert [line for line in capture.problems if "damaged and left out" in line] == []
