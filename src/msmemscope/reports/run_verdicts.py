"""The verdicts of a run: its findings, the gravest first.

Findings of several processes at the same line are one verdict, with their ranks.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.devices import DEVICE_CPU, device_name
from msmemscope.model.holders import HELD_BY_C, IN_CYCLE
from msmemscope.model.pools import Pool, pool_word
from msmemscope.reports.report_text import short_site
from msmemscope.reports.verdict import Verdict, VerdictKind
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from msmemscope.reports.run_summary import ProcessSummary

_GRAVITY: Final = {kind: number for number, kind in enumerate(VerdictKind)} | {
    VerdictKind.HOST_MEMORY: [*VerdictKind].index(VerdictKind.SLOW_LEAK)
}
"""Slow growth is as grave on the host as on a device: there the larger one comes first."""
_GROWTH_ABOVE_LEAK: Final = 2
"""The growth of a line is said in the place of its leak if it is so many times as large."""
LEAST_LEAK_BYTES: Final = 64 << 10
LEAST_LEAK_SHARE: Final = 1 / 1000
"""Of the peak of its pool. Only `analyze leaks` tells of leaks below both: numbers that a history keeps, say."""
_LEAST_SHARE_SAID: Final = 0.001
_LEAST_SHARE_SAVED: Final = 0.01
"""Of the peak that fixing inefficient memory must save to be worth a verdict."""


def verdicts(processes: Sequence[ProcessSummary]) -> list[Verdict]:
    """Return the findings of some processes, the gravest first, then by size; the same line of several is one.

    Args:
        processes: All of a run.
    """
    merged: dict[tuple[VerdictKind, str, int, str], Verdict] = {}
    for process in processes:
        for one in verdicts_of_process(process):
            # Ranks have a card each: two findings can be the same on different cards.
            key = (one.kind, one.site, one.pool, device_name(one.device).partition(":")[0])
            known = merged.get(key)
            merged[key] = one if known is None else _together(known, one)
    peaks: dict[tuple[int, int], int] = {}
    for process in processes:
        for peak in process.overview.peaks if process.overview is not None else ():
            of_pool = (peak.device, peak.pool)
            peaks[of_pool] = max(peaks.get(of_pool, 0), peak.peak_bytes)
    by_size = sorted(merged.values(), key=lambda one: (_GRAVITY[one.kind], -one.size_bytes, one.site))
    leaks = {VerdictKind.LEAK, VerdictKind.SLOW_LEAK}
    return [
        one
        for one in _leaks_of_pools(by_size)
        if one.kind not in leaks
        or one.size_bytes >= min(LEAST_LEAK_BYTES, LEAST_LEAK_SHARE * peaks.get((one.device, one.pool), 0))
    ]


def _leaks_of_pools(found: Iterable[Verdict]) -> Iterator[Verdict]:
    """Put the leaks of a pool together: a tensor that is kept with its graph keeps blocks of many lines.

    Those that containers of two variables hold are two leaks, if they are on one device. Where no container is known,
    blocks go with the largest one.
    """
    leaks: dict[tuple[VerdictKind, str, int, str], list[Verdict]] = {}
    for one in found:
        if one.kind in {VerdictKind.LEAK, VerdictKind.SLOW_LEAK} and not one.known_sentence:
            place = one.kind, device_name(one.device).partition(":")[0], one.pool
            root = _variable_of(one.held_by)
            same = next(
                (key for key, parts in leaks.items() if key[:3] == place and _is_same_leak(one, root, key[3], parts)),
                None,
            )
            leaks.setdefault(same or (*place, root), []).append(one)
        else:
            leaks[one.kind, str(id(one)), one.pool, ""] = [one]
    for parts in leaks.values():
        worst = parts[0]
        processes = dict.fromkeys(process for part in parts for process in part.processes)
        yield (
            worst
            if len(parts) == 1
            else dataclasses.replace(
                worst,
                size_bytes=sum(part.size_bytes for part in parts),
                block_count=sum(part.block_count for part in parts),
                other_devices=_others(worst.device, parts),
                processes=tuple(processes),
                held_by=_main_holder(parts),
                bytes_by_site=tuple((part.site, part.size_bytes) for part in parts),
                growth_bytes=sum(part.growth_bytes for part in parts),
            )
        )


def _is_same_leak(one: Verdict, root: str, other_root: str, parts: Sequence[Verdict]) -> bool:
    """Whether a leak goes with others, by the variables that lead to them: each device can have one of its own."""
    is_elsewhere = all(one.device not in {part.device, *part.other_devices} for part in parts)
    return not root or not other_root or root == other_root or is_elsewhere


def _variable_of(holder: str) -> str:
    """Return the variable that leads to an entry of a container: `main.logger`; empty where there is none."""
    chain, _, variable = holder.rpartition(", from ")
    return (variable or holder).partition("[")[0] if "[" in holder and chain != holder else ""


def _main_holder(parts: Sequence[Verdict]) -> str:
    """Return the known holder of the largest part.

    C++ counts only where it holds more than variables do.
    """
    known = [part for part in parts if part.held_by]
    variables = [part for part in known if part.held_by != HELD_BY_C]
    of_variables, of_all = (sum(part.size_bytes for part in some) for some in (variables, known))
    chosen = variables if 2 * of_variables >= of_all else known
    return next((part.held_by for part in chosen), "")


def _together(known: Verdict, one: Verdict) -> Verdict:
    worst, other = (one, known) if one.size_bytes > known.size_bytes / len(known.processes) else (known, one)
    return dataclasses.replace(
        worst,
        size_bytes=known.size_bytes + one.size_bytes,
        block_count=known.block_count + one.block_count,
        other_devices=_others(worst.device, (known, one)),
        processes=(*worst.processes, *(process for process in other.processes if process not in worst.processes)),
    )


def _others(device: int, parts: Sequence[Verdict]) -> tuple[int, ...]:
    """The devices of some verdicts but one."""
    return tuple(sorted({one for part in parts for one in (part.device, *part.other_devices)} - {device}))


def verdicts_of_process(process: ProcessSummary) -> Iterator[Verdict]:
    """Return the findings of one process, each line by itself.

    Leaks that are the cause of its failure are in that verdict: those of its line, or those that its holder holds.
    """
    yield from _out_of_memory(process)
    yield from _overwritten(process)
    is_said = _said_by_failure(process)
    yield from _by_line(leak for leak in leaks_of_process(process) if not is_said(leak))
    yield from _host_memory(process)
    yield from _declared_writes(process)
    yield from _reserved(process)
    yield from _inefficient(process)


def _by_line(leaks: Iterable[Verdict]) -> Iterator[Verdict]:
    """Put together what a line of one process leaks, by whatever way it is reached."""
    from msmemscope.recording.holders import common_chain, container_text

    lines: dict[tuple[VerdictKind, str, int, int], Verdict] = {}
    for one in leaks:
        if one.known_sentence:
            yield one
            continue
        key = (one.kind, one.site, one.pool, one.device)
        known = lines.get(key)
        if known is None:
            lines[key] = one
            continue
        worst = max(known, one, key=lambda verdict: verdict.size_bytes)
        is_same = bool(worst.held_by) and container_text(known.held_by) == container_text(one.held_by)
        lines[key] = dataclasses.replace(
            worst,
            size_bytes=known.size_bytes + one.size_bytes,
            block_count=known.block_count + one.block_count,
            growth_bytes=known.growth_bytes + one.growth_bytes,
            held_by=common_chain([known.held_by, one.held_by]) if is_same else worst.held_by,
        )
    yield from lines.values()


def leaks_of_process(process: ProcessSummary) -> Iterator[Verdict]:
    """Return all leaks of one process, each line by itself."""
    yield from _leaks(process)
    yield from _waiting_cycles(process)


def _said_by_failure(process: ProcessSummary) -> Callable[[Verdict], bool]:
    """Return a test that tells whether the cause of a process's last failure already says all about a leak.

    Where the program has ended with it, memory behind the last step is that of the step that failed.
    """
    from msmemscope.analysis.leaks.growth_outside_steps import AFTER_LAST_STEP
    from msmemscope.analysis.peak.cause_words import OF_KEPT
    from msmemscope.recording.holders import container_text

    result = process.overview.out_of_memory if process.overview is not None else None
    cause = result.failures[-1].cause if result is not None and result.failures else None
    if cause is None:
        return lambda _: False
    is_of_failed_step = cause.step > 0 and not cause.is_handled
    if cause.cause not in OF_KEPT:
        return lambda leak: is_of_failed_step and leak.text == AFTER_LAST_STEP
    held_by = cause.candidates[0].held_by
    return lambda leak: (
        (is_of_failed_step and leak.text == AFTER_LAST_STEP)
        or (bool(cause.site) and leak.site == cause.site)
        or (bool(held_by) and container_text(leak.held_by) == container_text(held_by))
    )


def _out_of_memory(process: ProcessSummary) -> Iterator[Verdict]:
    result = process.overview.out_of_memory if process.overview is not None else None
    from msmemscope.reports.end_at_limit_words import parts_at_its_end, words_of_end

    if process.killed_at_bytes is not None or process.was_lost_near_limit:
        yield Verdict(
            VerdictKind.OUT_OF_MEMORY, DEVICE_CPU, Pool.HOST, 0, "", "", (process,), known_sentence=words_of_end(process),
            known_command=f"msmemscope analyze {'host' if parts_at_its_end(process) else 'peak'}",
        )  # fmt: skip
        return
    if result is None or not result.failures:
        return
    from msmemscope.reports.out_of_memory_report import asked_for, verdict

    failure = result.failures[-1]
    pool = failure.largest[0].pool if failure.largest else 0
    text = asked_for(failure, process.start_ns)
    known = failure.cause
    yield Verdict(
        VerdictKind.OUT_OF_MEMORY,
        failure.device,
        pool,
        0,
        failure.source_line if known is None else known.site,
        text,
        (process,),
        known_sentence="" if known is None else verdict(known),
        known_command="" if known is None else known.next_command,
    )


def _overwritten(process: ProcessSummary) -> Iterator[Verdict]:
    if process.watch is None:
        return
    for row in process.watch.unexpected.iter_rows(named=True):
        size = row["changed_bytes"] or 0
        site = row["call_site"] or ""
        is_between = row["when"] == "between"
        yield Verdict(
            VerdictKind.OVERWRITTEN,
            row["device"],
            0,
            size,
            site,
            row["sentence"],
            (process,),
            is_before_site=is_between,
        )


def _declared_writes(process: ProcessSummary) -> Iterator[Verdict]:
    if process.watch is None:
        return
    for row in process.watch.declared.iter_rows(named=True):
        size, site = row["changed_bytes"], row["call_site"] or ""
        yield Verdict(VerdictKind.DECLARED_WRITE, row["device"], 0, size, site, row["sentence"], (process,))


def _leaks(process: ProcessSummary) -> Iterator[Verdict]:
    if process.leaks is None:
        return
    from msmemscope.analysis.leaks.growth import GrowthBasis

    key = ["device", "pool", "site_path"]
    found = process.leaks.slow_leaks
    grown = pl.col("last_bytes") - pl.col("first_bytes")
    # A queue that fills frees what it holds as well: that some blocks leak is then the smaller part of the truth.
    leaking = process.leaks.step_leaks.leaking_sites.join(
        found.sites.select(*key, growth=grown), on=key, how="left", maintain_order="left"
    ).filter(pl.col("growth").is_null() | (pl.col("growth") <= _GROWTH_ABOVE_LEAK * pl.col("leaked_bytes")))
    for row in leaking.iter_rows(named=True):
        is_once = row["first_step"] == row["last_step"]
        yield Verdict(
            VerdictKind.LEAK,
            row["device"],
            row["pool"],
            row["leaked_bytes"],
            row["site"] or "",
            f"in step {row['first_step']}" if is_once else f"in steps {row['first_step']} to {row['last_step']}",
            (process,),
            row["leaked_blocks"],
            held_by=row["held_by"] or "",
            remedy=_remedy_of_views(row["viewed_share"]),
            growth_bytes=0 if is_once else round(row["growth_bytes_per_step"]),
        )
    outside = process.leaks.outside_steps.sites
    # A validation behind the last step adds to what those before it have left.
    for row in outside.join(leaking, on=key, how="semi", maintain_order="left").iter_rows(named=True):
        yield Verdict(
            VerdictKind.LEAK,
            row["device"],
            row["pool"],
            row["last_bytes"],
            row["site"] or "",
            row["phase"],
            (process,),
            row["last_blocks"],
            held_by=row["held_by"] or "",
        )
    grown_sites = [one.join(leaking, on=key, how="anti", maintain_order="left") for one in (found.sites, outside)]
    slow = pl.concat(grown_sites)
    in_parts = found.basis is GrowthBasis.PARTS
    for row in slow.iter_rows(named=True):
        span = "in parts {} to {} of the run, which has no steps" if in_parts else "in steps {} to {}"
        yield Verdict(
            VerdictKind.SLOW_LEAK,
            row["device"],
            row["pool"],
            row["last_bytes"] - row["first_bytes"],
            row["site"] or "",
            row["phase"] or span.format(row["first_step"], row["last_step"]),
            (process,),
            held_by=row["held_by"] or "",
            remedy=_remedy_of_views(row["viewed_share"]),
            growth_bytes=round(row["slope_bytes_per_step"]) if not in_parts and not row["phase"] else 0,
        )


def _remedy_of_views(share: float | None) -> str:
    """A sentence for blocks that small views keep; empty where the program has most of them."""
    if share is None:
        return ""
    has = "less than 0.1 %" if share < _LEAST_SHARE_SAID else f"{100 * share:.1f} %"
    return f"The program has views of {has} of this memory, and each keeps its whole block. Keep copies: view.clone()."


def _waiting_cycles(process: ProcessSummary) -> Iterator[Verdict]:
    if process.leaks is None:
        return
    leaking = process.leaks.step_leaks.leaking_sites.filter(pl.col("held_by").str.contains(IN_CYCLE, literal=True))
    said = set(leaking.select("device", "pool").iter_rows())
    for one in process.leaks.waiting_cycles:
        if (one.device, one.pool) in said:
            continue
        at = f" at {short_site(one.site)}" if one.site else ""
        why = "freed by the garbage collector alone," if one.is_collected else "waiting for the garbage collector"
        yield Verdict(
            VerdictKind.LEAK,
            one.device,
            one.pool,
            one.waiting_bytes,
            one.site,
            "",
            (process,),
            known_sentence=f"leak: {format_bytes(one.waiting_bytes)} on {device_name(one.device)}{at}, {why} in a reference "
            f"cycle through {one.cycle}",
        )


def _host_memory(process: ProcessSummary) -> Iterator[Verdict]:
    if process.leaks is None:
        return
    from msmemscope.reports.host_growth_report import KEPT_PINNED_MEMORY
    from msmemscope.reports.host_growth_words import (
        COPIED_REMEDY,
        copied_words,
        host_growth_remedy,
        host_growth_words,
        pinned_growth_remedy,
    )

    copied = process.leaks.copied_pages
    pinned, growth = process.leaks.pinned_growth, process.leaks.host_growth
    leaking = process.leaks.step_leaks.leaking_sites
    if pinned is not None and leaking.filter(pl.col("device") == DEVICE_CPU, pl.col("pool") == Pool.HAL).is_empty():
        yield Verdict(
            VerdictKind.HOST_MEMORY,
            DEVICE_CPU,
            Pool.HAL,
            pinned.growth_bytes,
            pinned.site,
            f"in steps {pinned.first_step} to {pinned.last_step}, {KEPT_PINNED_MEMORY}",
            (process,),
            growth_bytes=pinned.bytes_per_step,
            remedy=pinned_growth_remedy(pinned),
        )
    if growth is None or not growth.is_growing:
        if copied is not None:
            yield Verdict(
                VerdictKind.HOST_MEMORY,
                DEVICE_CPU,
                Pool.HOST,
                copied.copied_bytes,
                "",
                copied_words(copied),
                (process,),
                remedy=COPIED_REMEDY,
            )
        return
    yield Verdict(
        VerdictKind.HOST_MEMORY,
        DEVICE_CPU,
        Pool.HOST,
        growth.growth_bytes,
        growth.site.site if growth.site is not None else "",
        host_growth_words(growth),
        (process,),
        growth_bytes=growth.bytes_per_step,
        remedy=host_growth_remedy(growth),
        known_command="msmemscope analyze host",
    )


def _reserved(process: ProcessSummary) -> Iterator[Verdict]:
    if process.reserved is None:
        return
    from msmemscope.reports.reserved_report import remedy, why_idle

    for one in process.reserved.found:
        text = why_idle(one)
        yield Verdict(
            VerdictKind.RESERVED, one.device, one.pool, one.idle_bytes, one.site, text, (process,), remedy=remedy(one)
        )


def _inefficient(process: ProcessSummary) -> Iterator[Verdict]:
    if process.inefficient is None:
        return
    for pool in process.inefficient.pools:
        least = _LEAST_SHARE_SAVED * pool.peak_bytes
        saved, site = pool.peak_bytes - pool.peak_if_fixed_bytes, ""
        if saved <= least:
            continue
        # The line that saves most by itself; many lines that save enough only together have none.
        if pool.lines.height and pool.lines["saved_bytes"][0] > least:
            saved, site = int(pool.lines["saved_bytes"][0]), str(pool.lines["call_site"][0] or "")
        share = (
            f"{100 * saved / pool.peak_bytes:.1f} % of the peak of {pool_word(pool.pool, pool.device)} could be saved"
        )
        yield Verdict(VerdictKind.INEFFICIENT, pool.device, pool.pool, saved, site, share, (process,))
