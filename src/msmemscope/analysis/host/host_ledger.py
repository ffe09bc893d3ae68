"""The resident memory of a process as a sum of parts, at its peak and at the end.

    resident = blocks + samples + before the log + before work + kept free + files + shared + unknown

- Blocks are CPU tensors and pinned memory. They are exact. Pages that were never touched do not count: the kernel was
  asked for those of tensors that are alive at the end.
- Samples stand for the other allocations since then: Python objects, arrays, native memory, stacks of
  threads. They are estimates: of n samples the error is about 1 in the square root of n.
- A program without a framework has no log before its samples stand for 8 MiB. Those are a part of their own, without lines.
- The memory before work is the first figure, without the blocks of that moment. Modules that are imported before the
  program begins its own work are in it, and so is a framework.
- Memory that is kept free, memory of files and shared memory are figures of the C library and the kernel. Memory of
  /dev/shm is shared memory.
- Unknown is the rest. It is negative where nobody asked which memory was touched, or where samples stand for too much.
  The memory of a device that is emulated in the process is in it: most of what its driver hands out is never touched.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.host.growing_containers import CONTAINER_SCHEMA, growing_containers
from msmemscope.analysis.host.host_figures import (
    begin_of_program,
    blocks_in_process,
    host_figures,
    imports_of_frameworks,
    is_emulated,
)
from msmemscope.analysis.host.host_samples import SHARED_MEMORY, TENSORS, HostSamples
from msmemscope.analysis.host.processes_together import shares_of
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.analysis.options import QuestionOptions
    from msmemscope.recording import Recording

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

SUBJECT: Final = Subject("Host memory")

PINNED: Final = "pinned memory"
BEFORE: Final = "interpreter and libraries, before work began"
EARLIER: Final = "allocated before the log began"
KEPT_FREE: Final = "freed, and kept by the C library"
FILES: Final = "mapped files"
UNKNOWN: Final = "unknown"
EMULATED: Final = "unknown, and memory of the emulated device"

LEDGER_SCHEMA: Final = pl.Schema(
    {"part": pl.String(), "peak_bytes": pl.Int64(), "peak_error_bytes": pl.Int64(), "end_bytes": pl.Int64()}
)
"""One row per part, the largest at the peak first, the unknown part last.

peak_bytes, end_bytes: at the figure with the most resident memory, and at the last one.
peak_error_bytes: the standard error of an estimate; null for parts that are exact, and for the unknown part.
"""

COURSE_SCHEMA: Final = pl.Schema(
    {"timestamp_ns": pl.UInt64(), "resident_bytes": pl.Int64(), "unknown_bytes": pl.Int64()}
)
"""One row per figure, in order, at most MOST_MOMENTS of them: the peak and the end are among them."""

LINE_SCHEMA: Final = pl.Schema(
    {"site": pl.String(), "what": pl.String(), "peak_bytes": pl.Int64(), "samples": pl.Int64()}
)
"""One row per line that made sampled memory which is alive at the peak, the largest first; without imports."""

MOST_MOMENTS: Final = 1000
_MOST_NAMED: Final = 3
_LEAST_NAMED: Final = 0.02
"""Of the resident memory, that a part must have to be named."""
NEAR_LIMIT: Final = 0.9
_NEARLY_MOST: Final = 255 / 256
"""Of the limit of a control group, from which on its end may be near."""


@dataclasses.dataclass(frozen=True)
class HostLedger:
    """The parts of the resident memory of a process."""

    parts: pl.DataFrame
    """LEDGER_SCHEMA."""
    lines: pl.DataFrame
    """LINE_SCHEMA."""
    containers: pl.DataFrame
    """CONTAINER_SCHEMA: those that grew to near the end."""
    course: pl.DataFrame
    """COURSE_SCHEMA."""
    shares: pl.DataFrame
    """By `shares_of`: the figures that say what the process shares with others."""
    peak_bytes: int
    """The most resident memory of all figures: the sum of `parts`."""
    end_bytes: int
    """The resident memory at the last figure."""
    group_bytes: int
    """The most that the control group of the process uses at a figure; 0 without a limit."""
    group_end_bytes: int
    """That it uses at the last figure; 0 without a limit."""
    group_limit_bytes: int
    """Of the group; 0 without one."""
    is_sampled: bool
    """Whether allocations were sampled; otherwise the unknown part has them."""
    coverage: Coverage
    """The coverage of the answer."""

    @property
    def ended_near_limit(self) -> bool:
        """Whether the control group was near its limit at the last figure."""
        return self.group_limit_bytes > 0 and self.group_end_bytes >= NEAR_LIMIT * self.group_limit_bytes

    def largest_of_program(self) -> list[tuple[str, int]]:
        """Return the largest parts at the last figure that the program made, at most three, with their bytes."""
        found = self.parts.filter(
            ~pl.col("part").is_in([BEFORE, FILES, UNKNOWN, EMULATED]),
            pl.col("end_bytes") >= _LEAST_NAMED * self.end_bytes,
        )
        rows = found.sort("end_bytes", descending=True, maintain_order=True).head(_MOST_NAMED)
        return list(rows.select("part", "end_bytes").iter_rows())

    def to_polars(self) -> pl.DataFrame:
        """Return the parts."""
        return self.parts


def _peak_of(resident: Bytes, kept: Bytes) -> int:
    """Return the place of the peak: of the figures with nearly the most, the one that uses most of it.

    Memory that was freed stays resident where the C library keeps it, so the last figure can have a few bytes more.
    """
    is_near = (resident >= resident.max() * _NEARLY_MOST) & (kept > 0)
    return int(np.where(is_near, kept, np.iinfo(np.int64).max).argmin()) if is_near.any() else int(resident.argmax())


def account_for_host(recording: Recording, _: QuestionOptions | None = None) -> HostLedger:
    """Split the resident memory of a process into parts.

    Args:
        recording: With figures of host memory; with samples, allocations outside of tensors are parts of their own.
    """
    coverage = coverage_of(SUBJECT, recording)
    figures = host_figures(recording)
    if figures.is_empty():
        coverage = coverage.without_answer(
            ["no figure of host memory was recorded; steps and samples (--host=sampled) bring them"]
        )
        nothing = (
            LEDGER_SCHEMA.to_frame(),
            LINE_SCHEMA.to_frame(),
            CONTAINER_SCHEMA.to_frame(),
            COURSE_SCHEMA.to_frame(),
            shares_of(figures),
        )
        return HostLedger(
            *nothing,
            peak_bytes=0,
            end_bytes=0,
            group_bytes=0,
            group_end_bytes=0,
            group_limit_bytes=0,
            is_sampled=False,
            coverage=coverage,
        )
    if figures["files"].is_null().all():
        coverage = coverage.with_limits(["mapped files and shared memory were not looked at (--host=off)"])
    sequences = figures["sequence"].to_numpy()
    resident = (figures["anonymous"] + figures["shared"] + figures["files"].fill_null(0)).to_numpy(writable=True)
    samples = HostSamples.of(recording)
    is_set_up = _is_set_up(recording, sequences, samples)
    samples = _without_set_up(recording, samples, sequences, is_set_up)
    exact = _blocks(recording, sequences)
    kinds = samples.of_private_memory().by_kind(recording)
    sampled = {kind: MemoryUse.of(part.as_blocks()).after(sequences) for kind, part in kinds.items()}
    if TENSORS in sampled:
        exact[TENSORS] += sampled.pop(TENSORS)
    unrecorded = figures["unrecorded_bytes"].to_numpy()
    set_up = np.maximum.accumulate(np.where(is_set_up, np.arange(len(unrecorded)), 0))
    exact[EARLIER] = np.maximum(unrecorded - unrecorded[set_up], 0)
    # In a log the C library keeps at least 1 byte: 0 stands for unknown.
    kept = figures["kept"].replace(1, 0).to_numpy()
    known = sum([*exact.values(), *sampled.values()], kept)
    rest = (figures["anonymous"] - known).to_numpy()
    # Behind the import of libraries it stays as it was then.
    before = np.maximum(rest[set_up], 0)
    parts = exact | sampled | {
        BEFORE: before,
        KEPT_FREE: kept,
        FILES: figures["files"].fill_null(0).to_numpy(),
        SHARED_MEMORY: figures["shared"].to_numpy(),
    }  # fmt: skip
    peak, end = _peak_of(resident, kept), len(resident) - 1
    resident[peak] = resident.max()
    unknown = resident - sum(parts.values(), np.zeros_like(resident))
    rest = EMULATED if is_emulated(recording) else UNKNOWN
    errors = {kind: part.alive(0, int(sequences[peak])).error_bytes for kind, part in kinds.items()}
    rows = [
        (part, int(course[peak]), errors.get(part), int(course[end]))
        for part, course in parts.items()
        if (course > 0).any()
    ]
    rows.sort(key=lambda row: -row[1])
    moments = np.unique([*np.linspace(0, end, min(len(resident), MOST_MOMENTS - 1)).astype(int), peak])
    course = {"timestamp_ns": figures["timestamp_ns"].to_numpy(), "resident_bytes": resident, "unknown_bytes": unknown}
    return HostLedger(
        pl.DataFrame([*rows, (rest, int(unknown[peak]), None, int(unknown[end]))], LEDGER_SCHEMA, orient="row"),
        _lines(recording, samples.alive(0, int(sequences[peak])).without_imports(recording)),
        growing_containers(recording),
        pl.DataFrame({name: values[moments] for name, values in course.items()}, COURSE_SCHEMA),
        shares_of(figures),
        peak_bytes=int(resident[peak]),
        end_bytes=int(resident[end]),
        group_bytes=int(figures["group_bytes"].fill_null(0).to_numpy().max()),
        group_end_bytes=int(figures["group_bytes"][-1] or 0),
        group_limit_bytes=int(figures["group_limit"][-1] or 0),
        is_sampled=not samples.rows.is_empty(),
        coverage=coverage,
    )


def _is_set_up(recording: Recording, sequences: Numbers, samples: HostSamples) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return for each figure whether the program is being set up: it imports, and its own work has not begun.

    Args:
        recording: With HOST_MEMORY events.
        sequences: Of the figures.
        samples: All of the process.
    """
    own = samples.without_imports(recording).rows["sequence"]
    imported = samples.rows["sequence"].filter(~samples.rows["sequence"].is_in(own.implode()))
    found = sequences <= (min(int(one) for one in (*imported.tail(1), *own.head(1))) if imported.len() else 0)
    if (began := begin_of_program(recording)).len():
        found &= sequences <= int(began[0])
    begins, ends = (np.searchsorted(sequences, one.to_numpy()) for one in imports_of_frameworks(recording))
    for end in ends:
        # The import of a framework that began before the first figure has no beginning here.
        found[max(begins[begins <= end], default=0) : end + 1] = True
    found[0] = True
    return found


def _without_set_up(recording: Recording, samples: HostSamples, sequences: Numbers, is_set_up: Any) -> HostSamples:
    """Leave out what is imported while the program is set up: much of it is never touched."""
    own = samples.without_imports(recording).rows["sequence"]
    place = np.clip(np.searchsorted(sequences, samples.rows["sequence"].to_numpy()) - 1, 0, None)
    return HostSamples(
        samples.rows.filter(pl.col("sequence").is_in(own.implode()) | ~pl.Series(is_set_up[place], dtype=pl.Boolean))
    )


def _blocks(recording: Recording, sequences: np.ndarray[Any, np.dtype[np.uint64]]) -> dict[str, Bytes]:
    blocks = blocks_in_process(recording).filter(pl.col("device") == DEVICE_CPU)
    is_pinned = pl.col("pool") == Pool.HAL
    chosen = {TENSORS: ~is_pinned, PINNED: is_pinned}
    return {part: MemoryUse.of(blocks.filter(which)).after(sequences) for part, which in chosen.items()}


def _lines(recording: Recording, alive: HostSamples) -> pl.DataFrame:
    if alive.rows.is_empty():
        return LINE_SCHEMA.to_frame()
    rows = [(site.site, site.what, site.live_bytes, site.samples) for site, _ in alive.by_line(recording)]
    return pl.DataFrame(rows, LINE_SCHEMA, orient="row")
