"""Captures summed up by processes of this machine.

A lost worker, as where memory runs out, takes its pool with it. Captures that were not done are tried once more, each
in a pool of its own. So only the one that kills its worker is left without an answer.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Final

from msmemscope.cluster.capture_task import CaptureOutcome, summarise_capture
from msmemscope.formats.available_memory import available_memory_bytes
from msmemscope.launch.worker_processes import can_have_workers, worker_processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msmemscope.cluster.capture_task import TaskOptions

WORKER_BYTES: Final = 2 << 30
"""Memory that a worker counts with where the number of workers is chosen."""
_LOST: Final = "its worker was killed twice: did memory run out? --jobs=1 leaves it all of the machine"


def default_jobs() -> int:
    """Return how many workers this machine has processors and memory for."""
    processors = len(os.sched_getaffinity(0))
    memory = available_memory_bytes()
    return max(min(processors, processors if memory is None else memory // WORKER_BYTES), 1)


def summarise_locally(locations: Sequence[str], options: TaskOptions, *, jobs: int) -> Iterator[CaptureOutcome]:
    """Sum captures up, in the order in which they are done.

    Args:
        locations: Paths and URLs.
        options: Common to all.
        jobs: Processes at a time; 1 uses this one, and so does every number where workers could do harm.
    """
    if jobs == 1 or len(locations) == 1 or not can_have_workers():
        for location in locations:
            yield summarise_capture(location, options)
        return
    left = set(locations)
    for outcome in _pooled(locations, options, jobs):
        left.discard(outcome.location)
        yield outcome
    for location in sorted(left):
        yield next(_pooled([location], options, 1), CaptureOutcome(location, failure=_LOST))


def _pooled(locations: Sequence[str], options: TaskOptions, jobs: int) -> Iterator[CaptureOutcome]:
    """The outcomes of a pool, as long as none of its workers is lost."""
    with contextlib.suppress(BrokenProcessPool), worker_processes(min(jobs, len(locations))) as pool:
        futures = [pool.submit(summarise_capture, location, options) for location in locations]
        for future in concurrent.futures.as_completed(futures):
            yield future.result()
