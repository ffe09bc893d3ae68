"""The cause of an allocation that failed for lack of memory, decided by what is missing and who has it.

An allocator asks the driver when nothing in its reserve fits, and gives its empty segments back before it asks for the
last time. So at the last attempt: the device has `capacity` bytes, of which `used` are in use by anybody; of the reserve of
the pools `slack` bytes lie in gaps that do not fit. The causes, in the order in which they are looked at:

1. a configured limit: torch refused by itself and no driver was asked;
2. fragmentation: with all gaps in one piece the request would have been served, from the reserve alone (`slack >= request`)
   or from the device (`used - slack + request <= capacity`);
3. it cannot be told: the device said that it had enough, and the driver refused nevertheless;
4. another process, or memory of the driver that is no pool's and has grown: the larger of the two, if it is at least what
   is missing, `used - slack + request - capacity`, and at least LEAST_SHARE of the device, since the system itself and
   modules of the driver keep some of every device;
5. a real shortage: what is left.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.fragmentation.fragmentation import Fragmentation, find_fragmentation
from msmemscope.model.devices import device_name, names_of
from msmemscope.model.events import EventKind
from msmemscope.model.owners import PROGRAM_MODULE
from msmemscope.model.pools import POOLS_WITH_RESERVE, Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.driver_owners import driver_owners
from msmemscope.recording.failed_allocations import SnapshotFigures, failed_attempts, granted_pieces, is_in_pieces
from msmemscope.recording.pool_segments import pool_segments, reported_reserves
from msmemscope.recording.timeline import blocks_in_use
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from msmemscope.recording import Recording

LEAST_SHARE: Final = 1 / 16
"""Of a device: what others hold below that is no cause, whatever is missing."""


class Cause(str, Enum):
    """Why memory ran out."""

    REAL_SHORTAGE = "real shortage"
    FRAGMENTATION = "fragmentation"
    OTHER_PROCESS = "other process"
    OUTSIDE_FRAMEWORK = "growth outside the framework"
    LIMIT = "configured limit"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class MemoryFigures:
    """What the cause is decided by, in bytes; None where it is not known."""

    device: int
    function: str
    """What failed: `halMemAlloc`; `torch.npu` if torch refused by itself; empty if not known."""
    request_bytes: int
    """What was asked for. Of physical memory in pieces: the piece that failed and those granted before it, which is the
    least that was asked for."""
    in_use_bytes: int
    """Blocks of the pools that are alive."""
    capacity_bytes: int | None = None
    """Of the device."""
    device_used_bytes: int | None = None
    """In use on the device by anybody, without granted pieces of this request."""
    process_bytes: int | None = None
    """In use on the device by this process, likewise."""
    reserved_bytes: int | None = None
    """What the pools hold of the driver's memory."""
    largest_gap_bytes: int | None = None
    """In the reserve of the pools."""
    outside_bytes: int | None = None
    """Memory of the driver that is no pool's."""
    outside_growth_bytes: int | None = None
    """Of it, what came after the first block of a pool, or what the program asked the runtime for by itself."""
    outside_owner: str = ""
    """Who has the most of the growth."""
    outside_site: str = ""
    """The call site that has the most of it."""

    @property
    def free_bytes(self) -> int | None:
        """Free on the device."""
        if self.capacity_bytes is None or self.device_used_bytes is None:
            return None
        return max(self.capacity_bytes - self.device_used_bytes, 0)

    @property
    def slack_bytes(self) -> int | None:
        """Free in the reserve of the pools."""
        return None if self.reserved_bytes is None else max(self.reserved_bytes - self.in_use_bytes, 0)

    @property
    def other_bytes(self) -> int | None:
        """In use on the device by others than this process."""
        if self.device_used_bytes is None or self.process_bytes is None:
            return None
        return max(self.device_used_bytes - self.process_bytes, 0)

    @property
    def missing_bytes(self) -> int | None:
        """What the device lacks even if the pools had no gap; negative if that would have been enough."""
        if self.capacity_bytes is None or self.device_used_bytes is None:
            return None
        return self.device_used_bytes - (self.slack_bytes or 0) + self.request_bytes - self.capacity_bytes


@dataclasses.dataclass(frozen=True)
class OutOfMemoryCause:
    """Why an allocation failed."""

    sequence: int
    """The event of its last attempt."""
    cause: Cause
    sentence: str
    """The cause with the figures that decided it."""
    advice: str
    """What can be done, one sentence."""
    figures: MemoryFigures
    missing: tuple[str, ...]
    """Figures that are not known, one line each."""


def find_cause(
    recording: Recording, sequence: int, blocks: pl.DataFrame | None = None, gaps: Fragmentation | None = None
) -> OutOfMemoryCause:
    """Find out why memory ran out.

    Args:
        recording: Any with an OOM event.
        sequence: Number of that event, of the last attempt if there were several.
        blocks: Those of the recording with an `owner` each, if the caller has them.
        gaps: What `find_fragmentation` found at that event on its device, likewise.

    Raises:
        ValueError: no OOM event has this number.
    """
    figures = memory_figures(recording, sequence, recording.blocks if blocks is None else blocks, gaps)
    cause = _decide(figures)
    return OutOfMemoryCause(
        sequence, cause, _sentence(cause, figures), _advice(cause, figures), figures, _missing(figures)
    )


def memory_figures(
    recording: Recording, sequence: int, blocks: pl.DataFrame, gaps: Fragmentation | None = None
) -> MemoryFigures:
    """Collect what the cause of an OOM event is decided by; arguments and errors as for `find_cause`."""
    events = recording.events
    found = failed_attempts(recording).filter(pl.col("sequence") == sequence)
    if found.is_empty():
        message = f"sequence: {sequence} is no event of an allocation that failed for lack of memory"
        raise ValueError(message)
    failure = found.row(0, named=True)
    device = failure["device"]
    function = failure["function"]
    on_device = blocks.filter(pl.col("device") == device)
    alive = blocks_in_use(on_device, sequence)
    pooled = alive.filter(pl.col("pool") != Pool.HAL)
    driver = alive.filter(pl.col("pool") == Pool.HAL)
    granted = granted_pieces(recording, failure, driver)
    driver = driver.join(granted, on="malloc_sequence", how="anti", maintain_order="left")
    pending = int(granted["size"].sum())
    in_use = int(pooled["size"].sum())
    state = SnapshotFigures.of_failure(recording, failure)
    used_by_all, used_by_process = _usage(events, sequence, device)
    if state.total_bytes is not None and state.free_bytes is not None:
        # The snapshot is taken inside the failure; the management interface was asked when memory of the driver changed.
        used_by_all = state.total_bytes - state.free_bytes
    known_driver = int(driver["size"].sum()) if device >= 0 and not driver.is_empty() else None
    figures = MemoryFigures(
        device=device,
        function=function,
        request_bytes=int(failure["size"]) + pending,
        in_use_bytes=in_use,
        capacity_bytes=state.total_bytes,
        device_used_bytes=None if used_by_all is None else max(used_by_all - pending, 0),
        process_bytes=known_driver if used_by_process is None else max(used_by_process - pending, 0),
    )
    if device < 0:
        return figures
    known_gaps = find_fragmentation(recording, sequence, device=device) if gaps is None else gaps
    return _with_reserve(figures, recording, known_gaps, (on_device, driver))


def _with_reserve(
    figures: MemoryFigures, recording: Recording, gaps: Fragmentation, blocks: tuple[pl.DataFrame, pl.DataFrame]
) -> MemoryFigures:
    """Adds what the pools hold, and what of the driver's memory they do not.

    Args:
        figures: Without it.
        recording: Of the process.
        gaps: On the device, at the failure.
        blocks: All of the device, and those of the driver that are alive.
    """
    on_device, driver = blocks
    of_pools = on_device.filter(pl.col("pool").is_in(POOLS_WITH_RESERVE))
    first = of_pools["malloc_sequence"].min()
    is_reserve = pool_segments(driver, on_device, recording.events.filter(pl.col("device") == figures.device))
    # Pools tell what they hold when they hand out a block: at a failure that is out of date, the driver's blocks are not.
    reserved: int | None = int(driver.filter(is_reserve)["size"].sum())
    if reserved is not None and reserved < figures.in_use_bytes:
        told = reported_reserves(recording.events, figures.device, gaps.sequence)["reserved_bytes"]
        reserved = int(told.sum()) if len(told) else None
    is_placed = not gaps.totals.is_empty() and gaps.totals["unplaced_bytes"][0] == 0
    outside = driver.clear() if first is None else driver.filter(~is_reserve)
    modules = recording.attributes.select("attribute_id", "module")
    outside = outside.join(modules, on="attribute_id", how="left", maintain_order="left").with_columns(
        owner=pl.coalesce("owner", driver_owners(pl.col("module"), figures.device))
    )
    is_own = pl.col("module").eq_missing(pl.lit(PROGRAM_MODULE))
    grown = outside.filter((pl.col("malloc_sequence") > first) | is_own) if first is not None else outside
    owner = _largest(grown, "owner")
    sites = call_sites(recording, grown)
    of_owner = grown.filter(pl.col("owner") == owner).join(sites, on=STACK_COLUMNS, how="left")
    return dataclasses.replace(
        figures,
        reserved_bytes=reserved,
        largest_gap_bytes=gaps.largest_gap_bytes if is_placed else None,
        outside_bytes=None if driver.is_empty() else int(outside["size"].sum()),
        outside_growth_bytes=None if driver.is_empty() else int(grown["size"].sum()),
        outside_owner=owner,
        outside_site=_largest(of_owner, "site"),
    )


def _largest(blocks: pl.DataFrame, column: str) -> str:
    """Returns the value of a column that most bytes have; empty for none."""
    sums = blocks.drop_nulls(column).group_by(column).agg(pl.col("size").sum())
    return str(sums.sort("size", column, descending=[True, False])[column][0]) if len(sums) else ""


def _usage(events: pl.DataFrame, sequence: int, device: int) -> tuple[int | None, int | None]:
    """Returns what the management interface said last before an event: in use by anybody, and by this process."""
    is_told = (pl.col("kind") == EventKind.DEVICE_USAGE) & (pl.col("device") == device)
    told = events.filter(is_told & (pl.col("sequence") <= sequence)).tail(1)
    if told.is_empty():
        return None, None
    by_all, by_process = int(told["size"][0]), int(told["extra"][0])
    return (by_all if by_all >= 0 else None), (by_process if by_process < 1 << 63 else None)


def _decide(figures: MemoryFigures) -> Cause:
    if figures.function.startswith("torch."):
        return Cause.LIMIT
    slack, missing, free = figures.slack_bytes or 0, figures.missing_bytes, figures.free_bytes
    fits_a_gap = figures.largest_gap_bytes is not None and figures.largest_gap_bytes >= figures.request_bytes
    if fits_a_gap:
        return Cause.UNKNOWN
    if slack >= figures.request_bytes:
        return Cause.FRAGMENTATION
    if missing is None or free is None or free >= figures.request_bytes:
        return Cause.UNKNOWN
    if missing <= 0:
        return Cause.FRAGMENTATION
    least = max(missing, (figures.capacity_bytes or 0) * LEAST_SHARE)
    others = {
        Cause.OTHER_PROCESS: figures.other_bytes or 0,
        Cause.OUTSIDE_FRAMEWORK: figures.outside_growth_bytes or 0,
    }
    largest = max(others, key=lambda cause: others[cause])
    # What exceeds the whole device is too much, whoever else is there.
    is_possible = figures.request_bytes <= (figures.capacity_bytes or 0)
    return largest if others[largest] >= least and is_possible else Cause.REAL_SHORTAGE


def _sentence(cause: Cause, figures: MemoryFigures) -> str:
    writers = {
        Cause.LIMIT: _limit,
        Cause.FRAGMENTATION: _fragmentation,
        Cause.OTHER_PROCESS: _other_process,
        Cause.OUTSIDE_FRAMEWORK: _outside,
        Cause.REAL_SHORTAGE: _shortage,
        Cause.UNKNOWN: _unknown,
    }
    return writers[cause](figures)


def _limit(figures: MemoryFigures) -> str:
    free = "" if figures.free_bytes is None else f", while {format_bytes(figures.free_bytes)} of the device were free"
    holds = format_bytes(figures.in_use_bytes if figures.reserved_bytes is None else figures.reserved_bytes)
    return (
        f"A configured limit: the pool held {holds}, and torch itself refused {_request(figures)} "
        f"(set_per_process_memory_fraction){free}."
    )


def _fragmentation(figures: MemoryFigures) -> str:
    slack, reserved = format_bytes(figures.slack_bytes or 0), format_bytes(figures.reserved_bytes or 0)
    gap = figures.largest_gap_bytes
    largest = "no gap could be used" if gap is None else f"the largest gap was {format_bytes(gap)}"
    if (figures.slack_bytes or 0) >= figures.request_bytes:
        enough = f"enough for {_request(figures)}"
    else:
        enough = f"with the {format_bytes(figures.free_bytes or 0)} free on the device enough for {_request(figures)}"
    return f"Fragmentation: {slack} of the {reserved} that the pool held were free, {enough}, but {largest}."


def _other_process(figures: MemoryFigures) -> str:
    return (
        f"Another process: {format_bytes(figures.other_bytes or 0)} of the {format_bytes(figures.capacity_bytes or 0)} of "
        f"the device were not this process's, and {_lacking(figures)}."
    )


def _outside(figures: MemoryFigures) -> str:
    mostly = f", mostly {figures.outside_owner}" if figures.outside_owner else ""
    if figures.outside_site:
        mostly += f" at {figures.outside_site}"
    return (
        f"Growth outside the framework: {format_bytes(figures.outside_growth_bytes or 0)} of the driver's memory were no "
        f"pool's{mostly}, and {_lacking(figures)}."
    )


def _shortage(figures: MemoryFigures) -> str:
    rest = (figures.device_used_bytes or 0) - (figures.slack_bytes or 0) - figures.in_use_bytes
    what = "by tensors" if figures.device < 0 else "by the pools"
    beside = f", {format_bytes(rest)} beside them" if rest > 0 else ""
    return (
        f"Real shortage: {format_bytes(figures.in_use_bytes)} in use {what}{beside}, and {_request(figures)} exceed the "
        f"{format_bytes(figures.capacity_bytes or 0)} of {_place(figures)} by "
        f"{_least(figures)}{format_bytes(figures.missing_bytes or 0)}."
    )


def _unknown(figures: MemoryFigures) -> str:
    gap, free = figures.largest_gap_bytes, figures.free_bytes
    if gap is not None and gap >= figures.request_bytes:
        return (
            f"The cause is unknown: a gap of {format_bytes(gap)} in the pool's reserve would have held "
            f"{_request(figures)}, but was not used: it may belong to another stream, or to segments for other sizes."
        )
    if free is not None:
        return (
            f"The cause is unknown: {format_bytes(free)} of {_place(figures)} were reported free, and "
            f"{figures.function or 'the allocator'} refused {_request(figures)}: another user whom that figure leaves out may "
            "have had it, or a quota forbids it."
        )
    return (
        f"The cause is unknown: {_request(figures)} failed with {format_bytes(figures.in_use_bytes)} in use by the "
        "pools, and nothing says how much the device had."
    )


def _advice(cause: Cause, figures: MemoryFigures) -> str:
    names = names_of(figures.device)
    if cause is Cause.FRAGMENTATION and is_in_pieces(figures.function):
        return _ADVICE_IN_PIECES
    if cause is Cause.UNKNOWN and not _missing(figures):
        return _ADVICE_UNEXPLAINED.format(names=names)
    return _ADVICE[cause].format(names=names)


def _request(figures: MemoryFigures) -> str:
    return f"{_least(figures)}the {format_bytes(figures.request_bytes)} asked for"


def _least(figures: MemoryFigures) -> str:
    # How much more would have been asked for after the piece that failed, nobody knows.
    return "at least " if is_in_pieces(figures.function) else ""


def _lacking(figures: MemoryFigures) -> str:
    return f"{_least(figures)}{format_bytes(figures.missing_bytes or 0)} were missing for the {format_bytes(figures.request_bytes)} asked for"


def _place(figures: MemoryFigures) -> str:
    return "the machine" if figures.device < 0 else "the device"


def _missing(figures: MemoryFigures) -> tuple[str, ...]:
    where = device_name(figures.device)
    lines = []
    if figures.free_bytes is None:
        lines.append(
            f"how much of {where} was in use: neither a snapshot of the failure nor the management interface says"
        )
    if figures.device >= 0:
        if figures.reserved_bytes is None:
            lines.append(f"what the pools held of {where}: fragmentation is not distinguished from other causes")
        if figures.process_bytes is None:
            lines.append(f"what this process held of {where}: other processes are not distinguished from it")
        if figures.outside_bytes is None:
            lines.append(
                f"memory of the driver of {where}: it was not observed, growth outside the framework is not seen"
            )
    return tuple(lines)


_ADVICE: Final[dict[Cause, str]] = {
    Cause.REAL_SHORTAGE: (
        "Lower what is in use at this moment: the call sites with the largest share, a smaller batch, recomputed "
        "activations, or a model that is split over more devices."
    ),
    Cause.FRAGMENTATION: (
        "Set {names.allocator_variable}=expandable_segments:True (or max_split_size_mb), or allocate what lives long before "
        "what lives short, so that it does not pin segments."
    ),
    Cause.OTHER_PROCESS: "Look with {names.look_at_device} who uses the device, and end it or choose another device.",
    Cause.OUTSIDE_FRAMEWORK: (
        "Look at the memory of the driver by module and call site: buffers of collectives, workspaces, or blocks that the "
        "program takes from the runtime itself and keeps."
    ),
    Cause.LIMIT: "Raise or remove the limit, or lower what is in use at this moment.",
    Cause.UNKNOWN: "Record with memory of the driver (--device={names.word}, --events=alloc,free) and look at what is missing below.",
}
_ADVICE_IN_PIECES: Final = "Segments are expandable already: allocate what lives long before what lives short, so that fewer pieces are pinned."
_ADVICE_UNEXPLAINED: Final = (
    "Compare with {names.look_at_device} while the program runs; look whether streams keep memory of their own, and whether a quota "
    "of a container or virtual device is smaller than the device."
)
