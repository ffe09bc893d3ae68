"""Memory that a forked process copies from its parent, page by page, because it only reads Python objects there.

After a fork both processes share all pages until one of them writes. Reading a Python object writes its reference count.
So a worker that goes through a list of its parent ends with a copy of most of it. The kernel says how much memory is the
worker's alone. The part that none of its own allocations explains was copied.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.host.growing_containers import GrowingContainer, largest_container
from msmemscope.analysis.host.host_figures import blocks_in_process
from msmemscope.analysis.host.host_samples import HostSamples
from msmemscope.model.events import EventKind
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    from msmemscope.recording import Recording

LEAST_COPIED_BYTES: Final = 48 << 20
"""An interpreter with torch copies less than this when it begins to work, whatever it reads."""
_LEAST_OF_CONTAINER: Final = 0.4
"""The part of a container's bytes that must have been copied for it to be named."""
_LEAST_OF_COPIED: Final = 0.5
"""The part of the copied bytes that the container must have: collections of garbage copy something of all objects."""


@dataclasses.dataclass(frozen=True)
class CopiedPages:
    """Memory of a forked process that was its parent's, and that it copied by reading."""

    copied_bytes: int
    container: GrowingContainer
    """The container of the parent whose objects it reads."""


def find_copied_pages(recording: Recording) -> CopiedPages | None:
    """Judge the private memory of a forked process.

    Args:
        recording: With HOST_MEMORY, HOST_SAMPLE and CONTAINER events, MALLOC and FREE.

    Returns:
        None where the process was not forked, or copied little, or no container explains it.
    """
    figure = pl.col("private_bytes").cast(pl.Int64, strict=False)
    private = recording.attributes.select("attribute_id", figure).drop_nulls()
    figures = (
        recording.events.filter(pl.col("kind") == EventKind.HOST_MEMORY, pl.col("attribute_id") > 0)
        .join(private, on="attribute_id", how="inner", maintain_order="left")
        .select("sequence", "private_bytes")
    )
    if figures.is_empty():
        return None
    sequences = figures["sequence"].to_numpy()
    own = (
        MemoryUse.of(blocks_in_process(recording)).after(sequences)
        + MemoryUse.of(HostSamples.of(recording).as_blocks()).after(sequences)
    )  # fmt: skip
    copied = int((figures["private_bytes"].to_numpy() - own).max())
    container = largest_container(recording)
    if container is None or copied < max(LEAST_COPIED_BYTES, _LEAST_OF_CONTAINER * container.total_bytes):
        return None
    if container.total_bytes < _LEAST_OF_COPIED * copied:
        return None
    return CopiedPages(copied, container)
