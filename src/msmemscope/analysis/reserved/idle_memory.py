"""Memory that is reserved and idle: how much, why, and the lines that it is from."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

LEAST_IDLE_BYTES: Final = 32 << 20
LEAST_IDLE_SHARE: Final = 0.25
"""The share of the reserve that must be idle to be worth a word."""


class Cause(str, Enum):
    """Why memory is reserved that nobody uses."""

    STREAM = "cached for another stream"
    WAITING = "freed, and waiting for another stream"
    ROUNDING = "rounded up"
    SIZES = "cached in sizes that fit nothing later"


def is_much(idle_bytes: int, reserved_bytes: int) -> bool:
    """Whether so much idle memory of a reserve is worth a word."""
    return idle_bytes >= max(LEAST_IDLE_BYTES, LEAST_IDLE_SHARE * reserved_bytes)


@dataclasses.dataclass(frozen=True)
class IdleMemory:
    """Memory that a pool reserved and that was idle for one reason."""

    device: int
    pool: int
    cause: Cause
    idle_bytes: int
    """The bytes that would not be reserved without the cause: in the median step; of pinned memory and of sizes at the
    peak.
    """
    reserved_bytes: int
    in_use_bytes: int
    """The most of a step; of pinned memory the bytes that were asked for, of sizes the most of all."""
    sites: pl.DataFrame
    """The lines that allocated the blocks, the largest first: `site`, `size_bytes`, `block_count`."""
    stream: int | None = None
    """Which one had blocks first (1), second and so on; None where it does not matter."""
    is_given_back: bool = False
    """Whether emptying the cache once, behind the set-up, does away with it."""
    settings_variable: str = ""
    """The environment variable with the settings of its allocator; empty where those do not help."""

    @property
    def site(self) -> str:
        """The line with most bytes; empty if none is known."""
        return str(self.sites["site"][0] or "") if len(self.sites) else ""
