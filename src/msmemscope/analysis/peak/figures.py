"""The figures of an allocation that failed: the request, the bytes in use of each, and the size of the device."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.model.events import EventKind
from msmemscope.model.owners import PROGRAM_MODULE
from msmemscope.model.pools import POOLS_WITH_RESERVE, Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.driver_owners import driver_owners
from msmemscope.recording.failed_allocations import SnapshotFigures, failed_attempts, granted_pieces
from msmemscope.recording.pool_segments import pool_segments, reported_reserves
from msmemscope.recording.timeline import blocks_in_use

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.analysis.fragmentation.fragmentation import Fragmentation
    from msmemscope.recording import Recording

LEAST_DEVICE_BYTES: Final = 4 << 30
"""Of the memory of a device for which torch is built: the known figure where a snapshot only has the free bytes."""


@dataclasses.dataclass(frozen=True)
class MemoryFigures:
    """The figures that decide the cause, in bytes; None where they are not known."""

    device: int
    function: str
    """The function that failed: `halMemAlloc`; `torch.npu` if torch refused by itself; empty if not known."""
    request_bytes: int
    """The bytes that were asked for. Of physical memory in pieces: the piece that failed and those granted before it, a
    lower bound.
    """
    in_use_bytes: int
    """Blocks of the pools that are alive."""
    request_site: str = ""
    """The line of the program that asked; the operator if there is none, empty if neither is known."""
    need_bytes: int = 0
    """The most that the pools would have had in use if the step had finished, estimated; at least the bytes in use and
    the request.
    """
    pinned_bytes: int = 0
    """Pinned memory of the host that is alive; of a host."""
    capacity_bytes: int | None = None
    """Of the device; of the host, the room of the limit where that has less than the machine."""
    limit: str = ""
    """The limit of the process that the host's capacity is: `RLIMIT_AS`; empty if it is the machine's."""
    machine_free_bytes: int | None = None
    """Free on the machine where the capacity is that of a limit."""
    device_used_bytes: int | None = None
    """In use on the device by anybody, without granted pieces of this request."""
    process_bytes: int | None = None
    """In use on the device by this process, likewise."""
    reserved_bytes: int | None = None
    """The driver's memory that the pools hold."""
    largest_gap_bytes: int | None = None
    """In the reserve of the pools."""
    outside_bytes: int | None = None
    """Memory of the driver that is no pool's."""
    outside_growth_bytes: int | None = None
    """Of it, the bytes after the first block of a pool, or those that the program itself asked the runtime for."""
    outside_owner: str = ""
    """Who has the most of the growth."""
    outside_site: str = ""
    """The call site that has the most of it."""
    reported_free_bytes: int | None = None
    """Free on the device as the failure reported it, where its size is not known."""
    overlooked_bytes: int = 0
    """A free block that would have held the request, and was not looked for again."""

    @property
    def free_bytes(self) -> int | None:
        """Free on the device."""
        return _difference(self.capacity_bytes, self.device_used_bytes)

    @property
    def slack_bytes(self) -> int | None:
        """Free in the reserve of the pools."""
        return _difference(self.reserved_bytes, self.in_use_bytes)

    @property
    def other_bytes(self) -> int | None:
        """In use on the device by others than this process."""
        return _difference(self.device_used_bytes, self.process_bytes)

    @property
    def unattributed_bytes(self) -> int | None:
        """In use on the device and not the pools', where nobody knows whether it is this process's.

        Where the size of the device is not known either, the least that it is.
        """
        if self.device_used_bytes is None:
            return _difference(_difference(LEAST_DEVICE_BYTES, self.reported_free_bytes), self.reserved_bytes)
        return _difference(self.device_used_bytes, self.reserved_bytes) if self.process_bytes is None else None

    @property
    def more_bytes(self) -> int:
        """The bytes that the step needs beyond those in use."""
        return max(self.need_bytes - self.in_use_bytes, self.request_bytes)

    @property
    def missing_bytes(self) -> int | None:
        """The bytes that the device lacks for the step even without gaps in the pools; negative if it has enough."""
        if self.capacity_bytes is None or self.device_used_bytes is None:
            return None
        return self.device_used_bytes - (self.slack_bytes or 0) + self.more_bytes - self.capacity_bytes

    @property
    def is_room(self) -> bool:
        """Whether there would be enough for the step without gaps."""
        return self.missing_bytes is not None and self.missing_bytes <= 0

    @property
    def is_full(self) -> bool:
        """Whether the device had less than was asked for."""
        return self.free_bytes is not None and self.free_bytes < self.request_bytes

    @property
    def is_limit(self) -> bool:
        """Whether a limit refused, and not the device.

        Torch says that no driver was asked. Where the driver was not observed, the free bytes tell it.
        """
        is_of_torch = self.function.startswith("torch.") and (self.outside_bytes is not None or not self.is_full)
        return is_of_torch or self.is_refused_with_room

    @property
    def is_refused_with_room(self) -> bool:
        """Whether the device had what was asked for, as a snapshot of torch says, which names no function."""
        free = self.reported_free_bytes
        return not self.function and self.device >= 0 and free is not None and free >= self.request_bytes

    @property
    def lacking_bytes(self) -> int:
        """The bytes that would have to be free for the step to finish, with the gaps as they are."""
        if not self.is_full:
            return self.request_bytes
        # A driver that refuses although it has enough has less than it says: how much less, nobody knows.
        return max(self.missing_bytes or 0, self.request_bytes - (self.free_bytes or 0))


def _difference(larger: int | None, smaller: int | None) -> int | None:
    return None if larger is None or smaller is None else max(larger - smaller, 0)


def failure_of(recording: Recording, sequence: int) -> dict[str, Any]:
    """Return the row of `failed_attempts` with the number of an OOM event.

    Raises:
        ValueError: no OOM event has this number.
    """
    found = failed_attempts(recording).filter(pl.col("sequence") == sequence)
    if found.is_empty():
        message = f"sequence: {sequence} is no event of an allocation that failed for lack of memory"
        raise ValueError(message)
    return found.row(0, named=True)


def most_of(blocks: pl.DataFrame, column: str, size: str = "size") -> str:
    """Return the text of a column that most bytes have, which are in another one; empty for none."""
    sums = blocks.drop_nulls(column).group_by(column).agg(pl.col(size).sum())
    return str(sums.sort(size, column, descending=[True, False])[column][0]) if len(sums) else ""


def memory_figures(recording: Recording, failure: Mapping[str, Any], gaps: Fragmentation | None) -> MemoryFigures:
    """Collect the figures that decide the cause of a failure.

    Args:
        recording: Of the process.
        failure: By `failure_of`.
        gaps: On its device then; None for a host.
    """
    device, sequence = failure["device"], failure["sequence"]
    blocks = recording.blocks.filter(pl.col("device") == device)
    alive = blocks_in_use(blocks, sequence)
    driver = alive.filter(pl.col("pool") == Pool.HAL)
    granted = granted_pieces(recording, failure, driver)
    driver = driver.join(granted, on="malloc_sequence", how="anti", maintain_order="left")
    driver_bytes, pending = int(driver["size"].sum()), int(granted["size"].sum())
    state = SnapshotFigures.of_failure(recording, failure)
    used_by_all, used_by_process = _usage(recording.events, blocks.filter(pl.col("pool") == Pool.HAL), sequence, device)
    if state.total_bytes is not None and state.free_bytes is not None:
        # The snapshot is taken inside the failure; the management interface was asked when memory of the driver changed.
        used_by_all = state.total_bytes - state.free_bytes
    if used_by_process is None and gaps is not None and not driver.is_empty():
        used_by_process = driver_bytes + pending
    figures = MemoryFigures(
        device=device,
        function=failure["function"],
        request_bytes=int(failure["size"]) + pending,
        in_use_bytes=int(alive.filter(pl.col("pool") != Pool.HAL)["size"].sum()),
        capacity_bytes=state.total_bytes,
        reported_free_bytes=state.free_bytes if state.total_bytes is None else None,
        device_used_bytes=None if used_by_all is None else max(used_by_all - pending, 0),
        pinned_bytes=driver_bytes if gaps is None else 0,
        process_bytes=None if used_by_process is None else max(used_by_process - pending, 0),
    )
    if not blocks.is_empty():
        return (
            _within_limit(figures, state) if gaps is None else _with_reserve(figures, recording, gaps, blocks, driver)
        )
    if state.allocated_bytes is not None:
        # Nobody recorded its blocks, as on CUDA devices.
        figures = dataclasses.replace(figures, in_use_bytes=state.allocated_bytes)
    if gaps is None:
        return _within_limit(figures, state)
    return dataclasses.replace(figures, reserved_bytes=state.reserved_bytes)


def _within_limit(figures: MemoryFigures, state: SnapshotFigures) -> MemoryFigures:
    """Put the limit of the process in the place of the machine, if it leaves less room."""
    limit, used = state.limit_bytes, state.limit_used_bytes
    if limit is None or used is None or (figures.free_bytes is not None and limit - used > figures.free_bytes):
        return figures
    return dataclasses.replace(
        figures, limit=state.limit, capacity_bytes=limit, device_used_bytes=used, process_bytes=used,
        machine_free_bytes=figures.free_bytes,
    )  # fmt: skip


def _with_reserve(
    figures: MemoryFigures, recording: Recording, gaps: Fragmentation, blocks: pl.DataFrame, driver: pl.DataFrame
) -> MemoryFigures:
    """Add the device memory that the pools hold with some blocks, and the live driver's memory that they do not."""
    is_reserve = pool_segments(driver, blocks, recording.events.filter(pl.col("device") == figures.device))
    # Pools report their reserve when they hand out a block: at a failure that is out of date, the driver's blocks are
    # not.
    reserved: int | None = int(driver.filter(is_reserve)["size"].sum())
    if reserved is not None and reserved < figures.in_use_bytes:
        reported = reported_reserves(recording.events, figures.device, gaps.sequence)["reserved_bytes"]
        reserved = int(reported.sum()) if len(reported) else None
    is_placed = not gaps.totals.is_empty() and gaps.totals["unplaced_bytes"][0] == 0
    first = blocks.filter(pl.col("pool").is_in(POOLS_WITH_RESERVE))["malloc_sequence"].min()
    modules = recording.attributes.select("attribute_id", "module")
    outside = (
        driver.filter(~is_reserve & (first is not None))
        .join(modules, on="attribute_id", how="left", maintain_order="left")
        .with_columns(owner=pl.coalesce("owner", driver_owners(pl.col("module"), figures.device)))
    )
    grown = outside.filter(
        (pl.col("malloc_sequence") > pl.lit(first)) | pl.col("module").eq_missing(pl.lit(PROGRAM_MODULE))
    )
    owner = most_of(grown, "owner")
    of_owner = grown.filter(pl.col("owner") == owner).join(call_sites(recording, grown), on=STACK_COLUMNS, how="left")
    return dataclasses.replace(
        figures,
        reserved_bytes=reserved,
        largest_gap_bytes=gaps.largest_gap_bytes if is_placed else None,
        outside_bytes=None if driver.is_empty() else int(outside["size"].sum()),
        outside_growth_bytes=None if driver.is_empty() else int(grown["size"].sum()),
        outside_owner=owner,
        outside_site=most_of(of_owner, "site"),
    )


def _usage(events: pl.DataFrame, of_driver: pl.DataFrame, sequence: int, device: int) -> tuple[int | None, int | None]:
    """Return what is in use at an event, as the management interface said last: by anybody, and by this process.

    It is not asked at each change: that of this process follows the blocks of the driver from then on.
    """
    is_reported = (pl.col("kind") == EventKind.DEVICE_USAGE) & (pl.col("device") == device)
    reported = events.filter(is_reported & (pl.col("sequence") <= sequence)).tail(1)
    if reported.is_empty():
        return None, None
    by_all, by_process = int(reported["size"][0]), int(reported["extra"][0])
    # A report is written right in front of the event whose state it tells.
    then, now = (
        int(blocks_in_use(of_driver, moment)["size"].sum()) for moment in (reported["sequence"][0] + 1, sequence)
    )
    return (by_all if by_all >= 0 else None), (max(by_process + now - then, 0) if by_process < 1 << 63 else None)
