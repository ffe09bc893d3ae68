"""The section of owners in the summary at the end of a run."""

from __future__ import annotations

import io
import re

import polars as pl
import pytest
from rich.console import Console

from msmemscope.analysis.coverage import Coverage
from msmemscope.analysis.owners.decomposition import Decomposition, PoolDecomposition, decompose_capture
from msmemscope.analysis.owners.tree import NODE_SCHEMA
from msmemscope.formats.event_log import Capture
from msmemscope.reports.decomposition_section import DEEPEST, MOST_PARTS, print_decomposition
from tests.fakes.event_log_builder import CPU, DEVICE_USAGE, HAL, HOST, PTA, RESERVED, EventLogBuilder

MIB = 1 << 20


def add_tensor(builder: EventLogBuilder, size: int, *labels: str, operator: bool = False, pool: int = PTA) -> None:
    """A block of a pool, at an address of its own."""
    builder.malloc(
        0x10000 + 0x1000 * len(builder.events.get(0, [])),
        size,
        pool=pool,
        device=CPU if pool == HOST else 0,
        name_id=builder.string("aten.add") if operator else 0,
        extra=builder.labels(*labels) if labels else 0,
    )


def rendered(builder: EventLogBuilder, width: int = 80, *, colour: bool = False) -> str:
    """The section as a pipe or a terminal gets it."""
    return written(decompose_capture(Capture(builder.write())), width, colour=colour)


def written(decomposition: Decomposition, width: int, *, colour: bool = False) -> str:
    """The section of a result."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, highlight=False, markup=False, emoji=False, force_terminal=colour, no_color=not colour
    )
    print_decomposition(decomposition, console)
    return out.getvalue()


def add_training(builder: EventLogBuilder) -> None:
    """Something of everything, on an NPU whose driver was observed."""
    for size, module in ((40, "APP"), (7, "HCCL"), (2, "RUNTIME")):
        place = {"pool": HAL, "device": 0, "attribute_id": builder.string(f"CANN@{module}")}
        builder.malloc(size << 32, size * MIB, **place)
    builder.add(DEVICE_USAGE, device=0, size=100 * MIB, extra=49 * MIB)
    builder.add(RESERVED, size=38 * MIB, pool=PTA, device=0)
    add_tensor(builder, 4 * MIB, "3model@weight")
    add_tensor(builder, 4 * MIB, "3model@gradient")
    add_tensor(builder, 8 * MIB, "3model@optimizer_state")
    add_tensor(builder, 3 * MIB, operator=True)
    add_tensor(builder, 1 * MIB, "5mine", operator=True)
    add_tensor(builder, 2 * MIB, "2kv_cache")
    add_tensor(builder, 1 * MIB)


TRAINING = """
Owners on npu:0 (PTA) at the peak of 23.0 MiB
  by owner                 size   share  blocks
    model              16.0 MiB  69.6 %       3
      optimizer state  8.00 MiB  34.8 %       1
      gradients        4.00 MiB  17.4 %       1
      weights          4.00 MiB  17.4 %       1
    operators          4.00 MiB  17.4 %       2
      mine             1.00 MiB   4.3 %       1
      other            3.00 MiB  13.0 %       1
    KV cache           2.00 MiB   8.7 %       1
    other              1.00 MiB   4.3 %       1

Memory of the driver on npu:0 at its peak of 49.0 MiB
  by use                 size   share
    held by pools    38.0 MiB  77.6 %
      PTA            38.0 MiB  77.6 %
    modules of CANN  9.00 MiB  18.4 %
      HCCL           7.00 MiB  14.3 %
      RUNTIME        2.00 MiB   4.1 %
    unknown          2.00 MiB   4.1 %
  In use on the device then: 49.0 MiB by this process, 100 MiB by all processes
"""


@pytest.mark.parametrize("width", [80, 200])
def test_training(builder: EventLogBuilder, width: int) -> None:
    """The tree of the pool, then where the driver's memory went; the same text at any usual width."""
    add_training(builder)
    lines = [line.rstrip() for line in rendered(builder, width).splitlines()]
    assert lines == TRAINING.splitlines()


def test_colour_changes_no_letter(builder: EventLogBuilder) -> None:
    """A terminal gets the same words, and control codes around them."""
    add_training(builder)
    coloured = rendered(builder, colour=True)
    assert "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[\d*m", "", coloured) == rendered(builder)


def test_memory_without_labels(builder: EventLogBuilder) -> None:
    """One line that names the pool; the driver was not observed and has no table."""
    add_tensor(builder, 512)
    lines = [line.rstrip() for line in rendered(builder).splitlines() if line]
    assert lines == [
        "Owners on npu:0 (PTA) at the peak of 512 bytes",
        "  by owner       size    share  blocks",
        "    PTA     512 bytes  100.0 %       1",
    ]


def test_pinned_memory(builder: EventLogBuilder) -> None:
    """It has a tree of its own, whose heading says what it is."""
    pinned = {"pool": HAL, "device": CPU}
    builder.malloc(0x1000, 300, extra=builder.labels("3model@optimizer_state"), **pinned)
    builder.malloc(0x2000, 100, **pinned)
    text = rendered(builder)
    assert "Owners on cpu (HOST, pinned) at the peak of 400 bytes" in text
    assert [line.split()[0] for line in text.splitlines()[3:]] == ["model", "optimizer", "other"]
    assert "Memory of the driver" not in text


def test_many_labels_are_summed_up(builder: EventLogBuilder) -> None:
    """The largest by name, the rest as one: nothing is lost."""
    for number in range(1, 31):
        add_tensor(builder, number, f"5label {number:02}", pool=HOST)
    lines = rendered(builder).splitlines()[3:]
    assert len(lines) == MOST_PARTS + 1
    assert lines[0].split()[:3] == ["label", "30", "30"]
    assert lines[-1].split()[:4] == ["(22", "others)", "253", "bytes"]


def test_one_more_than_fits_is_listed(builder: EventLogBuilder) -> None:
    """A line that says "1 other" would take as much room."""
    for number in range(1, MOST_PARTS + 2):
        add_tensor(builder, number, f"5label {number}", pool=HOST)
    assert "others" not in rendered(builder)


def test_what_lies_too_deep_is_part_of_its_node(builder: EventLogBuilder) -> None:
    """Labels may hold the separator, any number of times."""
    label = "@".join(f"level{number}" for number in range(1, 20))
    add_tensor(builder, 64, f"5{label}", pool=HOST)
    text = rendered(builder)
    assert f"level{DEEPEST} " in text
    assert f"level{DEEPEST + 1} " not in text


@pytest.mark.parametrize("width", [20, 80, 200])
def test_labels_cannot_break_the_table(builder: EventLogBuilder, width: int) -> None:
    """Neither by control characters, nor by markup, nor by their length."""
    add_tensor(builder, 64, "5\x1b[2J[red]wiped[/red] " + "long " * 100, pool=HOST)
    text = rendered(builder, width)
    assert "\x1b" not in text
    assert "\N{REPLACEMENT CHARACTER}[2J" in text
    if width >= 80:
        assert "[red]wiped[/red]" in text
        assert max(map(len, text.splitlines())) <= width


def test_unknown_can_be_negative(builder: EventLogBuilder) -> None:
    """Pools hold more than was seen of the driver: shown as it is."""
    builder.malloc(1 << 32, 4 * MIB, pool=HAL, device=0, attribute_id=builder.string("CANN@APP"))
    builder.add(RESERVED, size=6 * MIB, pool=PTA, device=0)
    add_tensor(builder, MIB)
    text = rendered(builder)
    assert "    unknown        -2.00 MiB  -50.0 %" in text


def test_owners_of_several_trees() -> None:
    """A dump of another tool may name owners of one pool that have nothing in common."""
    nodes = pl.DataFrame([("A", 0, 30, 30, 1), ("B", 0, 70, 0, 1), ("B@c", 1, 70, 70, 1)], NODE_SCHEMA, orient="row")
    pool = PoolDecomposition(CPU, HOST, 100, 1, 1, nodes)
    empty = pl.DataFrame()
    result = Decomposition(
        (pool,), at_steps=empty, over_time=empty, ledger=empty, devices=empty, coverage=Coverage("Owners")
    )
    labels = [line.split()[0] for line in written(result, 80).splitlines()[3:]]
    assert labels == ["B", "c", "A"]
