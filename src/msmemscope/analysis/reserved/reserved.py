"""Reserved against in use: memory that pools and the driver hold for a program that uses much less of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.recorded import Need
from msmemscope.analysis.reserved.idle_pinned import find_unasked_pinned, pinned_blocks
from msmemscope.analysis.reserved.idle_pools import find_idle, pools_with_streams
from msmemscope.analysis.reserved.idle_sizes import find_idle_sizes

if TYPE_CHECKING:
    from msmemscope.analysis.options import QuestionOptions
    from msmemscope.analysis.reserved.idle_memory import IdleMemory
    from msmemscope.recording import Recording

SUBJECT: Final = Subject("Reserved memory", needed=(Need.ALLOCATIONS, Need.FREES))

RESERVED_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "cause": pl.String(),
        "idle_bytes": pl.Int64(),
        "reserved_bytes": pl.Int64(),
        "in_use_bytes": pl.Int64(),
        "stream": pl.UInt32(),
        "site": pl.String(),
    }
)
"""One row per pool and cause, the most idle first; the columns are those of IdleMemory."""


@dataclasses.dataclass(frozen=True)
class ReservedResult:
    """Memory that was reserved and idle."""

    found: tuple[IdleMemory, ...]
    """The most idle first."""
    is_judged: bool
    """Whether there was anything that can be idle for a reason that we know: several streams, frees that wait, pinned memory."""
    coverage: Coverage
    """The coverage of the answer."""

    def to_polars(self) -> pl.DataFrame:
        """Return one row per finding: RESERVED_SCHEMA."""
        rows = [
            {name: getattr(one, name) for name in RESERVED_SCHEMA} | {"cause": one.cause.value} for one in self.found
        ]
        return pl.DataFrame(rows, schema=RESERVED_SCHEMA)


def find_reserved(recording: Recording, options: QuestionOptions | None = None) -> ReservedResult:
    """Find memory that is reserved and idle for most of the program.

    Args:
        recording: Any.
        options: There are none.
    """
    del options
    coverage = coverage_of(SUBJECT, recording)
    if not coverage.is_answered:
        return ReservedResult((), is_judged=False, coverage=coverage)
    pools = pools_with_streams(recording)
    found = [one for pool in pools for one in find_idle(recording, pool)]
    pinned = pinned_blocks(recording)
    unasked = find_unasked_pinned(recording, pinned)
    found += [] if unasked is None else [unasked]
    of_streams = {(one.device, one.pool) for one in found}
    found += [one for one in find_idle_sizes(recording) if (one.device, one.pool) not in of_streams]
    is_judged = bool(pools) or bool(found) or pinned["requested_bytes"].null_count() < len(pinned)
    return ReservedResult(tuple(sorted(found, key=lambda one: -one.idle_bytes)), is_judged, coverage)
