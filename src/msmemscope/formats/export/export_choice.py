"""What is chosen of an export beside its format."""

from __future__ import annotations

import dataclasses
from enum import Enum


class Measure(str, Enum):
    """What the stacks of a flame graph are weighted by; the value is how the command line names it."""

    PEAK = "peak"
    """Bytes in use at the peak of the pool."""
    LEAKED = "leaked"
    """Bytes of blocks that were never freed."""
    ALLOCATED = "allocated"
    """Bytes of all blocks."""
    BYTE_SECONDS = "byte-seconds"
    """Bytes times the seconds for which they were in use."""


@dataclasses.dataclass(frozen=True)
class ExportChoice:
    """What a writer should know beside the recording."""

    name: str
    """What the capture or the file is called; a path need not be text."""
    measure: Measure = Measure.PEAK
    """Of formats that hold one only."""

    @property
    def title(self) -> str:
        """What viewers call the process: the name, with question marks for what is no text."""
        return self.name.encode(errors="replace").decode()
