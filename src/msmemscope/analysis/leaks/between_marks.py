"""Leaks between marks: blocks that a range of the program allocates and does not give back in time.

A program marks three points with the same text, A, B and C. A block that was allocated between A and B and not freed
before C leaks: in every pool, on every device. Marks of one loop count for all devices of the process. Where several
devices are marked, each at its own moments, a device has its own marks.

A pool takes memory from the driver and hands out parts of it, so one byte can lie in a block of each. It is counted
once, as the pool's. The rest of such a block of the driver is that pool's reserve.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.options import Text, WholeNumber
from msmemscope.analysis.recorded import Need
from msmemscope.errors import ConfigurationError
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.pools import POOLS_WITH_RESERVE, Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.pool_segments import holds_blocks, pool_segments

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from msmemscope.recording import Recording

    Counts: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
    Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

SUBJECT: Final = Subject("Leaks between marks", needed=(Need.ALLOCATIONS,), helpful=(Need.FREES, Need.STACKS))
MARK_TEXT: Final = Text("the text of the marks")
MARK_POSITION: Final = WholeNumber()
_MARKS_NEEDED: Final = 3
_MOST_TEXTS: Final = 10

MARK_LEAK_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "size": pl.Int64(),
        "counted_bytes": pl.Int64(),
        "is_reserve": pl.Boolean(),
        "address": pl.UInt64(),
        "malloc_sequence": pl.UInt64(),
        "free_sequence": pl.UInt64(),
        "operator": pl.String(),
        "site": pl.String(),
        "allocated_ns": pl.UInt64(),
        "thread_id": pl.UInt32(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
    }
)
"""One row per block that was allocated between the marks A and B and not freed before C, in MALLOC order.

counted_bytes: without the bytes in other blocks of this table, so that the sum has each byte once.
is_reserve: a block of the driver from which a memory pool hands out parts.
See `recording.BLOCK_SCHEMA`; operator: outermost operator at the MALLOC; site: call site, see `call_sites`. A free_sequence is
that of a free after C.
"""


@dataclasses.dataclass(frozen=True)
class DeviceRange:
    """The range that was judged on one device."""

    device: int
    marks: tuple[int, int, int]
    """Sequence numbers of A, B and C."""
    allocated_blocks: int
    """Blocks that were allocated between A and B."""
    leaked_bytes: int
    """Each byte once, also where a pool's block and the driver's block around it both leaked."""
    reserve_bytes: int
    """Of these, the driver's memory that a pool holds beyond its own leaked blocks."""
    leaked_blocks: int


@dataclasses.dataclass(frozen=True)
class MarkLeaks:
    """The leaks of one range of a program."""

    text: str
    """Of the marks."""
    start_index: int
    """Which of them A was, from 0."""
    devices: tuple[DeviceRange, ...]
    """Devices that were judged: those of the process that have blocks."""
    blocks: pl.DataFrame
    """MARK_LEAK_SCHEMA."""
    remarks: tuple[str, ...]
    """Devices that could not be judged, and why, one line each."""
    coverage: Coverage
    """The coverage of the answer."""

    def to_polars(self) -> pl.DataFrame:
        """Return the leaked blocks, of MARK_LEAK_SCHEMA."""
        return self.blocks


def find_leaks_between_marks(recording: Recording, mstx_info: str, start_index: int = 0) -> MarkLeaks:
    """Find the blocks that a range of a program allocates and does not give back.

    Args:
        recording: Of a process that made mstx marks.
        mstx_info: Text of the marks; those with another text are passed over.
        start_index: Which of them begins the range, from 0: A. The next is B, the one after that C.

    Returns:
        The leaked blocks of every pool of every device.

    Raises:
        ConfigurationError: If the text is blank, or no mark has it; if start_index is negative; if no device has three
            marks from start_index on.
        TypeError: If the text is none.
    """
    MARK_TEXT.check("mstx_info", mstx_info)
    MARK_POSITION.check("start_index", start_index)
    marks = _marks(recording, mstx_info)
    by_device = _ranges(marks, recording.blocks["device"].unique().sort())
    remarks = []
    parts = []
    devices = []
    for device, sequences in by_device.items():
        chosen = sequences[start_index : start_index + _MARKS_NEEDED]
        if len(chosen) < _MARKS_NEEDED:
            have = "1 mark" if len(sequences) == 1 else f"{len(sequences)} marks"
            remarks.append(f"{device_name(device)}: not judged, it has {have} {mstx_info!r}")
            continue
        allocated, leaked = _leaked(recording.blocks, device, chosen)
        leaked = _counted_once(leaked, recording)
        parts.append(leaked)
        a, b, c = chosen
        counted = leaked["counted_bytes"]
        reserve = int(counted.filter(leaked["is_reserve"]).sum())
        devices.append(DeviceRange(device, (a, b, c), allocated, int(counted.sum()), reserve, leaked.height))
    if not devices and (by_device or len(marks) < start_index + _MARKS_NEEDED):
        raise _too_few(mstx_info, start_index, max(map(len, by_device.values()), default=len(marks)))
    blocks = pl.concat([_counted_once(recording.blocks.clear(), recording), *parts]).sort("malloc_sequence")
    sites = call_sites(recording, blocks).drop("site_path")
    blocks = blocks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left").rename({"name": "operator"})
    return MarkLeaks(
        mstx_info,
        start_index,
        tuple(devices),
        blocks.select(MARK_LEAK_SCHEMA.names()),
        tuple(remarks),
        coverage_of(SUBJECT, recording),
    )


def _marks(recording: Recording, mstx_info: str) -> pl.DataFrame:
    """Return the marks with a text: `sequence`, `device`, `thread_id`."""
    names = recording.strings.select(pl.col("id").alias("name_id"), pl.col("text"))
    marks = recording.events.filter(pl.col("kind") == EventKind.MARK).join(
        names, on="name_id", how="left", maintain_order="left"
    )
    # Older dumps keep the quotes of the name.
    marks = marks.with_columns(pl.col("text").fill_null("").str.strip_chars('"'))
    found = marks.filter(pl.col("text") == mstx_info.strip('"'))
    if not found.is_empty():
        return found.select("sequence", "device", "thread_id")
    texts = marks.group_by("text").agg(pl.len()).sort(["len", "text"], descending=[True, False])
    if texts.is_empty():
        message = f"{recording.source} has no marks"
        hint = "mark the points A, B and C with mstx.mark(text), or with mstxMarkA in a C program"
        raise ConfigurationError(message, option="mstx_info", value=mstx_info, hint=hint)
    listed = ", ".join(f"{text!r} ({count} times)" for text, count in texts.head(_MOST_TEXTS).iter_rows())
    more = "" if texts.height <= _MOST_TEXTS else f" and {texts.height - _MOST_TEXTS} more"
    message = f"no mark of {recording.source} has this text"
    raise ConfigurationError(message, option="mstx_info", value=mstx_info, accepted=f"{listed}{more}")


def _ranges(marks: pl.DataFrame, devices: pl.Series) -> dict[int, list[int]]:
    """Return for each device that has blocks the marks that count for it."""
    if marks["thread_id"].n_unique() <= 1 or marks["device"].n_unique() <= 1:
        everything = marks["sequence"].to_list()
        return dict.fromkeys(devices.to_list(), everything)
    own = {device: part["sequence"].to_list() for (device,), part in marks.partition_by("device", as_dict=True).items()}
    return {device: own.get(device, []) for device in devices}


def _leaked(blocks: pl.DataFrame, device: int, marks: list[int]) -> tuple[int, pl.DataFrame]:
    """Return how many blocks of a device were allocated between A and B, and those not freed before C."""
    a, b, c = marks
    # In MALLOC order, the range is one slice.
    start, end = (int(position) for position in np.searchsorted(blocks["malloc_sequence"].to_numpy(), [a, b]))
    mine = blocks[start:end].filter(pl.col("device") == device)
    return mine.height, mine.filter(pl.col("free_sequence").is_null() | (pl.col("free_sequence") > c))


def _counted_once(leaked: pl.DataFrame, recording: Recording) -> pl.DataFrame:
    """Add `counted_bytes` and `is_reserve`. Leaked blocks are alive at C: of two that overlap, one holds the other."""
    is_driver = (leaked["pool"] == Pool.HAL).to_numpy()
    driver = leaked.filter(is_driver)
    is_reserve = np.zeros(leaked.height, dtype=np.bool_)
    is_reserve[is_driver] = pool_segments(driver, recording.blocks, recording.events).to_numpy()
    counted = leaked["size"].to_numpy().copy()
    starts = leaked["address"].to_numpy().astype(np.uint64)
    ends = starts + leaked["size"].to_numpy().astype(np.uint64)
    holders: list[int] = []
    is_held = np.zeros(leaked.height, dtype=np.bool_)
    # The outer ones first: at the same address the larger one, and of equal ones the driver's.
    for row in np.lexsort((~is_driver, -leaked["size"].to_numpy(), starts)):
        while holders and ends[holders[-1]] < ends[row]:
            holders.pop()
        if holders and ends[holders[-1]] >= ends[row]:
            counted[holders[-1]] -= leaked["size"][int(row)]
            is_held[row] = True
        holders.append(int(row))
    is_mapped = np.zeros(leaked.height, dtype=np.bool_)
    is_mapped[is_driver] = is_reserve[is_driver] & ~holds_blocks(driver, recording.blocks).to_numpy()
    _without_mapped_parts(leaked, counted, is_mapped, is_held, recording.blocks)
    return leaked.with_columns(pl.Series("counted_bytes", counted), pl.Series("is_reserve", is_reserve))


def _without_mapped_parts(
    leaked: pl.DataFrame, counted: Counts, is_mapped: Flags, is_held: Flags, blocks: pl.DataFrame
) -> None:
    """Take the blocks of pools from physical memory that is mapped elsewhere and has a handle for an address.

    The places are not told: pools' blocks that lie in no block of the driver lie in mapped memory.
    """
    if not is_mapped.any():
        return
    driver = blocks.filter(
        (pl.col("pool") == Pool.HAL) & pl.col("device").is_in(leaked["device"].unique().implode())
    ).sort("address")
    starts = driver["address"].to_numpy()
    ends = starts + driver["size"].to_numpy().astype(np.uint64)
    addresses = leaked["address"].to_numpy()
    place = np.searchsorted(starts, addresses, side="right") - 1
    is_inside = (place >= 0) & (ends[np.maximum(place, 0)] > addresses)
    is_pooled = leaked["pool"].is_in(POOLS_WITH_RESERVE).to_numpy() & ~is_held & ~is_inside
    handed_out = int(leaked["size"].to_numpy()[is_pooled].sum())
    for row in np.flatnonzero(is_mapped):
        taken = min(handed_out, int(counted[row]))
        counted[row] -= taken
        handed_out -= taken


def _too_few(mstx_info: str, start_index: int, count: int) -> ConfigurationError:
    have = "1 mark" if count == 1 else f"{count} marks"
    if count < _MARKS_NEEDED:
        message = f"there {'is' if count == 1 else 'are'} {have} with this text, {_MARKS_NEEDED} are needed: A, B and C"
        return ConfigurationError(
            message, option="mstx_info", value=mstx_info, hint="mark three points and collect again"
        )
    message = f"there are {have} {mstx_info!r}, so a range of {_MARKS_NEEDED} cannot begin here"
    accepted = f"0 to {count - _MARKS_NEEDED}"
    return ConfigurationError(message, option="start_index", value=str(start_index), accepted=accepted)
