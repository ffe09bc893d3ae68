"""Leaks between marks: what a range of the program allocates and does not give back in time.

A program marks three points with the same text, A, B and C. A block that was allocated between A and B and not freed
before C leaks: in every pool, on every device. Marks of one loop count for all devices of the process; where several
devices are marked, each at its own moments, a device has its own marks.
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
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites

if TYPE_CHECKING:
    from msmemscope.recording import Recording

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
    leaked_blocks: int


@dataclasses.dataclass(frozen=True)
class MarkLeaks:
    """What leaked from one range of a program."""

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
    """What of this is answered."""

    def to_polars(self) -> pl.DataFrame:
        """Returns the leaked blocks, of MARK_LEAK_SCHEMA."""
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
        parts.append(leaked)
        a, b, c = chosen
        devices.append(DeviceRange(device, (a, b, c), allocated, int(leaked["size"].sum()), leaked.height))
    if not devices and (by_device or len(marks) < start_index + _MARKS_NEEDED):
        raise _too_few(mstx_info, start_index, max(map(len, by_device.values()), default=len(marks)))
    blocks = pl.concat([recording.blocks.clear(), *parts]).sort("malloc_sequence")
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
    """Returns the marks with a text: `sequence`, `device`, `thread_id`."""
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
    """Returns for each device that has blocks the marks that count for it."""
    if marks["thread_id"].n_unique() <= 1 or marks["device"].n_unique() <= 1:
        everything = marks["sequence"].to_list()
        return dict.fromkeys(devices.to_list(), everything)
    own = {device: part["sequence"].to_list() for (device,), part in marks.partition_by("device", as_dict=True).items()}
    return {device: own.get(device, []) for device in devices}


def _leaked(blocks: pl.DataFrame, device: int, marks: list[int]) -> tuple[int, pl.DataFrame]:
    """Returns how many blocks of a device were allocated between A and B, and those not freed before C."""
    a, b, c = marks
    # In MALLOC order, the range is one slice.
    start, end = (int(position) for position in np.searchsorted(blocks["malloc_sequence"].to_numpy(), [a, b]))
    mine = blocks[start:end].filter(pl.col("device") == device)
    return mine.height, mine.filter(pl.col("free_sequence").is_null() | (pl.col("free_sequence") > c))


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
