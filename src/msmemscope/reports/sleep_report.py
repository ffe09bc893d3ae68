"""The report on memory that stays in use while a program's device memory sleeps."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.sleep.sleep import LEAST_CYCLES
from msmemscope.model.devices import device_name
from msmemscope.model.pools import POOL_WORDS, Pool, pool_word
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted, short_site
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.analysis.sleep.sleep import SleepResult

MOST_ROWS: Final = 12
"""Rows of memory that stays that are listed."""
_MOST_CYCLES: Final = 10
"""Sleeps that are listed: the first ones and the last ones, if there are more."""


def render_sleep(
    found: SleepResult, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the memory that stays in use while memory sleeps, and the part of it that grows.

    Args:
        found: By `analysis.sleep.examine_sleep`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    for device in found.devices:
        _write_device(found, device, writer)


def _write_device(found: SleepResult, device: int, writer: ReportWriter) -> None:
    cycles = found.cycles.filter(pl.col("device") == device)
    sites = found.sites.filter(pl.col("device") == device)
    growing = sites.filter("is_growing")
    writer.sentence(f"{device_name(device)}: {_verdict(found, device, growing)}", indent=0, style=HEADING)
    for row in growing.iter_rows(named=True):
        writer.sentence(
            f"{_words(row)} keeps {format_bytes(row['growth_bytes_per_cycle'])} more with each sleep: "
            f"{format_bytes(row['first_bytes'])} in sleep {found.judged[0] if found.judged else 1}, "
            f"{format_bytes(row['last_bytes'])} in sleep {len(cycles)}"
        )
    writer.table(
        ("sleep", "in use before", "asleep", "given back"),
        [
            (str(row["cycle"]), *(_size(size) for size in (
                row["awake_bytes"], row["asleep_bytes"], row["awake_bytes"] - row["asleep_bytes"]
            )))
            for row in _shown(cycles).iter_rows(named=True)
        ],
        labels=0,
    )  # fmt: skip
    if cycles.height > _MOST_CYCLES:
        writer.sentence(f"and {counted(cycles.height - _MOST_CYCLES, 'sleep')} between these", style=QUIET)
    stays = sites.filter(pl.col("last_bytes") > 0).sort("last_bytes", descending=True, maintain_order=True)
    if stays.is_empty():
        return
    writer.sentence(f"In use during the last sleep, number {cycles.height}", style=QUIET)
    writer.table(
        ("size", "per sleep", "blocks", "what", "owner", "call site"),
        [
            (
                format_bytes(row["last_bytes"]),
                _growth(row["growth_bytes_per_cycle"]),
                "" if row["is_reserve"] else str(row["block_count"]),
                _place(row),
                row["owner"] or "",
                row["site"] or "",
            )
            for row in stays.head(MOST_ROWS).iter_rows(named=True)
        ],
        labels=3,
    )
    if stays.height > MOST_ROWS:
        writer.sentence(f"and {counted(stays.height - MOST_ROWS, 'more row')}", style=QUIET)


def _verdict(found: SleepResult, device: int, growing: pl.DataFrame) -> str:
    cycles = found.cycles.filter(pl.col("device") == device)
    last = cycles.row(-1, named=True)
    stays = format_bytes(last["asleep_bytes"])
    if not growing.is_empty():
        row = growing.row(0, named=True)
        others = f" and {counted(growing.height - 1, 'other')}" if growing.height > 1 else ""
        return (
            f"{format_bytes(row['growth_bytes_per_cycle'])} more stays in use with each sleep at {_words(row)}{others}; "
            f"{stays} in sleep {last['cycle']}"
        )
    if last["asleep_bytes"] == 0:
        stays_words = "nothing stays in use while asleep"
    elif last["asleep_bytes"] >= last["awake_bytes"]:
        stays_words = f"sleep gives nothing back, {stays} stays in use"
    else:
        kept = found.sites.filter((pl.col("device") == device) & (pl.col("last_bytes") > 0))
        largest = kept.sort("last_bytes", descending=True, maintain_order=True).row(0, named=True)
        stays_words = (
            f"{stays} stays in use while asleep, {format_bytes(largest['last_bytes'])} of it at {_words(largest)}"
        )
    if found.judged is None:
        return f"{stays_words}; growth is judged from {LEAST_CYCLES} sleeps on, there {_were(last['cycle'])}"
    return f"{stays_words}; nothing grows from sleep to sleep"


def _were(count: int) -> str:
    return "was 1" if count == 1 else f"were {count}"


def _words(row: Mapping[str, Any]) -> str:
    """The name of a row, for people: the line, else the pool or module."""
    if row["is_reserve"]:
        return f"what {_pools(row)} holds without use"
    return short_site(row["site"])


def _place(row: Mapping[str, Any]) -> str:
    if row["is_reserve"]:
        return f"{_pools(row)}, not in use"
    return pool_word(row["pool"], row["device"])


def _pools(row: Mapping[str, Any]) -> str:
    return "all pools" if row["pool"] == Pool.HAL else f"the pool {POOL_WORDS[row['pool']]}"


def _shown(cycles: pl.DataFrame) -> pl.DataFrame:
    if cycles.height <= _MOST_CYCLES:
        return cycles
    half = _MOST_CYCLES // 2
    return pl.concat([cycles.head(half), cycles.tail(half)])


def _growth(size_bytes: int | None) -> str:
    return (
        "" if size_bytes is None else "0" if size_bytes == 0 else f"{'+' if size_bytes > 0 else ''}{_size(size_bytes)}"
    )


def _size(size_bytes: int) -> str:
    return format_bytes(size_bytes) if size_bytes >= 0 else f"-{format_bytes(-size_bytes)}"
