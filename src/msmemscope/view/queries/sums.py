"""Sums of bytes by group, exact however large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_LOW_BITS: Final = 24


def sums_by_code(codes: Numbers, values: Numbers, count: int) -> Numbers:
    """Return the sum of each group.

    Args:
        codes: The group of each value.
        values: i64, none below 0.
        count: Groups.
    """
    # Counting adds numbers of 53 bits: the upper and the lower ones by themselves are exact.
    low = np.bincount(codes, weights=values & ((1 << _LOW_BITS) - 1), minlength=count)
    high = np.bincount(codes, weights=values >> _LOW_BITS, minlength=count)
    return (high.astype(np.int64) << _LOW_BITS) + low.astype(np.int64)
