"""Cells of tables as they are handed to the writers of CSV files and databases: numbers, and texts made of parts.

`rows.py` and `python_trace.py` decide the content of each cell, once for both kinds of files. The native code that
writes the rows (`native/offline/dump_writing`) only joins the parts.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from msmemscope import _native
from msmemscope.model.cell_texts import cell_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""A column of whole numbers; one that is the same in all rows may be broadcast."""
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_DECIMAL: Final = 1
_HEXADECIMAL: Final = 2
_KEY: Final = 3
_KEPT_BYTES: Final = 32 << 20
"""Memory of texts that are kept from batch to batch; beyond it all are forgotten and looked up again."""


class Part(NamedTuple):
    """A part of a text: a value between two texts that are the same in all rows. The native code knows the order of fields."""

    before: str = ""
    behind: str = ""
    form: int = 0
    values: Numbers | None = None
    texts: _native.KeyedTexts | None = None
    where: np.ndarray[Any, np.dtype[np.uint8]] | None = None

    def between(self, before: str, behind: str = "") -> Part:
        """Return the part with something more on both sides."""
        return self._replace(before=before + self.before, behind=self.behind + behind)

    def only(self, where: Flags) -> Part:
        """Return the part, left out of rows where a flag is not set."""
        return self._replace(where=where.view(np.uint8))


class TextCells(NamedTuple):
    """A column of texts; the native code knows the order of fields."""

    shapes: tuple[tuple[Part, ...], ...]
    """The different sequences of parts that make up the texts."""
    shape_of_row: np.ndarray[Any, np.dtype[np.uint8]] | None = None
    """None if all rows have the first."""
    otherwise: tuple[Part, ...] = ()
    """The parts for rows whose shape has none."""


def decimal(values: Numbers) -> Part:
    """Return a part that shows numbers."""
    return Part(form=_DECIMAL, values=values)


def hexadecimal(values: Numbers) -> Part:
    """Return a part that shows numbers of 64 bits as 16 hexadecimal digits."""
    return Part(form=_HEXADECIMAL, values=values)


class TextsByKey:
    """Texts that rows name by numbers, each looked up once for many rows; 0 names none.

    Args:
        is_csv: Whether they are written into CSV files.
    """

    def __init__(self, *, is_csv: bool) -> None:
        self._texts = _native.KeyedTexts(is_csv)
        self._is_csv = is_csv

    @classmethod
    def of(cls, texts: Mapping[int, str], *, is_csv: bool) -> TextsByKey:
        """Return texts that are known beforehand."""
        found = cls(is_csv=is_csv)
        for key, text in texts.items():
            found._texts.add(key, text)
        return found

    def part(self, keys: Numbers, look_up: Callable[[list[int]], Iterable[tuple[int, str]]] | None = None) -> Part:
        """Return a part that shows the texts of numbers. It is left out where there is no number.

        Args:
            keys: One per row.
            look_up: Called with those numbers that have no text yet; returns the texts of some of them.
        """
        if look_up is not None:
            if self._texts.bytes > _KEPT_BYTES:
                self._texts.clear()
            fresh = self._texts.new_keys(keys)
            if fresh:
                for key, text in look_up(fresh):
                    self._texts.add(key, text)
        return Part(form=_KEY, values=keys, texts=self._texts)


def of_program(is_csv: bool) -> Callable[[str], str]:  # noqa: FBT001 - of all that write one kind of file
    """Return how texts of the observed program are written: see `cell_texts`."""
    return cell_of_text if is_csv else str


@dataclasses.dataclass(frozen=True)
class TableRows:
    """Consecutive rows of a table."""

    columns: Sequence[Numbers | TextCells]
    count: int
    chosen: np.ndarray[Any, np.dtype[np.uint32]] | None = None
    """Which of the rows; None for all."""

    @property
    def height(self) -> int:
        """How many rows are meant."""
        return self.count if self.chosen is None else len(self.chosen)

    def only(self, where: Flags) -> TableRows:
        """Return those rows where a flag is set; of all rows."""
        return dataclasses.replace(self, chosen=np.flatnonzero(where).astype(np.uint32))

    def described(self) -> tuple[list[Numbers | TextCells], int, np.ndarray[Any, np.dtype[np.uint32]] | None]:
        """Return the arguments of the native code."""
        return list(self.columns), self.count, self.chosen
