"""Figures of the resident memory of a process, and the blocks that lie in it.

The kernel tells the figures: at the end of steps, beside samples of allocations, and when the program ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.once_per_recording import once_per_recording

if TYPE_CHECKING:
    from msmemscope.recording import Recording

FIGURE_SCHEMA: Final = pl.Schema(
    {
        "sequence": pl.UInt64(),
        "timestamp_ns": pl.UInt64(),
        "kind": pl.UInt8(),
        "anonymous": pl.Int64(),
        "kept": pl.Int64(),
        "files": pl.Int64(),
        "shared": pl.Int64(),
        "group_bytes": pl.Int64(),
        "group_limit": pl.Int64(),
        "proportional_bytes": pl.Int64(),
        "unrecorded_bytes": pl.Int64(),
    }
)
"""One row per figure, in sequence order; sizes in bytes.

kind: of the event that has it.
anonymous: the resident memory that belongs to no file and is not shared.
kept: the part of it that the C library's allocator keeps though it is free; where nobody asked, as at the last figure.
files: the resident memory that has a file on a disk, where it was not asked as at the last figure; null without any.
shared: the resident memory that is shared, or has a file in memory, where it was not asked as at the last figure.
group_bytes: in use by the control group of the process, where it was not asked as at the last figure; null without any.
group_limit: of that group; null without any.
proportional_bytes: the resident memory, of pages that n processes share an nth part; null where it was not asked.
unrecorded_bytes: the sampled allocations that are older than the log and live on, where it was not asked as at the last figure.
"""

_OF_STEPS: Final = (EventKind.STEP, EventKind.IMPLIED_STEP)


@once_per_recording
def host_figures(recording: Recording) -> pl.DataFrame:
    """Return all figures of a process: FIGURE_SCHEMA.

    Args:
        recording: With STEP, IMPLIED_STEP and HOST_MEMORY events.
    """
    is_step, other, size = pl.col("kind").is_in(_OF_STEPS), pl.col("extra").cast(pl.Int64, strict=False), pl.col("size")
    kept = pl.col("address").cast(pl.Int64, strict=False).replace(0, None)
    of_kernel = ("shared_bytes", "group_bytes", "group_limit", "proportional_bytes", "unrecorded_bytes")
    attributes = recording.attributes.select("attribute_id", pl.col(of_kernel).cast(pl.Int64, strict=False))
    is_told = ~is_step & (other > 0)
    # A figure without shared memory has no such attribute.
    shared = pl.min_horizontal(pl.col("shared_bytes").fill_null(0), other)
    return (
        recording.events.filter(is_step | (pl.col("kind") == EventKind.HOST_MEMORY))
        .join(attributes, on="attribute_id", how="left", maintain_order="left")
        .select(
            "sequence",
            "timestamp_ns",
            "kind",
            anonymous=pl.when(is_step).then(other).otherwise(size),
            kept=kept,
            files=pl.when(is_told).then(other - shared),
            shared=pl.when(is_told).then(shared),
            group_bytes="group_bytes",
            group_limit="group_limit",
            proportional_bytes="proportional_bytes",
            unrecorded_bytes=pl.when(~is_step).then(pl.col("unrecorded_bytes").fill_null(0)),
        )
        .filter(pl.col("anonymous") > 0)
        .with_columns(
            pl.col("kept", "shared", "unrecorded_bytes").forward_fill().backward_fill().fill_null(0),
            pl.col("files", "group_bytes", "group_limit").forward_fill().backward_fill(),
        )
        .select(FIGURE_SCHEMA.names())
        .cast(FIGURE_SCHEMA)
    )


@once_per_recording
def imports_of_frameworks(recording: Recording) -> tuple[pl.Series, pl.Series]:
    """Return the numbers of the figures that stand where the import of a framework begins, and where it has ended.

    Args:
        recording: With HOST_MEMORY events.
    """
    moments = _moments(recording)
    begins, ends = (moments.filter(pl.col("when") == word)["sequence"] for word in ("import", "imported"))
    return begins, ends


def begin_of_program(recording: Recording) -> pl.Series:
    """Return the number of the figure from before the program's own work; none where the log is as old.

    Args:
        recording: With HOST_MEMORY events.
    """
    return _moments(recording).filter(pl.col("when") == "begin")["sequence"]


@once_per_recording
def _moments(recording: Recording) -> pl.DataFrame:
    """Return the figures of known moments: `sequence` and `when`."""
    told = recording.attributes.select("attribute_id", "when").drop_nulls()
    figures = recording.events.filter(pl.col("kind") == EventKind.HOST_MEMORY)
    return figures.join(told, on="attribute_id", how="inner", maintain_order="left").select("sequence", "when")


@once_per_recording
def parts_in_memory(recording: Recording) -> pl.DataFrame:
    """Return how much of some blocks is in memory, as was told last: `sequence` of the block's own event, `resident`.

    Args:
        recording: With HOST_RESIDENT events.
    """
    told = recording.events.filter(pl.col("kind") == EventKind.HOST_RESIDENT)
    parts = told.unique("extra", keep="last").select(pl.col("extra").alias("sequence"), resident="size")
    return parts.cast({"sequence": pl.UInt64, "resident": pl.Int64})


def blocks_in_process(recording: Recording) -> pl.DataFrame:
    """Return the blocks that count as private memory of the process, with the `size` that is in memory.

    Those are CPU tensors, pinned memory, and the memory of a device that is emulated in the process.

    Args:
        recording: With MALLOC and FREE.
    """
    is_inside = pl.col("device") == DEVICE_CPU
    if is_emulated(recording):
        is_inside |= pl.col("pool") == Pool.HAL
    blocks = recording.blocks.filter(is_inside)
    in_memory = pl.min_horizontal("size", pl.col("resident").fill_null(pl.col("size"))).cast(blocks.schema["size"])
    return (
        blocks.join(
            parts_in_memory(recording),
            left_on="malloc_sequence",
            right_on="sequence",
            how="left",
            maintain_order="left",
        )
        .with_columns(size=in_memory)
        .drop("resident")
    )


def is_emulated(recording: Recording) -> bool:
    """Return whether the memory of devices lies in private memory of the process.

    Args:
        recording: With the facts of its log.
    """
    return "emulated" in recording.facts.get("device_memory", ())
