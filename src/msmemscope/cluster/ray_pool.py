"""Captures summed up by the workers of a Ray cluster that is there already: the same work, the same bytes of answer.

A task is a capture. Ray runs the task of a lost worker again, on another one. A task that is lost more often is a
failure of its capture alone. Tasks are handed in as others end, so that a job of ten thousand captures is no ten
thousand tasks in a queue. Workers need msmemscope, as their machines can see the captures and the cache.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from msmemscope.cluster.capture_task import CaptureOutcome, summarise_capture
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msmemscope.cluster.capture_task import TaskOptions

RETRIES: Final = 3
"""How often a task is run again whose worker was lost."""
WORKER_BYTES: Final = 2 << 30
"""Memory that Ray counts a task with where it chooses a machine for it."""
_IN_FLIGHT: Final = 4
"""Tasks per processor that are handed in at a time."""


def summarise_on_ray(
    locations: Sequence[str], options: TaskOptions, *, address: str, jobs: int | None
) -> Iterator[CaptureOutcome]:
    """Sum captures up, in the order in which they are done.

    Args:
        locations: Paths and URLs that every machine of the cluster can read.
        options: Common to all.
        address: Of the cluster, or `auto` for the one that this machine belongs to.
        jobs: Tasks at a time; None for some per processor of the cluster.

    Raises:
        UsageError: Ray is not installed, or there is no cluster at the address.
    """
    try:
        import ray
    except ImportError as error:
        message = "needs Ray, which is not installed"
        raise UsageError(message, option="--ray", value=address, hint="pip install 'msmemscope[cluster]'") from error
    with _connected(ray, address):
        run = ray.remote(num_cpus=1, max_retries=RETRIES, memory=WORKER_BYTES)(summarise_capture)
        most = jobs or max(int(ray.cluster_resources().get("CPU", 1)) * _IN_FLIGHT, 1)
        waiting: dict[Any, str] = {}
        left = iter(locations)
        while True:
            while len(waiting) < most and (location := next(left, None)) is not None:
                waiting[run.remote(location, options)] = location
            if not waiting:
                return
            (done,), _ = ray.wait([*waiting], num_returns=1)
            yield _outcome(ray, done, waiting.pop(done))


def _outcome(ray: Any, task: Any, location: str) -> CaptureOutcome:
    try:
        found: CaptureOutcome = ray.get(task)
    except ray.exceptions.RayError as error:
        first = str(error).strip().partition("\n")[0]
        return CaptureOutcome(location, failure=f"its Ray task failed: {type(error).__name__}: {first}")
    return found


@contextlib.contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """While the cluster is connected; one that the program is connected to already stays so."""
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        message = f"there is no Ray cluster: {str(error).strip().partition(chr(10))[0]}"
        raise UsageError(
            message,
            option="--ray",
            value=address,
            accepted="the address of a Ray cluster, or auto",
            hint="ray start --head",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()
