"""What is chosen of an export beside its format."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msmemscope.analysis.weights.measures import Measure

if TYPE_CHECKING:
    from msmemscope.formats.export.redaction import Redaction


@dataclasses.dataclass(frozen=True)
class ExportChoice:
    """What a writer should know beside the recording."""

    name: str
    """What the capture or the file is called; a path need not be text."""
    measure: Measure = Measure.PEAK
    """Of formats that hold one only."""

    redaction: Redaction | None = None
    """Puts tokens in the place of names; the name of the process is the caller's affair."""

    @property
    def title(self) -> str:
        """What viewers call the process: the name, with question marks for what is no text."""
        return self.name.encode(errors="replace").decode()
