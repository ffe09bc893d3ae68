"""Memory that a caching allocator keeps in blocks of sizes that fit nothing later.

A program whose tensors have other sizes in each step asks the driver again and again, though free blocks add up to
enough. Segments that can grow have no such rests. So the allocations are replayed with them, and memory that is not
reserved then was idle for its sizes. Only more than half of the reserve is worth a word: some rest is usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.replay.allocator_settings import read_settings
from msmemscope.analysis.replay.recorded_allocations import allocating_devices, allocator_kind
from msmemscope.analysis.replay.replayed_recording import ReplayOptions, prepared
from msmemscope.analysis.reserved.idle_memory import LEAST_IDLE_BYTES, Cause, IdleMemory
from msmemscope.analysis.reserved.idle_pools import course_of, is_like_recorded, size_by_site
from msmemscope.model.devices import names_of
from msmemscope.model.pools import CACHING_POOLS, Pool
from msmemscope.recording.timeline import MemoryUse, blocks_in_use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.recording import Recording

_LEAST_SHARE: Final = 1 / 2
"""Of the reserve at its largest, that must be idle."""
_GROWING_SEGMENTS: Final = "expandable_segments:True"
_OF_PROGRAM: Final = "APP"
"""The module of the driver's memory that the program, and so torch's pool, asked for."""


def find_idle_sizes(recording: Recording) -> Iterator[IdleMemory]:
    """Find the memory of caching allocators in blocks that fit nothing later, at most one finding for each device.

    Args:
        recording: With MALLOC and FREE of a pool and of the driver: without the latter nothing is found.
    """
    of_program = recording.attributes.filter(pl.col("module") == _OF_PROGRAM)["attribute_id"]
    for device in allocating_devices(recording):
        pool = int(CACHING_POOLS[allocator_kind(device)])
        on_device = recording.blocks.filter(pl.col("device") == device)
        blocks = on_device.filter(pl.col("pool") == pool)
        driver = on_device.filter((pl.col("pool") == Pool.HAL) & pl.col("attribute_id").is_in(of_program.implode()))
        used = MemoryUse.of(blocks)
        # Cheap, and true of few programs.
        if not _is_most(MemoryUse.of(driver).peak_bytes, used.peak_bytes):
            continue
        allocations, settings, _, _ = prepared(recording, device, ReplayOptions())
        recorded = course_of(allocations, settings)
        growing = course_of(allocations, read_settings(_GROWING_SEGMENTS, allocations.kind))
        if settings.is_expandable or recorded is None or growing is None or not is_like_recorded(allocations, recorded):
            continue
        reserved, without = (int(course["reserved_bytes"].max(initial=0)) for course in (recorded, growing))
        if _is_most(reserved, without):
            sites = size_by_site(recording, blocks_in_use(blocks, used.peak_moment))
            yield IdleMemory(
                device,
                pool,
                Cause.SIZES,
                reserved - without,
                reserved,
                used.peak_bytes,
                sites,
                settings_variable=names_of(device).allocator_variable,
            )


def _is_most(reserved_bytes: int, needed_bytes: int) -> bool:
    idle = reserved_bytes - needed_bytes
    return idle >= max(LEAST_IDLE_BYTES, _LEAST_SHARE * reserved_bytes)
