"""The report of inefficient memory: what it says, at any width, with and without colour."""

from __future__ import annotations

import io

import pytest

from msmemscope.analysis.inefficient.inefficient import InefficientOptions, find_inefficient
from msmemscope.analysis.inefficient.patterns import PatternOptions, find_memory_patterns
from msmemscope.reports.inefficient_report import render_inefficient
from tests.support.traces import Program

NARROW = """\
Inefficient memory: 4 findings in 4 blocks
  Peak on npu:0 (PTA): 11.0 MiB, 4.00 MiB less if all of it were fixed (36.4 %)
     saves  byte x operators  operators  blocks   largest  kind
  4.00 MiB            1.68e7          4       1  4.00 MiB  early_allocation
    /home/user/a_rather_long_folder_name/train.py(7): prepare
  3 findings at 1 place would not lower the peak
  saves: by how much the peak would be lower without the blocks of the place for
  that time

What to do
  early_allocation: allocate it right before the operator that uses it first
"""
"""At 80 columns."""


def rendered(program: Program, *, width: int = 80, is_coloured: bool = False, limit: int = 10) -> str:
    """The report of a program without its other patterns."""
    out = io.StringIO()
    result = find_inefficient(program.data_set(), InefficientOptions(idle_threshold=100))
    render_inefficient(result, out, width=width, is_coloured=is_coloured, limit=limit)
    return out.getvalue()


def wasteful() -> Program:
    """One block that is early, three that are late."""
    program = Program()
    early = program.stack("/home/user/a_rather_long_folder_name/train.py(7): prepare\n")
    other = program.malloc(size=6 << 20)
    block = program.malloc(size=4 << 20, stack=early)
    program.whole_operator()
    for place in range(3):
        with program.operator(name=2):
            late = program.malloc(size=1 << 20, name=2)
            program.write(late)
            if place == 0:
                program.free(other)
        with program.operator(name=2):
            program.write(program.malloc(size=512, name=2))
        program.whole_operator()
        program.free(late)
        if place == 0:
            with program.operator():
                program.read(block)
    return program


def test_at_80_columns_places_have_lines_of_their_own() -> None:
    """Every line fits but those that hold a place."""
    text = rendered(wasteful())
    assert text == NARROW
    assert all(len(line) <= 80 for line in text.splitlines())


def test_at_200_columns_places_stand_beside_the_numbers() -> None:
    """The same words, fewer lines."""
    text = rendered(wasteful(), width=200)
    row = next(line for line in text.splitlines() if "train.py" in line)
    assert row.split() == [
        "4.00", "MiB", "1.68e7", "4", "1", "4.00", "MiB", "early_allocation",
        "/home/user/a_rather_long_folder_name/train.py(7):", "prepare",
    ]  # fmt: skip
    assert text.count("\n") < NARROW.count("\n")


def test_colours_change_no_word() -> None:
    """A terminal gets colours, and without them the same text."""
    coloured = rendered(wasteful(), is_coloured=True)
    assert "\x1b[" in coloured
    assert "\x1b[" not in rendered(wasteful())
    plain = "".join(part.partition("m")[2] if place else part for place, part in enumerate(coloured.split("\x1b[")))
    assert plain == NARROW


def test_a_long_list_is_cut() -> None:
    """How many places there are more is said."""
    program = Program()
    blocks = []
    for name, size in ((3, 1 << 30), (4, 1 << 29)):
        with program.operator(name=name):
            blocks.append(program.malloc(size=size, name=name))
            program.write(blocks[-1])
    with program.operator():
        program.malloc(size=1 << 30)
    program.whole_operator()
    for block in blocks:
        program.free(block)
    text = rendered(program, limit=1)
    assert "and 1 place more" in text
    assert "aten.relu" in text
    assert "aten.copy_" not in text


def test_what_saves_nothing_is_one_line() -> None:
    """And there is nothing to be done about it."""
    program = Program()
    stack = program.stack("/home/user/train.py(12): forward\n")
    program.free(program.malloc(size=1 << 30))
    for _ in range(3):
        with program.operator():
            block = program.malloc(size=1 << 20, stack=stack)
            program.write(block)
        with program.operator():
            program.malloc(size=512)
        program.whole_operator()
        program.free(block)
    assert rendered(program) == "Inefficient memory: 3 findings in 3 blocks, which would not lower the peak\n"


@pytest.mark.parametrize(
    ("stack", "is_advised"),
    [
        ("/home/user/train.py(12): forward\n", True),
        ("/usr/lib/python3.11/site-packages/torch/autograd/graph.py(7): backward\n", False),
        ("", False),
    ],
)
def test_advice_is_for_lines_of_the_program(stack: str, *, is_advised: bool) -> None:
    """Nobody changes what torch allocates inside itself."""
    program = Program()
    identity = program.stack(stack)
    with program.operator(name=2):
        block = program.malloc(size=1 << 30, stack=identity, name=2)
        program.write(block)
    with program.operator():
        program.malloc(size=1 << 29)
    program.whole_operator()
    program.free(block)
    text = rendered(program)
    assert "late_deallocation" in text
    assert ("What to do" in text) is is_advised


def test_a_thrifty_program_is_told_so() -> None:
    """With what was looked at, and no advice."""
    program = Program()
    with program.operator():
        program.write(program.malloc())
    assert rendered(program) == "No inefficient memory in 1 operator\n"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_names_of_the_program_cannot_steer_the_terminal(width: int) -> None:
    """Control characters and markup are shown, not obeyed."""
    program = wasteful()
    stack = program.stack("/home/u/\x1b[2J[bold]evil[/bold].py(1): f\n")
    with program.operator():
        block = program.malloc(size=1 << 30, stack=stack)
        program.write(block)
    with program.operator():
        program.malloc(size=1 << 29)
    program.whole_operator()
    program.free(block)
    text = rendered(program, width=width)
    assert "\x1b" not in text
    assert "[bold]evil" in text.replace("\n", "") or width == 40


def test_the_other_patterns_follow() -> None:
    """Each with its advice, churn as a table of its own."""
    program = wasteful()
    stack = program.stack("/home/user/train.py(30): loop\n")
    for _ in range(4):
        scratch = program.malloc(size=2048, stack=stack)
        program.whole_operator()
        program.free(scratch)
    data = program.data_set()
    out = io.StringIO()
    patterns = find_memory_patterns(data, PatternOptions(least_repetitions=3))
    render_inefficient(find_inefficient(data), out, patterns=patterns, width=120)
    text = out.getvalue()
    assert "Other patterns:" in text
    churn = text.partition("short_lived_churn: the same size")[2].splitlines()
    assert churn[2].split() == ["3", "2.00", "KiB", "6.00", "KiB", "/home/user/train.py(30):", "loop"]
    assert "short_lived_churn: allocate once" in text
