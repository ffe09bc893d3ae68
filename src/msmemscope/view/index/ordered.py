"""Searches in ascending whole numbers, in their own type: NumPy would convert all of them to the type of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Counts: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def counts_below(ordered: Numbers, values: Numbers) -> Counts:
    """Return how many of some numbers are smaller than each value.

    Args:
        ordered: The numbers, ascending; whole.
        values: Whole numbers, of any type and size.
    """
    values = np.asarray(values, dtype=np.int64)
    limits = np.iinfo(ordered.dtype)
    fitting = np.clip(values, max(limits.min, np.iinfo(np.int64).min), min(limits.max, np.iinfo(np.int64).max))
    found = np.searchsorted(ordered, fitting.astype(ordered.dtype), side="left").astype(np.int64)
    return np.where(values > fitting, len(ordered), found)


def counts_up_to(ordered: Numbers, values: Numbers) -> Counts:
    """Return how many of some numbers are not larger than each value; likewise."""
    return counts_below(ordered, np.asarray(values, dtype=np.int64) + 1)


def count_below(ordered: Numbers, value: int) -> int:
    """Return how many of some numbers are smaller than a value; likewise."""
    return int(counts_below(ordered, np.array([value]))[0])


def count_up_to(ordered: Numbers, value: int) -> int:
    """Return how many of some numbers are not larger than a value; likewise."""
    return count_below(ordered, value + 1)
