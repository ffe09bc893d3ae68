"""The findings of a check of this machine."""

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
    """The finding of one check."""

    status: Status
    subject: str
    detail: str
    advice: str = ""
    """The remedy; empty if nothing needs doing."""
    is_fatal: bool = False
    """Whether nothing at all can be observed because of it."""
