"""The parts of host memory of two runs beside each other, with the line that made most of a difference."""

from __future__ import annotations

import dataclasses

import polars as pl

from msmemscope.analysis.compare.host_parts import compare_host_parts
from msmemscope.analysis.host.host_ledger import LEDGER_SCHEMA, LINE_SCHEMA, HostLedger, account_for_host
from tests.fakes.traces import Trace


def ledger(parts: dict[str, int], lines: list[tuple[str, str, int]]) -> HostLedger:
    """A ledger with these parts, and lines with their kind and bytes."""
    empty = account_for_host(Trace().recording())
    return dataclasses.replace(
        empty,
        parts=pl.DataFrame([(part, size, None, size) for part, size in parts.items()], LEDGER_SCHEMA, orient="row"),
        lines=pl.DataFrame([(*line, 1) for line in lines], LINE_SCHEMA, orient="row"),
    )


def test_the_line_of_a_difference() -> None:
    """It has made half of it; a line that was renamed is the same; a part without a difference has none."""
    base = ledger({"arrays": 10, "objects": 50, "native": 7}, [("a.py(1)", "arrays", 10), ("b.py(5)", "objects", 30)])
    other = ledger(
        {"arrays": 110, "objects": 50, "native": 90},
        [("a.py(2)", "arrays", 70), ("c.py(9)", "arrays", 40), ("b.py(5)", "objects", 50), ("d.py(1)", "native", 20)],
    )
    found = compare_host_parts(base, other, {"a.py(1)": "a.py(2)"})
    assert found.select("part", "difference_bytes", "site").rows() == [
        ("arrays", 100, "a.py(2)"),
        ("native", 83, None),
        ("objects", 0, None),
    ]
    assert compare_host_parts(base, ledger({}, []), {}).is_empty()
