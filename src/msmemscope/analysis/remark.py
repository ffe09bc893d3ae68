"""A subject that an answer could not judge, as one sentence whose reason can be said by itself."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Remark:
    """One thing that was not judged."""

    subject: str
    """The subject: `leaks over steps`."""
    reason: str
    """Why: `2 steps have ended, at least 3 are needed`."""

    @property
    def sentence(self) -> str:
        """The whole of it: `leaks over steps: not judged, 2 steps have ended, at least 3 are needed`."""
        return f"{self.subject}: not judged, {self.reason}"
