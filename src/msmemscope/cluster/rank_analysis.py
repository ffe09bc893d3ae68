"""The summary of one capture: all that an answer about the whole job needs of it, and nothing else.

The questions are those of the registry, asked as at the end of a run (`launch.judged_process`).
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.card.card import module_sites
from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.cluster.end_of_process import end_columns
from msmemscope.cluster.place_of_rank import place_columns
from msmemscope.cluster.stable_sites import stable_line, stable_sites
from msmemscope.cluster.summary import (
    CURVE_BUCKETS,
    MOST_FINDINGS,
    MOST_LINES,
    MOST_MODULES,
    MOST_OWNERS,
    MOST_SITES,
    MOST_STEPS,
    RankSummary,
    summary_row,
)
from msmemscope.launch.judged_process import judge_process
from msmemscope.model.devices import device_name, is_accelerator
from msmemscope.model.events import EventKind
from msmemscope.model.place import SOFTWARE
from msmemscope.model.pools import Pool, pool_word
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.step_bounds import process_steps
from msmemscope.recording.timeline import MemoryUse, blocks_in_use, memory_curve, peaks_of_pools
from msmemscope.reports.html.shown_text import shown
from msmemscope.reports.run_verdicts import verdicts_of_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from msmemscope.recording import Recording
    from msmemscope.recording.step_bounds import StepBounds
    from msmemscope.reports.run_summary import ProcessSummary

_SOFTWARE: Final = {"cuda_driver": "CUDA driver", "python": "python", "torch": "torch", "torch_npu": "torch_npu"}
_MOST_LETTERS: Final = 64
"""Of a version or the name of a card: logs of others can say anything."""
OTHER_OWNERS: Final = "(other owners)"


def analyze_rank(recording: Recording, *, source: str, fingerprint: str) -> RankSummary:
    """Sum a process up.

    Args:
        recording: Of it.
        source: Its name in the answer.
        fingerprint: Of the files that it was read from.
    """
    judged = judge_process(recording)
    values: dict[str, Any] = {
        "source": source,
        "fingerprint": fingerprint,
        "form": recording.form,
        "process_id": recording.process_id,
        "program": shown(judged.summary.program),
        "start_ns": judged.summary.start_ns,
        **place_columns(recording.place),
        **end_columns(recording),
        "host_bytes": None if judged.summary.host_memory is None else judged.summary.host_memory.peak_bytes,
        "software": _software(recording),
        "event_count": recording.events.height,
        "block_count": recording.blocks.height,
        "step_source": recording.step_source.value,
        "steps_ended": process_steps(recording).ended,
        "findings": list(itertools.islice(_findings(judged.summary), MOST_FINDINGS)),
        "not_judged": [dataclasses.asdict(one) for one in judged.summary.not_judged],
        "coverage": _lines(recording.coverage),
        "problems": _lines(judged.remarks[len(recording.coverage) :]),
    }
    peaks = peaks_of_pools(recording).filter(pl.col("peak_bytes") > 0)
    if not peaks.is_empty():
        values |= _memory(recording, peaks)
    return RankSummary(summary_row([values]))


def _memory(recording: Recording, peaks: pl.DataFrame) -> dict[str, Any]:
    rows = peaks.rows(named=True)
    main = max(rows, key=lambda row: (is_accelerator(row["device"]), row["pool"] != Pool.HAL, row["peak_bytes"]))
    device, pool = main["device"], main["pool"]
    owned, notes = owned_blocks(recording)
    blocks = owned.filter(pl.col("device") == device, pl.col("pool") == pool)
    steps = process_steps(recording).of(device)
    at_peak = blocks_in_use(blocks, main["sequence"])
    sites, stacks = _sites(recording, at_peak)
    curve = memory_curve(blocks, CURVE_BUCKETS)
    return {
        "device": device_name(device),
        "pool": pool_word(pool, device),
        "card": _card(recording, device),
        "capacity_bytes": _capacity(recording, device),
        "used_bytes": _used(recording, rows, device, main["peak_bytes"]),
        "peak_bytes": main["peak_bytes"],
        "peak_step": int(steps.step_of(np.array([main["sequence"]], dtype=np.uint64))[0]),
        "peak_ns": int(at_peak["allocated_ns"][-1]) if len(at_peak) else None,
        "pools": [
            {
                "device": device_name(row["device"]),
                "pool": pool_word(row["pool"], row["device"]),
                "peak_bytes": row["peak_bytes"],
            }
            for row in rows
        ],
        "owners": _owners(at_peak),
        "sites": sites,
        "stacks": stacks,
        "modules": _modules(recording, owned, peaks, device),
        "steps": _steps(blocks, steps),
        "held_bytes": int(blocks.filter(pl.col("free_sequence").is_null())["size"].sum()),
        "curve": None
        if curve is None
        else {
            "begin_ns": curve.begin_ns,
            "end_ns": curve.end_ns,
            "least_bytes": curve.least_bytes,
            "most_bytes": curve.most_bytes,
        },
        "coverage": _lines((*recording.coverage, *notes)),
    }


def _software(recording: Recording) -> list[str]:
    """The parts of the software whose versions are known, as `torch 2.13.0`."""
    known = {name: recording.facts.get(f"{SOFTWARE}{part}") for part, name in _SOFTWARE.items()}
    return [f"{name} {shown(texts[-1], _MOST_LETTERS)}" for name, texts in known.items() if texts]


def _card(recording: Recording, device: int) -> str | None:
    named = (text.partition(" ") for text in recording.facts.get("device.name", ()))
    return next((shown(name, _MOST_LETTERS) for place, _, name in named if place == device_name(device)), None)


def _capacity(recording: Recording, device: int) -> int | None:
    """The memory of the device, as snapshots say."""
    snapshots = recording.events.filter(pl.col("kind") == EventKind.SNAPSHOT, pl.col("device") == device)
    total = snapshots.join(recording.attributes, on="attribute_id")["total_bytes"].max()
    return None if total is None else int(total)  # type: ignore[arg-type]  # a column of whole numbers


def _used(recording: Recording, peaks: list[dict[str, Any]], device: int, peak_bytes: int) -> int:
    driver = next((row["peak_bytes"] for row in peaks if row["device"] == device and row["pool"] == Pool.HAL), None)
    if driver is not None and is_accelerator(device):
        return max(int(driver), peak_bytes)
    reports = recording.events.filter(pl.col("kind") == EventKind.RESERVED, pl.col("device") == device)
    return max(int(reports["size"].max() or 0), peak_bytes)  # type: ignore[arg-type]  # likewise


def _owners(at_peak: pl.DataFrame) -> list[dict[str, Any]]:
    sums = (
        at_peak.group_by("owner")
        .agg(bytes=pl.col("size").sum(), blocks=pl.len().cast(pl.Int64))
        .sort(["bytes", "owner"], descending=[True, False])
    )
    rest = sums.slice(MOST_OWNERS - 1)
    if rest.height > 1:
        others = rest.select(owner=pl.lit(OTHER_OWNERS), bytes=pl.col("bytes").sum(), blocks=pl.col("blocks").sum())
        sums = pl.concat([sums.head(MOST_OWNERS - 1), others.head(1)])
    return [{**row, "owner": shown(row["owner"])} for row in sums.iter_rows(named=True)]


def _sites(recording: Recording, at_peak: pl.DataFrame) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """The call sites with the most bytes, and the frames of each."""
    named = at_peak.select(*STACK_COLUMNS, "owner", "size").join(
        call_sites(recording, at_peak), on=STACK_COLUMNS, how="left"
    )
    found = named.join(stable_sites(named["site_path"]), on="site_path", how="left", suffix="_stable")
    by_owner = (
        found.group_by("hash", "owner")
        .agg(
            bytes=pl.col("size").sum(),
            blocks=pl.len().cast(pl.Int64),
            site=pl.col("site_stable").min(),
            frames=pl.col("frames").min(),
        )
        .sort(["bytes", "hash", "owner"], descending=[True, False, False])
    )
    sums = (
        by_owner.group_by("hash", maintain_order=True)
        .agg(pl.col("site", "frames", "owner").first(), pl.col("bytes", "blocks").sum())
        .sort(["bytes", "hash"], descending=[True, False])
        .head(MOST_SITES)
    )
    rows = sums.rows(named=True)
    sites = [
        {
            **{name: row[name] for name in ("hash", "bytes", "blocks")},
            "site": shown(row["site"]),
            "owner": shown(row["owner"]),
        }
        for row in rows
    ]
    frames = [{"hash": row["hash"], "frames": "\n".join(map(shown, row["frames"].split("\n")))} for row in rows]
    return sites, frames


def _modules(recording: Recording, owned: pl.DataFrame, peaks: pl.DataFrame, device: int) -> list[dict[str, Any]]:
    """The memory of modules when the driver's memory of the device is at its highest, the largest first."""
    at_peak = peaks.filter(pl.col("device") == device, pl.col("pool") == Pool.HAL)
    return [
        {"module": shown(module), "site": shown(stable_line(site)), "bytes": size, "blocks": count}
        for module, site, size, count in module_sites(recording, owned, at_peak)
        .head(MOST_MODULES)
        .select("module", "site", "size_bytes", "block_count")
        .iter_rows()
    ]


def _steps(blocks: pl.DataFrame, bounds: StepBounds) -> list[dict[str, int]]:
    """The peak of each step, and the bytes in use at its end; several steps together where there are too many."""
    count = bounds.ended
    if not count:
        return []
    use = MemoryUse.of(blocks)
    peaks = use.extremes(bounds.begins[:count], bounds.ends)[1]
    ends = use.after(bounds.ends)
    together = -(-count // MOST_STEPS)
    firsts = np.arange(0, count, together)
    lasts = np.minimum(firsts + together, count)
    highest = np.maximum.reduceat(peaks, firsts)
    return [
        {"first": int(first) + 1, "last": int(last), "peak_bytes": int(peak), "end_bytes": int(end)}
        for first, last, peak, end in zip(firsts, lasts, highest, ends[lasts - 1], strict=True)
    ]


def _findings(process: ProcessSummary) -> Iterator[dict[str, Any]]:
    """The findings; their lines have the same names on every host."""
    for verdict in verdicts_of_process(process):
        site = stable_line(verdict.site) if verdict.site else ""
        yield {
            "kind": verdict.kind.value,
            "site": shown(site),
            "bytes": verdict.size_bytes,
            "blocks": verdict.block_count,
            "growth_bytes": verdict.growth_bytes,
            "text": shown(
                verdict.known_sentence.replace(verdict.site, site) if verdict.known_sentence else verdict.text
            ),
            "held_by": shown(verdict.held_by),
        }


def _lines(lines: Iterable[str]) -> list[str]:
    different = [*dict.fromkeys(shown(line) for line in lines)]
    more = len(different) - MOST_LINES
    return different if more <= 0 else [*different[: MOST_LINES - 1], f"and {more + 1} more"]
