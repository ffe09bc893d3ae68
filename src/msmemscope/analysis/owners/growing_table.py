"""Columns that grow with the number of blocks: the known facts of each, in as little memory as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class GrowingTable:
    """Columns of one row per block, with room for more rows.

    Args:
        dtypes: Name to NumPy type of the columns that are always there.
    """

    def __init__(self, dtypes: dict[str, Any]) -> None:
        """Start without rows."""
        self._columns = {name: np.zeros(0, dtype=dtype) for name, dtype in dtypes.items()}
        self._capacity = 0
        self._rows = 0

    def __getitem__(self, name: str) -> _Numbers:
        """Return the rows of a column, which may be written to; zeros if there is no such column."""
        column = self._columns.get(name)
        return np.zeros(self._rows, dtype=np.uint32) if column is None else column[: self._rows]

    def column(self, name: str, dtype: Any) -> _Numbers:
        """Return the rows of a column, which is made where it is missing."""
        if name not in self._columns:
            self._columns[name] = np.zeros(self._capacity, dtype=dtype)
        return self[name]

    def append(self, **values: _Numbers) -> int:
        """Append rows, zero in columns that are not given, and return the number of the first."""
        first = self._rows
        self._rows += len(next(iter(values.values())))
        if self._rows > self._capacity:
            self._capacity = max(2 * self._capacity, self._rows)
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate((column, np.zeros(self._capacity - len(column), column.dtype)))
        for name, given in values.items():
            self[name][first:] = given
        return first
