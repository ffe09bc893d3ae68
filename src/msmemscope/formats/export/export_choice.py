"""What is chosen of an export beside its format."""

from __future__ import annotations

import dataclasses

from msmemscope.analysis.weights.measures import Measure


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
