"""Replaying allocations, and trying settings of the allocator: seconds of wall and processor time, and what is promised.

Run by itself it prints its rows: `python benchmarks/replay_speed.py [--events N]`.
"""

from __future__ import annotations

import argparse
import functools
import time
from typing import TYPE_CHECKING

import numpy as np

from msmemscope.analysis.replay.advice import SettingsSearch
from msmemscope.analysis.replay.allocator_settings import read_settings
from msmemscope.analysis.replay.recorded_allocations import Action, Allocations
from msmemscope.analysis.replay.replay import replay
from msmemscope.analysis.replay.replayed_recording import ReplayOptions
from msmemscope.model.devices import DeviceKind

if TYPE_CHECKING:
    from collections.abc import Callable

MILLION = 1_000_000


def random_allocations(events: int) -> Allocations:
    """Blocks of 256 bytes to 16 MiB, about two thousand at a time."""
    random = np.random.default_rng(1)
    count = events // 3
    begins = np.arange(count) * 10
    ends = begins + random.integers(1, 4000, count) * 10 + 5
    order = np.argsort(np.concatenate([begins, ends, ends + 1]), kind="stable")
    kinds = [Action.ALLOCATE, Action.REQUEST_FREE, Action.COMPLETE_FREE]
    actions = np.repeat(np.array(kinds, np.uint8), count)[order]
    blocks = np.tile(np.arange(count, dtype=np.uint32), len(kinds))[order]
    sizes = (2 ** random.uniform(8, 24, count)).astype(np.uint64)
    requested = np.where(actions == Action.ALLOCATE, sizes[blocks], 0).astype(np.uint64)
    nothing = np.zeros(len(actions), np.uint32)
    numbers = np.arange(1, len(actions) + 1, dtype=np.uint64)
    return Allocations(
        device=0,
        kind=DeviceKind.NPU,
        actions=actions,
        blocks=blocks,
        requested_bytes=requested,
        streams=nothing,
        pools=nothing,
        sequences=numbers,
        recorded_addresses=nothing.astype(np.uint64),
        recorded_bytes=requested.astype(np.int64),
        recorded_reserved=np.full(len(actions), -1),
    )


def timed(name: str, work: Callable[[], object], limit_s: float) -> None:
    """Print a row."""
    begin, begin_processor = time.perf_counter(), time.process_time()
    work()
    seconds, processor = time.perf_counter() - begin, time.process_time() - begin_processor
    print(f"{name:<48} {seconds:6.2f} s  processor {processor:6.2f} s  at most {limit_s:g} s", flush=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10 * MILLION, help="of the replays; advice gets a tenth")
    arguments = parser.parse_args()
    many, few = random_allocations(arguments.events), random_allocations(arguments.events // 10)
    for text in ("", "expandable_segments:True", "max_split_size_mb:64"):
        settings = read_settings(text, DeviceKind.NPU)
        timed(f"replay, {many.count:,} events, {text or 'defaults'}", functools.partial(replay, many, settings), 5)
    recorded = replay(few, read_settings("", DeviceKind.NPU))
    search = SettingsSearch(few, recorded.settings, recorded, ReplayOptions(capacity_bytes=4 << 30), few.sequences[:0])
    timed(f"advise, {few.count:,} events", search.advice, 15)


if __name__ == "__main__":
    main()
