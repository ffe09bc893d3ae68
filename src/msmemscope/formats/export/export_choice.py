"""The choices of an export beside its format."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeAlias

from msmemscope.analysis.weights.measures import Measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.formats.export.redaction import Redaction

Write: TypeAlias = "Callable[[bytes | memoryview], None]"
"""Takes a file piece by piece."""


@dataclasses.dataclass(frozen=True)
class ExportChoice:
    """The facts that a writer should know beside the recording."""

    name: str
    """The name of the capture or the file; a path need not be text."""
    measure: Measure = Measure.PEAK
    """Of formats that hold one only."""

    redaction: Redaction | None = None
    """Puts tokens in the place of names; the name of the process is the caller's affair."""

    @property
    def title(self) -> str:
        """The name of the process for viewers, with question marks for parts that are no text."""
        return self.name.encode(errors="replace").decode()
