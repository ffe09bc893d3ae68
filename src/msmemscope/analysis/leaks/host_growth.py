"""Growth of host memory that tensors do not explain: Python objects, arrays, native libraries, what an allocator keeps.

Their allocations are not recorded. But at the end of steps it is recorded how much of the process's resident memory belongs
to no file, at most once per millisecond. What is left of it without CPU tensors, and without memory of an emulated device,
which lies in the process, is judged by its floor: the least in each of some equally long stretches of steps. A floor that
rises from each stretch to the next one is growth. The first stretch is not judged: a program sets itself up in it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.step_bounds import WARM_UP_STEPS
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

LEAST_HOST_GROWTH_BYTES: Final = 16 << 20
"""Less is what interpreters and allocators of the system do now and then."""
_STRETCHES: Final = 6
_LEAST_FIGURES: Final = 4
"""In a stretch."""
_LEAST_RISE: Final = 0.1
"""Of the whole growth, by which the floor rises from each stretch to the next one."""


@dataclasses.dataclass(frozen=True)
class HostGrowth:
    """How the host memory of a process went over its steps, without its CPU tensors."""

    first_step: int
    last_step: int
    resident_bytes: int
    """At the end of `last_step`, CPU tensors and all: what belongs to no file."""
    growth_bytes: int
    """From the end of `first_step` to the end of `last_step`, without CPU tensors; negative if it shrank."""
    is_growing: bool
    """Whether it grew steadily, and by enough to say so."""

    @property
    def bytes_per_step(self) -> int:
        """The mean growth."""
        return round(self.growth_bytes / max(self.last_step - self.first_step, 1))


def find_host_growth(recording: Recording) -> HostGrowth | None:
    """Judge the host memory of a process.

    Args:
        recording: With STEP or IMPLIED_STEP events, MALLOC and FREE.

    Returns:
        None where too few figures were recorded to tell.
    """
    steps = recording.steps.select("number", sequence="end_sequence")
    figures = (
        recording.events.filter(pl.col("kind").is_in([EventKind.STEP, EventKind.IMPLIED_STEP]) & (pl.col("extra") > 0))
        .select("sequence", anonymous=pl.col("extra").cast(pl.Int64))
        .join(steps, on="sequence", maintain_order="left")
        .filter(pl.col("number") > WARM_UP_STEPS)
    )
    if figures.height < _STRETCHES * _LEAST_FIGURES:
        return None
    anonymous = figures["anonymous"].to_numpy()
    other = anonymous - _known_bytes(recording, figures["sequence"].to_numpy())
    numbers = figures["number"].to_numpy()
    edges = np.linspace(numbers[0], numbers[-1] + 1, _STRETCHES + 1)
    stretches = np.split(other, np.searchsorted(numbers, edges[1:-1]))
    if min(map(len, stretches)) < _LEAST_FIGURES:
        return None
    floors = np.array([stretch.min() for stretch in stretches[1:]])
    rises = np.diff(floors)
    # What is set up in the first stretch is growth, too, where it went on at no more than twice that pace.
    was_steady = other[-1] - other[0] <= 2 * (other[-1] - stretches[1][0])
    begin = 0 if was_steady else len(stretches[0])
    growth = int(other[-1] - other[begin])
    is_steady = bool((rises >= _LEAST_RISE * (floors[-1] - floors[0])).all())
    return HostGrowth(
        first_step=int(numbers[begin]),
        last_step=int(numbers[-1]),
        resident_bytes=int(anonymous[-1]),
        growth_bytes=growth,
        is_growing=is_steady and min(growth, int(floors[-1] - floors[0])) >= LEAST_HOST_GROWTH_BYTES,
    )


def _known_bytes(recording: Recording, sequences: np.ndarray[Any, np.dtype[np.uint64]]) -> Bytes:
    """What blocks take of the process's memory: CPU tensors, pinned memory, and the memory of a device that is emulated."""
    on_host = pl.col("device") == DEVICE_CPU
    blocks = recording.blocks.filter(on_host | (pl.col("pool") == Pool.HAL))
    return MemoryUse.of(blocks).after(sequences)
