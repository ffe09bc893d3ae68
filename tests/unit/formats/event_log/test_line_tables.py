"""Line tables read like CPython reads them, in every version that has such tables."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.event_log.layout import LineTableFormat
from msmemscope.formats.event_log.line_tables import line_of_offset

DUMP_CODE_OBJECTS = """
import argparse, asyncio.base_events, decimal, functools, inspect, json, sys, textwrap, types, typing
found = {}
def visit(code):
    if code in found:
        return
    found[code] = [code.co_firstlineno, code.co_linetable.hex(), [list(entry) for entry in code.co_lines()]]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            visit(constant)
for module in (argparse, asyncio.base_events, functools, inspect, textwrap, typing):
    with open(module.__file__) as file:
        visit(compile(file.read(), module.__file__, "exec"))
print(json.dumps({"version": list(sys.version_info[:2]), "codes": list(found.values())}))
"""
"""Prints first line, table and what `co_lines` says, of every code object of some modules."""


def interpreters() -> list[str]:
    """Every Python 3.10 or later of this machine, one of each version."""
    candidates = [sys.executable]
    candidates += [path for minor in range(10, 20) if (path := shutil.which(f"python3.{minor}"))]
    candidates += [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))]
    found: dict[str, str] = {}
    ask = "import sys; print(sys.version_info[0], sys.version_info[1])"
    for path in candidates:
        run = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
        version = run.stdout.strip()
        if run.returncode == 0 and int(version.split()[1]) >= 10:
            found.setdefault(version, path)
    return list(found.values())


def format_of(version: tuple[int, int]) -> LineTableFormat:
    """The format that a version of CPython writes."""
    return LineTableFormat.PYTHON310 if version == (3, 10) else LineTableFormat.PYTHON311


def offsets_and_lines(entries: list[list[int | None]]) -> list[tuple[int, int | None]]:
    """Every instruction and its line, from the (start, end, line) of `co_lines`."""
    return [(offset, line) for start, end, line in entries for offset in range(start or 0, end or 0, 2)]


@pytest.mark.parametrize("interpreter", interpreters())
def test_lines_are_those_of_the_interpreter(interpreter: str) -> None:
    """For each instruction of some standard modules, the line is what `co_lines` of that interpreter says."""
    output = subprocess.run([interpreter, "-c", DUMP_CODE_OBJECTS], check=True, capture_output=True, text=True).stdout
    dumped = json.loads(output)
    table_format = format_of(tuple(dumped["version"]))
    assert len(dumped["codes"]) > 500
    checked = 0
    for first_line, table, entries in dumped["codes"]:
        # Each look-up starts at the beginning of the table: a sample keeps this quick.
        expected = offsets_and_lines(entries)
        for offset, line in expected[:: len(expected) // 40 + 1]:
            assert line_of_offset(bytes.fromhex(table), table_format, first_line, offset) == line
            checked += 1
    assert checked > 5000


def assert_all_lines_match(code: CodeType) -> None:
    """Compare every instruction of a code object and of those in it."""
    table_format = format_of(sys.version_info[:2])
    for offset, line in offsets_and_lines([list(entry) for entry in code.co_lines()]):
        assert line_of_offset(code.co_linetable, table_format, code.co_firstlineno, offset) == line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            assert_all_lines_match(constant)


TEMPLATES = (
    "x = a",
    "x = (b +{gap}c)",
    "x = f(a,{gap}lambda: b,{gap}c)",
    "x = [y for y in a{gap}if y]",
    "if a:{gap} x = b\nelse:\n x = c",
    "try:{gap} a()\nfinally:{gap} b()",
    "try:\n a()\nexcept E:{gap} pass",
    "for x in a:{gap} b()\n c()",
    "with a as b:{gap} c()",
    "def f(x=a):{gap} yield x\n return (x,{gap}x)",
    "async def f(x):{gap} await x",
    "class C:{gap} def f(self): return [{gap}self]",
    "while a:{gap} if b: break",
    "match a:\n case 1:{gap}  b()\n case _: c()",
)
"""Statements whose instructions go back and forth over lines; a gap is a number of line feeds."""

sources = st.lists(st.tuples(st.sampled_from(TEMPLATES), st.integers(1, 400)), min_size=1, max_size=8).map(
    lambda parts: "\n".join(template.format(gap="\n" * gap) + "\n" * (gap - 1) for template, gap in parts)
)


@given(sources)
def test_lines_of_any_source(source: str) -> None:
    """Long gaps, steps backwards and instructions without a line are read right."""
    assert_all_lines_match(compile(source, "<generated>", "exec"))


@given(
    st.binary(max_size=200),
    st.sampled_from(LineTableFormat),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_any_bytes_are_survived(table: bytes, table_format: LineTableFormat, first_line: int, offset: int) -> None:
    """A damaged table gives some line or none, and never an error."""
    line = line_of_offset(table, table_format, first_line, offset)
    assert line is None or isinstance(line, int)


def test_known_tables() -> None:
    """The examples of the two formats, worked out by hand."""
    line_table = bytes([6, 1, 4, 128, 2, 255, 0, 127, 8, 3])
    expected = {0: 11, 4: 11, 6: None, 8: None, 10: 10, 12: 140, 18: 140, 20: None}
    for offset, line in expected.items():
        assert line_of_offset(line_table, LineTableFormat.PYTHON310, 10, offset) == line
    # One line form, delta 1, two units; no location, one unit; no columns, delta -2, one unit; long form, delta 70.
    location_table = bytes([0x80 | 11 << 3 | 1, 0, 9, 0x80 | 15 << 3, 0x80 | 13 << 3, 5, 0x80 | 14 << 3])
    location_table += bytes([64 | (140 & 63), 140 >> 6, 0, 1, 1])
    expected = {0: 11, 2: 11, 4: None, 6: 9, 8: 79, 10: None}
    for offset, line in expected.items():
        assert line_of_offset(location_table, LineTableFormat.PYTHON311, 10, offset) == line


def test_unknown_format_has_no_lines() -> None:
    """A table whose format this version does not know is not guessed at."""
    assert line_of_offset(b"\x80\x00", 99, 1, 0) is None
    assert line_of_offset(b"", LineTableFormat.NONE, 1, 0) is None
