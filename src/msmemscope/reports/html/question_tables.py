"""The part of each question on the page: tables of its result."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.inefficient.finding_rows import with_line_savings
from msmemscope.analysis.leaks.growth import GrowthBasis
from msmemscope.reports.html.tables import PLACE, ColumnKind, ReportTable, TableColumn, table_of, with_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.analysis.host.host_ledger import HostLedger
    from msmemscope.analysis.inefficient.inefficient import InefficientResult
    from msmemscope.analysis.leaks.overview import LeakOverview
    from msmemscope.analysis.peak.explanation import PeakExplanation
    from msmemscope.analysis.peak.out_of_memory import OutOfMemoryResult
    from msmemscope.analysis.reserved.reserved import ReservedResult
    from msmemscope.analysis.watch.verdict import WatchResult

_BYTES: Final = ColumnKind.BYTES
_COUNT: Final = ColumnKind.COUNT
_SITE: Final = ColumnKind.SITE
_POOL: Final = TableColumn("pool", PLACE)
_CYCLE_SCHEMA: Final = pl.Schema(
    {"device": pl.Int16(), "pool": pl.UInt8(), "waiting_bytes": pl.Int64(), "site": pl.String(), "cycle": pl.String()}
)


def leaks_tables(result: LeakOverview) -> Sequence[ReportTable]:
    """Return leaks by call site, growing call sites, and blocks that outlived their step without being leaks.

    Args:
        result: Of the question `leaks`.
    """
    steps, slow = result.step_leaks, result.slow_leaks
    part = "part" if slow.basis is GrowthBasis.PARTS else "step"
    harmless = [
        table_of(
            title,
            with_places(sites),
            (
                TableColumn("size", f"{name}_bytes", _BYTES),
                TableColumn("blocks", f"{name}_blocks", _COUNT),
                _POOL,
                TableColumn("call site", "site", _SITE),
            ),
            note=note,
        )
        for name, title, note in (
            ("kept", "Kept, and not growing", "Their call sites have allocated nothing more in the last steps."),
            ("expected", "Alive, and expected to be freed", "Their call sites have freed blocks as old as these."),
            ("long_lived", "Long-lived, freed later", "Withdrawn from the leaks."),
        )
        if not (sites := _largest(steps.sites.filter(pl.col(f"{name}_blocks") > 0), f"{name}_bytes")).is_empty()
    ]
    tables = [
        table_of(
            "Leaks by call site",
            with_places(_largest(steps.leaking_sites, "leaked_bytes")),
            (
                TableColumn("leaked", "leaked_bytes", _BYTES),
                TableColumn("blocks", "leaked_blocks", _COUNT),
                TableColumn("per step", "growth_bytes_per_step", _BYTES),
                TableColumn("steps with a leak", "leaking_steps", _COUNT),
                TableColumn("steps judged", "judged_steps", _COUNT),
                TableColumn("confidence", "confidence"),
                TableColumn("peak without it", "peak_without_bytes", _BYTES),
                _POOL,
                TableColumn("call site", "site", _SITE),
                TableColumn("held by", "held_by"),
            ),
            note="Confidence: high if a call site leaked in 4 steps in a row or 8 in all, medium in 2 or more, low in one.",
        ),
        table_of(
            f"Call sites that grow from {part} to {part}",
            with_places(slow.sites),
            (
                TableColumn(f"per {part}", "slope_bytes_per_step", _BYTES),
                TableColumn("at first", "first_bytes", _BYTES),
                TableColumn("at last", "last_bytes", _BYTES),
                TableColumn(f"first {part}", "first_step", _COUNT),
                TableColumn(f"last {part}", "last_step", _COUNT),
                _POOL,
                TableColumn("call site", "site", _SITE),
                TableColumn("held by", "held_by"),
            ),
        ),
        table_of(
            "Growth outside of steps",
            with_places(result.outside_steps.sites),
            (
                TableColumn("when", "phase"),
                TableColumn("at first", "first_bytes", _BYTES),
                TableColumn("at last", "last_bytes", _BYTES),
                _POOL,
                TableColumn("call site", "site", _SITE),
                TableColumn("held by", "held_by"),
            ),
            note="A phase of the program left this memory, and it is still in use at the end.",
        ),
        table_of(
            "Waiting for the garbage collector",
            with_places(pl.DataFrame([dataclasses.asdict(one) for one in result.waiting_cycles], schema=_CYCLE_SCHEMA)),
            (
                TableColumn("size", "waiting_bytes", _BYTES),
                _POOL,
                TableColumn("call site", "site", _SITE),
                TableColumn("cycle", "cycle"),
            ),
            note="Break the cycle, for example with a weak reference, or call gc.collect() where such an object has done its work.",
        ),
    ]
    return [table for table in (*tables, *harmless) if table.rows]


def host_tables(result: HostLedger) -> Sequence[ReportTable]:
    """Return the parts of the host memory, and the lines that made what is sampled of it.

    Args:
        result: Of the question `host`.
    """
    parts = table_of(
        "Host memory",
        result.parts,
        (
            TableColumn("part", "part"),
            TableColumn("at the peak", "peak_bytes", _BYTES),
            TableColumn("error", "peak_error_bytes", _BYTES),
            TableColumn("at the end", "end_bytes", _BYTES),
        ),
        note="All parts add up to the resident memory. Samples estimate the parts that have an error.",
    )
    lines = table_of(
        "Host memory outside of tensors at its peak, by line",
        result.lines,
        (
            TableColumn("size", "peak_bytes", _BYTES),
            TableColumn("samples", "samples"),
            TableColumn("memory", "what"),
            TableColumn("line", "site", _SITE),
        ),
    )
    containers = table_of(
        "Containers that go on to grow",
        result.containers,
        (
            TableColumn("grown by", "grown_bytes", _BYTES),
            TableColumn("entries", "entries"),
            TableColumn("new entries", "grown_entries"),
            TableColumn("type", "type"),
            TableColumn("type of its entries", "entry_type"),
            TableColumn("container", "held_by"),
        ),
        note="Remove entries when they are done with, or give the container a bound.",
    )
    return [table for table in (parts, lines, containers) if table.rows]


def reserved_tables(result: ReservedResult) -> Sequence[ReportTable]:
    """Return the reserved and idle memory, and why it is idle.

    Args:
        result: Of the question `reserved`.
    """
    table = table_of(
        "Memory that is reserved and idle",
        with_places(result.to_polars()),
        (
            TableColumn("idle", "idle_bytes", _BYTES),
            TableColumn("reserved", "reserved_bytes", _BYTES),
            TableColumn("in use", "in_use_bytes", _BYTES),
            TableColumn("cause", "cause"),
            _POOL,
            TableColumn("call site", "site", _SITE),
        ),
    )
    return [table] if table.rows else []


def inefficient_tables(result: InefficientResult) -> Sequence[ReportTable]:
    """Return the savings of fixing everything in each pool, findings by call site, and the single blocks.

    Args:
        result: Of the question `inefficient`.
    """
    schema = {name: pl.Int64() for name in ("device", "pool", "peak_bytes", "peak_if_fixed_bytes")}
    pools = [(one.device, one.pool, one.peak_bytes, one.peak_if_fixed_bytes) for one in result.pools]
    savings = pl.DataFrame(pools, schema, orient="row").with_columns(
        saved_bytes=pl.col("peak_bytes") - pl.col("peak_if_fixed_bytes")
    )
    sites = with_line_savings(
        result.findings.group_by("device", "pool", "kind", "call_site", "site_path")
        .agg(pl.len().alias("blocks"), pl.col("size", "byte_operators").sum(), pl.col("saved_bytes").max())
        .sort("size", "call_site", "kind", descending=[True, False, False]),
        result.pools,
    )
    tables = (
        table_of(
            "Saved by fixing all of it",
            with_places(savings),
            (
                TableColumn("peak", "peak_bytes", _BYTES),
                TableColumn("peak if fixed", "peak_if_fixed_bytes", _BYTES),
                TableColumn("saved", "saved_bytes", _BYTES),
                _POOL,
            ),
        ),
        table_of(
            "Inefficient memory by call site",
            with_places(sites),
            (
                TableColumn("saved at the peak", "saved_bytes", _BYTES),
                TableColumn("size", "size", _BYTES),
                TableColumn("blocks", "blocks", _COUNT),
                TableColumn("kind", "kind"),
                _POOL,
                TableColumn("call site", "call_site", _SITE),
            ),
            note="Saved at the peak: by how much it would be lower if the findings of the call site were fixed.",
        ),
        table_of(
            "Inefficient blocks",
            with_places(result.findings),
            (
                TableColumn("saved at the peak", "saved_bytes", _BYTES),
                TableColumn("size", "size", _BYTES),
                TableColumn("operators wasted", "operators_wasted", _COUNT),
                TableColumn("kind", "kind"),
                TableColumn("step", "step", _COUNT),
                TableColumn("from operator", "from_operator"),
                TableColumn("to operator", "to_operator"),
                _POOL,
                TableColumn("call site", "call_site", _SITE),
            ),
        ),
    )
    return [table for table in tables if table.rows]


def peak_tables(result: PeakExplanation) -> Sequence[ReportTable]:
    """Return the call sites of the peak with the peak without each, and the blocks that came last.

    Args:
        result: Of the question `peak`.
    """
    last = [pl.DataFrame(), *(device.recent for device in result.devices)]
    recent = pl.concat(last, how="diagonal")
    tables = [
        table_of(
            "In use at the peak, by call site",
            with_places(result.to_polars()),
            (
                TableColumn("in use", "size_bytes", _BYTES),
                TableColumn("blocks", "block_count", _COUNT),
                TableColumn("largest", "largest_bytes", _BYTES),
                TableColumn("off the peak", "saved_bytes", _BYTES),
                TableColumn("step of the oldest", "oldest_step", _COUNT),
                _POOL,
                TableColumn("call site", "site", _SITE),
            ),
            note="Off the peak: by how much it would be lower if the call site had allocated nothing. "
            "Where an allocation failed, that moment takes the place of the peak.",
        )
    ]
    if not recent.is_empty():
        tables.append(
            table_of(
                "Allocated last before the peak",
                with_places(recent),
                (
                    TableColumn("size", "size_bytes", _BYTES),
                    TableColumn("blocks", "block_count", _COUNT),
                    TableColumn("operator", "operator"),
                    TableColumn("device", PLACE),
                    TableColumn("call site", "site", _SITE),
                ),
            )
        )
    return [table for table in tables if table.rows]


def out_of_memory_tables(result: OutOfMemoryResult) -> Sequence[ReportTable]:
    """Return the failed allocations that are described, and the largest blocks that were alive at the last one.

    Args:
        result: Of the question `oom`.
    """
    if not result.failures:
        return ()
    failures = with_places(result.to_polars().reverse())
    alive = pl.DataFrame(
        [
            (one.size_bytes, one.count, one.operator, one.source_line, result.failures[-1].device, one.pool)
            for one in result.failures[-1].largest
        ],
        {
            "size": pl.Int64(), "count": pl.Int64(), "operator": pl.String(), "site": pl.String(), "device": pl.Int64(),
            "pool": pl.Int64(),
        },
        orient="row",
    )  # fmt: skip
    table = table_of(
        "Failed allocations, the latest first",
        failures,
        (
            TableColumn("asked for", "size_bytes", _BYTES),
            TableColumn("attempts", "attempts", _COUNT),
            TableColumn("device", PLACE),
            TableColumn("why", "verdict"),
            TableColumn("call site", "source_line", _SITE),
        ),
    )
    largest = table_of(
        "Largest blocks alive when memory ran out",
        with_places(alive),
        (
            TableColumn("size of one", "size", _BYTES),
            TableColumn("blocks", "count", _COUNT),
            TableColumn("operator", "operator"),
            _POOL,
            TableColumn("call site", "site", _SITE),
        ),
    )
    return [one for one in (table, largest) if one.rows]


def watch_tables(result: WatchResult) -> Sequence[ReportTable]:
    """Return the changes of watched memory, the unexpected ones first.

    Args:
        result: Of the question `watch`.
    """
    order = pl.col("verdict").replace_strict({"unexpected": 0, "unknown": 1}, default=2, return_dtype=pl.Int8)
    changes = result.changes.sort(order, "sequence")
    table = table_of(
        "Changes of watched memory",
        with_places(changes),
        (
            TableColumn("verdict", "verdict"),
            TableColumn("changed", "changed_bytes", _BYTES),
            TableColumn("name", "name"),
            TableColumn("operator", "operator"),
            TableColumn("device", PLACE),
            TableColumn("call site", "call_site", _SITE),
            TableColumn("what happened", "sentence"),
        ),
    )
    return [table] if table.rows else []


def _largest(sites: pl.DataFrame, column: str) -> pl.DataFrame:
    return sites.sort([column, "site_path"], descending=[True, False])
