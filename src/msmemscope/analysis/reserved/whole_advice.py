"""Changes with which a job needs less memory, and its idle memory with causes that no replayed setting ends."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msmemscope.analysis.replay.advice import Advice, advise
from msmemscope.analysis.reserved.reserved import find_reserved

if TYPE_CHECKING:
    from msmemscope.analysis.replay.replayed_recording import ReplayOptions
    from msmemscope.analysis.reserved.idle_memory import IdleMemory
    from msmemscope.recording import Recording


@dataclasses.dataclass(frozen=True)
class WholeAdvice(Advice):
    """The possible changes, by device, and idle memory."""

    idle: tuple[IdleMemory, ...]
    """The most idle first."""


def advise_whole(recording: Recording, options: ReplayOptions) -> WholeAdvice:
    """Try possible changes, and look for idle memory.

    Args:
        recording: Any with allocations of torch_npu or torch.cuda.
        options: The capacity, and the settings that were recorded with.

    Raises:
        ConfigurationError: A setting is not accepted.
    """
    found = advise(recording, options)
    return WholeAdvice(found.devices, found.coverage, find_reserved(recording).found)
