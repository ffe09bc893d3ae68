"""Memory that is allocated long before it is used: its pages come into memory when they are touched first.

A replay buffer or a table of zeros is one large block that is filled over the run. Resident memory grows with it, and
no allocation explains that. How much of a block was touched at once is seen in the figures around its allocation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.host.host_figures import blocks_in_process, host_figures
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.analysis.host.host_samples import HostSamples
    from msmemscope.recording import Recording

_LARGE_BYTES: Final = 8 << 20
"""Of a block: smaller ones are taken from memory that was in use before."""

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def touched_later_bytes(recording: Recording, samples: HostSamples, begin: int, end: int) -> int:
    """Return the bytes of large blocks that were allocated before a time, alive in it, and not touched at once.

    Args:
        recording: With figures of host memory.
        samples: Of allocations outside of tensors.
        begin: Number of the first event of that time.
        end: Of its last event.
    """
    figures = host_figures(recording).filter(pl.col("sequence") <= end)
    if figures.is_empty():
        return 0
    tensors = blocks_in_process(recording)
    sequences = figures["sequence"].to_numpy()
    resident: Bytes = figures["anonymous"].to_numpy() - figures["kept"].to_numpy()
    outside = resident - MemoryUse.of(tensors).after(sequences)
    return _untouched(sequences, outside, tensors, begin, end, is_counted=True) + _untouched(
        sequences, outside, samples.as_blocks(), begin, end, is_counted=False
    )


def _untouched(
    sequences: np.ndarray[Any, np.dtype[np.uint64]], outside: Bytes, blocks: pl.DataFrame, begin: int, end: int,
    *, is_counted: bool,
) -> int:  # fmt: skip
    """Compare the figures around the allocations of large blocks.

    Args:
        sequences: Of the figures.
        outside: The memory outside of tensors at each.
        blocks: `malloc_sequence`, `free_sequence` and `size`.
        begin: Number of the first event of the time that they live through.
        end: Of its last event.
        is_counted: Whether the blocks are tensors: an untouched one lowers `outside`, any other one does not raise it.
    """
    large = blocks.filter(
        pl.col("size") >= _LARGE_BYTES,
        pl.col("malloc_sequence") <= begin,
        pl.col("free_sequence").fill_null(end + 1) > end,
    )
    if large.is_empty():
        return 0
    places = np.searchsorted(sequences, large["malloc_sequence"].to_numpy())
    between = np.bincount(places, weights=large["size"].to_numpy(), minlength=len(sequences) + 1)
    untouched = 0
    for place in np.flatnonzero(between[: len(sequences)]):
        rise = int(outside[place] - outside[max(place - 1, 0)])
        untouched += max(min(int(between[place]), -rise if is_counted else int(between[place]) - max(rise, 0)), 0)
    return untouched
