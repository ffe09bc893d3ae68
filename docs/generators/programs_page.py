"""docs/programs.md, from the catalogue of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generators import chinese, chinese_programs
from tests.battery.catalogue import CATALOGUE, Place, Program

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = """\
# Programs that were tried

<!-- Generated from tests/battery/catalogue.py by `make docs`; do not edit. -->

A program behaves under msmemscope as it does without. `make test` tries it with {count} programs. Each runs bare, and under
the tool with nearly every option: all events, kernels, Python and C call stacks, all analyses, automatic watching, a
database. Programs with torch run with the default options on the CPU, and a few of each kind on the virtual NPU.
`make test-nightly` runs every program in every place with the default options, with nearly every option, and with the trace
of Python functions.

These are compared:

- the exit status, or the signal that ended the program;
- everything on stdout;
- everything on stderr but the lines of the tool.

The programs print everything that could differ: their results with all digits, the results of their children, and their
surroundings. So other results are other output. Process ids, addresses and the times of log lines are left out. So are
harmless differences (see below).

A program without torch allocates through a stand-in for torch's allocator on the CPU, and through the runtime of CANN on
the virtual NPU. If a machine lacks something that a program needs, the program is skipped there, and the test says so.
"""

COLUMNS = ("Program", "What it does", "CPU", "NPU", "With torch", "Needs")

DIFFERENCES = """
## What differs

- A program may have a dispatch mode of its own, or a torch that dispatches operators in Python alone. Then an exception out of
  an operator has one more entry in its traceback: `msmemscope/capture/torch_operators.py`, and one of torch. Its type, its
  text and the other entries are the same.
- torch.profiler counts an operator twice where a dispatch mode sees it, as the tool's does: once before the mode, once when
  it runs. The operators, their times and their memory are the same.
- Some operators come to Python: a tensor among the arguments is sparse or of a class with a dispatch of its own. So do all
  where memory is watched, or torch is older than 2.4. A number among their arguments becomes a CPU tensor of 8 bytes twice.
  All other memory is allocated and freed as without the tool, in the same order, on the CPU and on NPUs.
- Memray's tracker with native traces writes the line `Memray WARNING: Correcting symbol for dlopen`, as it does wherever a
  preloaded library has a `dlopen` of its own. Its recording is the same.
"""


def page() -> str:
    """The page as Markdown."""
    return _page(HEAD, DIFFERENCES, str)


def chinese_page() -> str:
    """The same in Chinese; the names of programs are those of their tests."""
    return _page(chinese_programs.HEAD, chinese_programs.DIFFERENCES, chinese.text)


def _page(head: str, differences: str, text: Callable[[str], str]) -> str:
    parts = [head.format(count=sum(not program.nightly for program in CATALOGUE))]
    columns = f"| {' | '.join(map(text, COLUMNS))} |\n{'|---' * len(COLUMNS)}|\n"
    for family in sorted({program.family for program in CATALOGUE}):
        rows = (_row(program, text) for program in CATALOGUE if program.family == family)
        parts.append(f"\n## {text(family)}\n\n{columns}{''.join(rows)}")
    parts.append(differences)
    parts.extend(f"- {program.name}: {text(program.differs)}.\n" for program in CATALOGUE if program.differs)
    return "".join(parts)


def _row(program: Program, text: Callable[[str], str]) -> str:
    places = " | ".join(text("yes") if place in program.places else "" for place in Place)
    needs = ", ".join(need.removeprefix("module ") for need in program.needs)
    if program.nightly:
        needs = "; ".join(filter(None, (needs, "`make test-nightly`")))
    torch = text("yes") if program.with_torch else ""
    return f"| {program.name} | {text(program.does)} | {places} | {torch} | {needs} |\n"
