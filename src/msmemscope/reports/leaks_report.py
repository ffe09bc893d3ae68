"""The report on leaks.

The parts that help to find the cause come first:

- call sites with their growth and confidence
- their holders
- blocks that are kept, and blocks that live long
- slow leaks
- memory of the driver by module

Then come the lines that scripts of older tools look for, in their exact form. These are the leaked blocks of each
device, the summary, and the tables of fluctuation. They are never wrapped.
"""

from __future__ import annotations

import dataclasses
from typing import IO, TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.leaks.growth import GrowthBasis
from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE, device_name, device_word, is_accelerator
from msmemscope.model.owners import driver_owner
from msmemscope.model.pools import Pool, is_pinned_memory, pool_word
from msmemscope.reports.host_growth_report import write_copied_pages, write_host_growth, write_pinned_growth
from msmemscope.reports.report_text import ALARM, HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from msmemscope.analysis.leaks.between_marks import MarkLeaks
    from msmemscope.analysis.leaks.cycles import WaitingCycles
    from msmemscope.analysis.leaks.driver_leaks import DriverLeaks
    from msmemscope.analysis.leaks.fluctuation import Fluctuation, PoolFluctuation, StepExtreme
    from msmemscope.analysis.leaks.growth import SlowLeaks
    from msmemscope.analysis.leaks.overview import LeakOverview
    from msmemscope.analysis.leaks.step_leaks import StepLeaks

_MEBIBYTE: Final = 1 << 20
_COLUMN: Final = 25
"""Width of a column of a table of fluctuation."""
_PERCENT: Final = 100
MOST_BLOCKS: Final = 10
"""Leaked blocks of a device that are listed one by one."""
MOST_MARKED_BLOCKS: Final = 100
"""Likewise, between marks, where they come first."""
MOST_SITES: Final = 10
"""Call sites that are listed."""

_POOL_LABELS: Final[dict[int, str]] = {
    Pool.PTA: "Pytorch Caching memory pool",
    Pool.CUDA: "Pytorch Caching memory pool",
    Pool.ATB: "ATB memory pool",
    Pool.MIND_SPORE: "Mindspore memory pool",
    Pool.PTA_WORKSPACE: "Pytorch Workspace memory pool",
    Pool.HOST: "Host memory",
    Pool.HAL: "Hal memory",
}
"""The names of pools in lines of the older form; they knew those of NPUs, and the last one between marks."""


def pool_label(pool: int, device: int) -> str:
    """Return the name of a pool of a device in lines of the older form."""
    return "Pinned host memory" if is_pinned_memory(pool, device) else _POOL_LABELS.get(pool, "Unknown memory pool")


def render_leaks(
    found: LeakOverview,
    out: IO[str],
    *,
    width: int | None = None,
    is_coloured: bool | None = None,
    most_blocks: int | None = MOST_BLOCKS,
) -> None:
    """Write the findings about the leaks of one process.

    Args:
        found: By `analysis.leak_overview.find_leaks`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
        most_blocks: Leaked blocks of a device that are listed one by one; None lists all.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    if found.step_leaks.steps_ended or found.slow_leaks.remarks:
        _sites(writer, found.step_leaks)
    _slow_leaks(writer, found.slow_leaks, found.step_leaks)
    _outside_steps(writer, found.outside_steps.sites)
    _waiting_cycles(writer, found.waiting_cycles)
    _driver(writer, found.driver_leaks)
    write_pinned_growth(writer, found.pinned_growth)
    write_host_growth(writer, found.host_growth)
    write_copied_pages(writer, found.copied_pages)
    if not found.step_leaks.leaked.is_empty() or found.fluctuation.pools:
        writer.gap()
    for _, part in _sorted_parts(found.step_leaks.leaked, "device"):
        _leaked_blocks(writer, part, part.height if most_blocks is None else most_blocks, "at the call sites above")
    _fluctuation(writer, found.fluctuation)


def render_mark_leaks(
    found: MarkLeaks, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the blocks that leaked between marks; arguments as for `render_leaks`."""
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    for device in found.devices:
        writer.exact_line(f"INFO: Starting to analyze data for device {device_word(device.device)}...")
        writer.line()
        writer.exact_line("Leak Analysis Results for the Custom Range:")
        blocks = found.blocks.filter(pl.col("device") == device.device)
        if blocks.is_empty():
            writer.exact_line(f"No memory leaks detected on device {device_word(device.device)}.")
            allocated = counted(device.allocated_blocks, "block")
            writer.sentence(f"{allocated} of all pools allocated between A and B; all freed before C.", style=QUIET)
        else:
            _alarm(writer, device.device)
            for row in blocks.head(MOST_MARKED_BLOCKS).iter_rows(named=True):
                writer.exact_line(
                    f"Direct {pool_label(row['pool'], row['device'])} leak of {row['size'] / _MEBIBYTE} Mb(s) "
                    f"at 0x{row['address']:016x} in Index {row['malloc_sequence']}."
                )
            _more_blocks(writer, blocks.height)
            _summary(writer, device.leaked_bytes, blocks.height)
            if device.reserve_bytes:
                size = format_bytes(device.reserve_bytes)
                writer.sentence(
                    f"Each byte counts once: {size} of it are what memory pools took from the driver beyond the blocks "
                    "of theirs that are listed.",
                    style=QUIET,
                )
            _mark_sites(writer, blocks)
        writer.line()
    for remark in found.remarks:
        writer.sentence(remark, indent=0)


def _alarm(writer: ReportWriter, device: int) -> None:
    rest = f": Detected memory leaks on device {device_word(device)} ======"
    writer.styled_line(("====== ", ""), ("ERROR", ALARM), (rest, ""))


def _summary(writer: ReportWriter, size: int, count: int) -> None:
    writer.exact_line(f"====== SUMMARY: {size / _MEBIBYTE:g} Mb(s) leaked in {count} allocation(s) ======")


def _more_blocks(writer: ReportWriter, count: int) -> None:
    if count > MOST_MARKED_BLOCKS:
        writer.line(f"and {format_count(count - MOST_MARKED_BLOCKS)} more at the call sites below", QUIET)


def _leaked_blocks(writer: ReportWriter, blocks: pl.DataFrame, most: int, rest: str | None) -> None:
    """Write the lines about the leaked blocks of one device.

    Args:
        writer: Where to write them.
        blocks: Those of the device.
        most: How many are listed.
        rest: Where the others are; None if that is not to be said.
    """
    device = blocks["device"][0]
    _alarm(writer, device)
    for row in blocks.sort("step", "malloc_sequence").head(most).iter_rows(named=True):
        where = _allocated_for(row["kernel_index"], row["operator"] if is_accelerator(device) else None)
        writer.exact_line(
            f"Direct {pool_label(row['pool'], device)} leak of {row['size'] / _MEBIBYTE:f} Mb(s) "
            f"at 0x{row['address']:x}{where} at step {row['step']}."
        )
    if rest is not None and blocks.height > most:
        writer.line(f"and {format_count(blocks.height - most)} more {rest}", QUIET)
    _summary(writer, int(blocks["size"].sum()), blocks.height)


def _allocated_for(kernel_index: int | None, operator: str | None) -> str:
    """The purpose of a block: the kernel, or the operator where launches of kernels were not recorded."""
    if kernel_index is not None:
        return f" in kernel_{kernel_index}"
    return f" in {operator.removeprefix('torch._ops.')}" if operator else ""


@dataclasses.dataclass(frozen=True)
class LeakLines:
    """How many of the lines that scripts look for are written."""

    most_blocks: int
    """Leaked blocks that are listed, those of all devices together."""
    most_devices: int
    """Devices whose leaks are summed up."""
    most_pools: int
    """Pools whose fluctuation is listed."""
    rest_is_in: str
    """Where the blocks stand that are not listed."""


def render_leak_lines(
    found: Sequence[LeakOverview],
    out: IO[str],
    which: LeakLines,
    *,
    width: int | None = None,
    is_coloured: bool | None = None,
) -> None:
    """Write the lines that scripts look for, and no more than a part of them.

    Args:
        found: Of each process.
        out: Where to write them.
        which: How many.
        width: As for `render_leaks`.
        is_coloured: As for `render_leaks`.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    parts = [part for one in found for _, part in _sorted_parts(one.step_leaks.leaked, "device")]
    shown = parts[: which.most_devices]
    listed = 0
    for number, part in enumerate(shown):
        # Evenly; a device leaves the lines that it does not need to the next one.
        most = min((which.most_blocks - listed) // (len(shown) - number), part.height)
        _leaked_blocks(writer, part, most, f"in {which.rest_is_in}" if len(shown) == 1 else None)
        listed += most
    unlisted = sum(part.height for part in parts) - listed
    if unlisted and len(shown) > 1:
        writer.line(f"and {format_count(unlisted)} more in {which.rest_is_in}", QUIET)
    pools = [pool for one in found for pool in one.fluctuation.pools]
    # Pools reserve the driver's memory, which hardly moves: their own blocks say more.
    for pool in sorted(pools, key=lambda pool: pool.pool == Pool.HAL)[: which.most_pools]:
        _fluctuation_of(writer, pool)


def _fluctuation(writer: ReportWriter, found: Fluctuation) -> None:
    for pool in found.pools:
        _fluctuation_of(writer, pool)


def _fluctuation_of(writer: ReportWriter, pool: PoolFluctuation) -> None:
    label = pool_label(pool.pool, pool.device)
    writer.exact_line(f"======= {label} Gap Analysis of Device {device_word(pool.device)} =======")
    _gap_row(writer, "", "MinAlloc/MaxAlloc(%)", "MinAllocMem(MB)", "StepId")
    _gap_row(writer, "MinGap", *_gap(pool.smallest))
    _gap_row(writer, "MaxGap", *_gap(pool.largest))


def _gap(extreme: StepExtreme) -> tuple[str, str, str]:
    return f"{extreme.ratio * _PERCENT:.4f}", f"{extreme.minimum_bytes / _MEBIBYTE:.4f}", str(extreme.step)


def _gap_row(writer: ReportWriter, name: str, *cells: str) -> None:
    writer.exact_line(f"{name}\t{''.join(cell.ljust(_COLUMN) for cell in cells)}")


def _sites(writer: ReportWriter, found: StepLeaks) -> None:
    writer.gap()
    for remark in found.remarks:
        writer.sentence(remark.sentence, indent=0)
    if found.remarks:
        return
    leaking = found.leaking_sites
    if leaking.is_empty():
        writer.line(f"No leaks over {_steps(found)}; the first step is warm-up", HEADING)
    else:
        total, blocks = int(leaking["leaked_bytes"].sum()), int(leaking["leaked_blocks"].sum())
        what = f"{format_bytes(total)} in {counted(blocks, 'block')} at {counted(leaking.height, 'call site')}"
        writer.line(f"Leaks over {_steps(found)}: {what}", HEADING)
        ambiguous = _shared_labels(found.sites)
        rows = [
            (
                format_bytes(row["leaked_bytes"]),
                format_count(row["leaked_blocks"]),
                f"{format_bytes(round(row['growth_bytes_per_step']))}",
                f"{row['leaking_steps']} of {row['judged_steps']}",
                row["confidence"],
                _where(row),
                _label(row, ambiguous),
            )
            for row in leaking.head(MOST_SITES).iter_rows(named=True)
        ]
        writer.table(("leaked", "blocks", "per step", "in steps", "confidence", "pool", "call site"), rows, labels=3)
        _more_sites(writer, leaking)
        _held_by(writer, leaking)
        for pool in found.pools:
            writer.sentence(
                f"Peak of {_place(pool.device, pool.pool)}: {format_bytes(pool.peak_bytes)}, without these leaks "
                f"{format_bytes(pool.peak_without_bytes)}."
            )
        writer.sentence(
            "Confidence: high if a call site leaked in 4 steps in a row or 8 in all, medium in 2 or more, low in one.",
            style=QUIET,
        )
    _harmless(writer, found)


def _steps(found: StepLeaks) -> str:
    """The number of judged steps; where the program did not report them, what they were taken from."""
    steps = counted(found.steps_ended, "step")
    return f"{steps} ({found.step_source.words})" if found.step_source.is_implied else steps


def _held_by(writer: ReportWriter, sites: pl.DataFrame) -> None:
    for site, holder in sites.drop_nulls("held_by").head(MOST_SITES).select("site", "held_by").iter_rows():
        writer.sentence(f"{site.rpartition('/')[2]}: held by {holder}")


def _harmless(writer: ReportWriter, found: StepLeaks) -> None:
    """Blocks that outlived the step after their own and are no leaks."""
    kinds = (
        ("kept", "Kept, and not growing", "their call sites have allocated nothing more in the last steps"),
        ("expected", "Alive, and expected to be freed", "their call sites have freed blocks as old as these"),
        ("long_lived", "Long-lived, freed later", "withdrawn from the leaks"),
    )
    ambiguous = _shared_labels(found.sites)
    for name, title, reason in kinds:
        sites = found.sites.filter(pl.col(f"{name}_blocks") > 0).sort(
            [f"{name}_bytes", "site_path"], descending=[True, False]
        )
        if sites.is_empty():
            continue
        size, blocks = int(sites[f"{name}_bytes"].sum()), int(sites[f"{name}_blocks"].sum())
        writer.gap()
        writer.line(f"{title}: {format_bytes(size)} in {counted(blocks, 'block')}", HEADING)
        writer.sentence(f"{reason[0].upper()}{reason[1:]}.", style=QUIET)
        rows = [
            (
                format_bytes(row[f"{name}_bytes"]),
                format_count(row[f"{name}_blocks"]),
                _where(row),
                _label(row, ambiguous),
            )
            for row in sites.head(MOST_SITES // 2).iter_rows(named=True)
        ]
        writer.table(("size", "blocks", "pool", "call site"), rows, labels=2)
        _more_sites(writer, sites, MOST_SITES // 2)


def _more_sites(writer: ReportWriter, sites: pl.DataFrame, limit: int = MOST_SITES) -> None:
    if sites.height > limit:
        writer.sentence(f"... and {counted(sites.height - limit, 'more call site')}", style=QUIET)


def _slow_leaks(writer: ReportWriter, found: SlowLeaks, steps: StepLeaks) -> None:
    """Sites that grow although their blocks are freed; those that leak stand above already."""
    reported = steps.leaking_sites.select("device", "pool", "site_path")
    sites = found.sites.join(reported, on=["device", "pool", "site_path"], how="anti", maintain_order="left")
    in_parts = found.basis is GrowthBasis.PARTS
    if not sites.is_empty():
        writer.gap()
        if in_parts:
            writer.line("Growth: live memory grows from one part of the run to the next", HEADING)
            writer.sentence("No steps are known: parts of the run with as many allocations each are judged.")
        else:
            writer.line("Slow leaks: live memory grows although blocks are freed", HEADING)
        rows = [
            (
                format_bytes(round(row["slope_bytes_per_step"])),
                f"{format_bytes(row['first_bytes'])} to {format_bytes(row['last_bytes'])}",
                f"{row['first_step']} to {row['last_step']}",
                f"{row['significance']:.1e}",
                _where(row),
                row["site"],
            )
            for row in sites.head(MOST_SITES).iter_rows(named=True)
        ]
        unit = "part" if in_parts else "step"
        writer.table((f"per {unit}", "alive", f"{unit}s", "by chance", "pool", "call site"), rows, labels=2)
        _more_sites(writer, sites)
        _held_by(writer, sites)
    elif in_parts and not found.remarks:
        writer.gap()
        judged = counted(found.judged_sites, "call site")
        writer.line(f"No growth over the run, without steps: {judged} judged", HEADING)
        for sentence in found.explained:
            writer.sentence(sentence, style=QUIET)
    elif found.remarks and not steps.remarks:
        writer.gap()
        for remark in found.remarks:
            writer.sentence(remark.sentence, indent=0)


def _outside_steps(writer: ReportWriter, sites: pl.DataFrame) -> None:
    if sites.is_empty():
        return
    writer.gap()
    writer.line("Growth outside of steps: what a phase of the program left is still there in the end", HEADING)
    rows = [
        (format_bytes(row["last_bytes"] - row["first_bytes"]), row["phase"], _where(row), row["site"])
        for row in sites.head(MOST_SITES).iter_rows(named=True)
    ]
    writer.table(("grown by", "when", "pool", "call site"), rows, labels=3)
    _more_sites(writer, sites)
    _held_by(writer, sites)


def _waiting_cycles(writer: ReportWriter, found: Sequence[WaitingCycles]) -> None:
    for one in found:
        writer.gap()
        writer.line(
            f"Waiting for the garbage collector: {format_bytes(one.waiting_bytes)} of {_place(one.device, one.pool)}",
            HEADING,
        )
        blocks = counted(one.found_blocks, "block")
        if one.is_collected:
            writer.sentence(
                f"After step {one.step} the collector began by itself and freed {format_bytes(one.found_bytes)} in {blocks}, "
                "without the newest ones of each line."
            )
        else:
            writer.sentence(
                f"After step {one.step} a search found {format_bytes(one.found_bytes)} in {blocks} that only a reference "
                "cycle keeps. The rest is an estimate for the peak of the pool."
            )
        if one.site:
            writer.sentence(f"allocated at {one.site}")
        writer.sentence(f"the cycle: {one.cycle}")
        writer.sentence(
            "Break the cycle, for example with a weak reference, or call gc.collect() where such an object has done its work."
        )


def _driver(writer: ReportWriter, found: DriverLeaks) -> None:
    if not found.was_observed:
        return
    modules = found.modules.filter(pl.col("leaked_blocks") > 0)
    reserve = int(found.modules["reserve_bytes"].sum())
    beside = f"; beside {format_bytes(reserve)} that memory pools hold in reserve" if reserve else ""
    writer.gap()
    if modules.is_empty():
        writer.line(f"Memory of the driver: all given back at the end{beside}", HEADING)
        return
    size, blocks = int(modules["leaked_bytes"].sum()), int(modules["leaked_blocks"].sum())
    writer.line(
        f"Memory of the driver never given back: {format_bytes(size)} in {counted(blocks, 'block')}{beside}", HEADING
    )
    rows = [
        (
            format_bytes(row["leaked_bytes"]),
            format_count(row["leaked_blocks"]),
            device_name(row["device"]),
            driver_owner(row["module"], row["device"]),
        )
        for row in modules.head(MOST_SITES).iter_rows(named=True)
    ]
    writer.table(("size", "blocks", "device", "module"), rows, labels=2)
    largest = (
        found.blocks.filter(~pl.col("is_reserve"))
        .group_by("device", "module", "site")
        .agg(pl.col("size").sum(), pl.len().alias("blocks"))
        .sort(["size", "site", "device", "module"], descending=[True, False, False, False])
    )
    sites = [
        (format_bytes(row["size"]), format_count(row["blocks"]), device_name(row["device"]), row["module"], row["site"])
        for row in largest.head(MOST_SITES // 2).iter_rows(named=True)
    ]
    writer.table(("size", "blocks", "device", "module", "call site"), sites, labels=3)


def _mark_sites(writer: ReportWriter, blocks: pl.DataFrame) -> None:
    sites = (
        # A segment whose every byte is a pool's block has nothing of its own.
        blocks.filter(pl.col("counted_bytes") > 0)
        .group_by("device", "pool", "site")
        .agg(pl.col("counted_bytes").sum(), pl.len().alias("blocks"))
        .sort(["counted_bytes", "site", "pool"], descending=[True, False, False])
    )
    rows = [
        (format_bytes(row["counted_bytes"]), format_count(row["blocks"]), _where(row), row["site"])
        for row in sites.head(MOST_SITES).iter_rows(named=True)
    ]
    writer.table(("leaked", "blocks", "pool", "call site"), rows, labels=2)
    _more_sites(writer, sites)


def _shared_labels(sites: pl.DataFrame) -> set[str]:
    """Labels that several call sites share: a helper that is called from several lines."""
    return set(sites.group_by("site").agg(pl.col("site_path").n_unique()).filter(pl.col("site_path") > 1)["site"])


def _label(row: dict[str, Any], ambiguous: set[str]) -> str:
    """The line of a call site; with the line that called it, if that is needed to tell it from others."""
    callers = row["site_path"].splitlines()[1:]
    if row["site"] not in ambiguous or not callers or "\n" in row["site"]:
        return str(row["site"])
    return f"{row['site']}, from {callers[0].rpartition('/')[2]}"


def _place(device: int, pool: int) -> str:
    return f"{device_name(device)} ({pool_word(pool, device)})"


def _where(row: dict[str, Any]) -> str:
    return f"{device_name(row['device'])} {pool_word(row['pool'], row['device'])}"


def _sorted_parts(table: pl.DataFrame, column: str) -> Iterable[tuple[tuple[Any, ...], pl.DataFrame]]:
    """Parts by device: accelerators in order, then the cpu."""
    parts = table.partition_by(column, as_dict=True)
    last = {DEVICE_NONE: 1, DEVICE_CPU: 2}
    return sorted(parts.items(), key=lambda item: (last.get(item[0][0], 0), item[0][0]))
