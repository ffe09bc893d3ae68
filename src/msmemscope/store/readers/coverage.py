"""What a table of events cannot show, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.events import ACCESS_KINDS, MEMORY_KINDS, EventKind, Pool

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERATORS: Final = frozenset({EventKind.ATEN_START, EventKind.ATB_START})
_KERNELS: Final = frozenset({EventKind.KERNEL_LAUNCH, EventKind.KERNEL_START})
_STEPS: Final = frozenset({EventKind.STEP, EventKind.RANGE_START})


def coverage_of(events: pl.DataFrame) -> Iterator[str]:
    """Yields one line per kind of fact that the events lack altogether.

    Args:
        events: Of EVENT_SCHEMA.
    """
    kinds = frozenset(events["kind"].unique().to_list())
    if EventKind.MALLOC not in kinds:
        yield "no allocations: nothing can be said about blocks"
    elif EventKind.FREE not in kinds:
        yield "no frees: every block looks as if it was never freed"
    if not kinds & _OPERATORS:
        yield "no operators: nothing can be said per operator, and nothing about inefficient memory"
    if not kinds & frozenset(ACCESS_KINDS):
        yield "no accesses: nothing can be said about when memory is used"
    if not kinds & _KERNELS:
        yield "no kernels: nothing can be said per kernel"
    if not kinds & _STEPS:
        yield "no steps: neither msmemscope.step() nor mstx ranges were seen"
    pools = frozenset(events.filter(pl.col("kind").is_in([*MEMORY_KINDS]))["pool"].unique().to_list())
    if pools and Pool.HAL not in pools:
        yield "no memory of the driver (HAL): the ledger of a device does not reach below its pools"
    if not (events["python_stack_id"] != 0).any() and not (events["native_stack_id"] != 0).any():
        yield "no call stacks: call sites are not known"
