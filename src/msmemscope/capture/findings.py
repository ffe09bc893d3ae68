"""What a check of this machine found."""

from __future__ import annotations

import dataclasses
import enum


class Status(enum.Enum):
    """The outcome of one check."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one check found."""

    status: Status
    subject: str
    detail: str
    advice: str = ""
    """What to do about it; empty if nothing needs doing."""
    is_fatal: bool = False
    """Whether nothing at all can be observed because of it."""
