"""The summary of one capture: one row of a table, of at most one megabyte.

A row and not an object: ten thousand of them are one table, and `summaries.parquet` is that table.
"""

from __future__ import annotations

import dataclasses
import io
from enum import Enum
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMMARY_VERSION: Final = 6
"""Of the row: one that was kept by another version is made anew."""
MOST_BYTES: Final = 1 << 20
"""Of a summary as it travels; the limits below, and those of texts, see to that."""
CURVE_BUCKETS: Final = 2_000
"""Stretches of time of the curve, each with the least and the most bytes in use: no peak is lost."""
MOST_STEPS: Final = 1_024
"""Rows of `steps`; of a longer run a row is several steps, with the highest of their peaks."""
MOST_OWNERS: Final = 64
"""Owners at the peak, the largest ones; the others are one, `(other owners)`."""
MOST_SITES: Final = 64
"""Call sites at the peak, the largest ones."""
MOST_MODULES: Final = 64
"""Modules of the vendor's software by call site, the largest ones."""
MOST_FINDINGS: Final = 64
MOST_LINES: Final = 16
"""Lines of `coverage` and of `problems` each."""

_PLACE: Final = {
    "rank": pl.Int64(), "local_rank": pl.Int64(), "world_size": pl.Int64(), "local_world_size": pl.Int64(),
    "node": pl.String(), "restart_count": pl.Int64(), "role": pl.String(),
    "coordinates": pl.List(pl.Struct({"axis": pl.String(), "index": pl.Int64()})),
}  # fmt: skip
SUMMARY_SCHEMA: Final = pl.Schema(
    {
        "source": pl.String(), "fingerprint": pl.String(), "form": pl.String(), "process_id": pl.Int64(), "program": pl.String(),
        "start_ns": pl.Int64(),
        **_PLACE,
        "event_count": pl.Int64(), "block_count": pl.Int64(),
        "software": pl.List(pl.String()),
        "device": pl.String(), "pool": pl.String(), "card": pl.String(),
        "host_bytes": pl.Int64(), "capacity_bytes": pl.Int64(), "used_bytes": pl.Int64(),
        "peak_bytes": pl.Int64(), "peak_step": pl.Int64(), "peak_ns": pl.Int64(),
        "pools": pl.List(pl.Struct({"device": pl.String(), "pool": pl.String(), "peak_bytes": pl.Int64()})),
        "owners": pl.List(pl.Struct({"owner": pl.String(), "bytes": pl.Int64(), "blocks": pl.Int64()})),
        "sites": pl.List(
            pl.Struct(
                {"hash": pl.String(), "site": pl.String(), "owner": pl.String(), "bytes": pl.Int64(), "blocks": pl.Int64()}
            )
        ),
        "stacks": pl.List(pl.Struct({"hash": pl.String(), "frames": pl.String()})),
        "modules": pl.List(
            pl.Struct({"module": pl.String(), "site": pl.String(), "bytes": pl.Int64(), "blocks": pl.Int64()})
        ),
        "step_source": pl.String(), "steps_ended": pl.Int64(),
        "steps": pl.List(
            pl.Struct({"first": pl.Int64(), "last": pl.Int64(), "peak_bytes": pl.Int64(), "end_bytes": pl.Int64()})
        ),
        "findings": pl.List(
            pl.Struct(
                {
                    "kind": pl.String(), "site": pl.String(), "bytes": pl.Int64(), "blocks": pl.Int64(),
                    "growth_bytes": pl.Int64(), "text": pl.String(), "held_by": pl.String(),
                }
            )
        ),
        "curve": pl.Struct(
            {
                "begin_ns": pl.Int64(), "end_ns": pl.Int64(), "least_bytes": pl.List(pl.Int64()),
                "most_bytes": pl.List(pl.Int64()),
            }
        ),
        "end": pl.String(), "end_signal": pl.String(), "end_status": pl.Int64(), "end_limit_bytes": pl.Int64(), "end_ns": pl.Int64(),
        "held_bytes": pl.Int64(), "group_bytes": pl.Int64(), "group_limit_bytes": pl.Int64(),
        "not_judged": pl.List(pl.Struct({"subject": pl.String(), "reason": pl.String(), "remedy": pl.String(), "is_device": pl.Boolean()})),
        "coverage": pl.List(pl.String()), "problems": pl.List(pl.String()),
    }
)  # fmt: skip
"""One row per process of a job.

source: the capture as it was named; fingerprint: of its files. start_ns: CLOCK_REALTIME.
rank ... coordinates: its place in the job, null where it is not known; coordinates only of axes that the job has.
software: `torch 2.13.0`, one per part that is known.
device, pool: the ones that the following columns are about. An accelerator comes before the cpu, a framework before the
    driver, and then the highest peak decides. card: the kind of that device, null where it is not known. pools: the peaks
    of all.
host_bytes: the peak of its resident host memory, null where no figure of it was recorded.
capacity_bytes: of the device, null where no snapshot says so. used_bytes: the most that the process took of the device.
    It is the driver's where that was observed, else the pool's reserve, else its peak.
peak_bytes, peak_step, peak_ns: the most bytes in use, their step (0 before the first), and when.
owners, sites: the memory in use then, the largest first; hash: see `stable_sites`, owner: of most of the site's bytes.
stacks: the frames of `sites`, by hash.
modules: memory of modules of the vendor's software when the driver's memory was at its highest, by the line that asked
    for it. The buffers of a communicator stand at the line that used it first.
steps: peaks of the steps `first` to `last` and the bytes in use when the last one ended, from the first step on.
findings: as `reports.verdict` has them of this process alone: kind, line, bytes, and bytes per step that it grows by.
end: how the process ended, a value of `ProcessEnd`; null where nothing says so. end_signal, end_status: as its launcher
    saw it, null where it did not. end_limit_bytes: of its control group, 0 without one, where the kernel ended it for lack
    of memory. end_ns: CLOCK_REALTIME of its host.
held_bytes: the memory in use at the last event. group_bytes, group_limit_bytes: of its control group, at the last figure.
not_judged: the gaps that keep it from saying that nothing was found, fields as of `analysis.judged.NotJudged`.
curve: over time, from the first change to the last one.
coverage: the losses before it could be read; problems: the parts that were skipped.
"""


class ProcessEnd(str, Enum):
    """The ways in which a process ends."""

    ORDERLY = "orderly"
    KILLED = "killed"
    """A signal ended it, as its launcher saw."""
    LOST = "lost"
    """Nobody saw how: it was killed, aborted, left by `_exit` or replaced by `exec`."""
    RUNNING = "running"


@dataclasses.dataclass(frozen=True, eq=False)
class RankSummary:
    """The summary of one process."""

    row: pl.DataFrame
    """SUMMARY_SCHEMA, one row."""

    def to_bytes(self) -> bytes:
        """Return the row as an Arrow stream, compressed by zstd."""
        return packed(self.row)


def packed(rows: pl.DataFrame) -> bytes:
    """Return summaries as an Arrow stream, compressed by zstd."""
    stream = io.BytesIO()
    rows.write_ipc_stream(stream, compression="zstd", compat_level=pl.CompatLevel.oldest())
    return stream.getvalue()


def summaries_of(contents: Sequence[tuple[str, bytes]]) -> pl.DataFrame:
    """Read summaries back, one behind the other.

    Args:
        contents: The name of each in errors, and what `packed` returned.

    Raises:
        InputError: One is no summary, or one of another version of the table.
    """
    frames = [_unpacked(source, content) for source, content in contents]
    try:
        # It compares all types of all tables, much quicker than Python does.
        return pl.concat([SUMMARY_SCHEMA.to_frame(), *frames])
    except pl.exceptions.PolarsError:
        for (source, _), frame in zip(contents, frames, strict=True):
            if frame.schema != SUMMARY_SCHEMA:
                message = f"{source} is a summary of another version"
                raise InputError(message) from None
        raise


def _unpacked(source: str, content: bytes) -> pl.DataFrame:
    try:
        return pl.read_ipc_stream(io.BytesIO(content))
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        message = f"{source} is no summary of a rank"
        raise InputError(message) from error


def summary_row(values: Sequence[dict[str, object]]) -> pl.DataFrame:
    """Return SUMMARY_SCHEMA of some rows; columns that are not given are null."""
    return pl.DataFrame([{**dict.fromkeys(SUMMARY_SCHEMA), **row} for row in values], schema=SUMMARY_SCHEMA)
