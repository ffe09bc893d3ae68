"""Texts as ids, so that a text which a million rows have is kept once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from msmemscope.recording.schema import STRING_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable


class LocalTexts(NamedTuple):
    """A column of texts as numbers of its different texts."""

    numbers: pl.Series
    """Per row, u32: 0 for no text, else 1 and the place in `texts`."""
    texts: list[str]
    """The different texts, in the order in which they first appear."""


def local_texts(column: pl.Series) -> LocalTexts:
    """Number the different texts of a column; null and empty texts are none.

    Args:
        column: Texts.
    """
    different = column.drop_nulls().unique(maintain_order=True)
    different = different.filter(different != "")
    if different.is_empty():
        return LocalTexts(pl.repeat(0, len(column), dtype=pl.UInt32, eager=True), [])
    table = pl.DataFrame(
        {"text": different, "number": pl.int_range(1, len(different) + 1, dtype=pl.UInt32, eager=True)}
    )
    joined = column.alias("text").to_frame().join(table, on="text", how="left", maintain_order="left")
    return LocalTexts(joined["number"].fill_null(0), different.to_list())


def without_unused(local: LocalTexts) -> LocalTexts:
    """Leave out the texts that no row has."""
    used = local.numbers.unique().sort()
    used = used.filter(used != 0)
    if len(used) == len(local.texts):
        return local
    numbers = pl.repeat(0, len(local.texts) + 1, dtype=pl.UInt32, eager=True)
    numbers = numbers.scatter(used, pl.int_range(1, len(used) + 1, dtype=pl.UInt32, eager=True))
    return LocalTexts(numbers.gather(local.numbers), [local.texts[number - 1] for number in used])


class Interner:
    """Gives each different text an id, from 1 in the order in which they come; 0 stands for no text."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def id_of(self, text: str) -> int:
        """Return the id of a text, 0 of an empty one."""
        if not text:
            return 0
        return self._ids.setdefault(text, len(self._ids) + 1)

    def ids_of(self, texts: Iterable[str]) -> list[int]:
        """Return the ids of texts."""
        return [self.id_of(text) for text in texts]

    def column(self, local: LocalTexts) -> pl.Series:
        """Return the ids of a column of texts."""
        ids = pl.Series([0, *self.ids_of(local.texts)], dtype=pl.UInt32)
        return ids.gather(local.numbers)

    def frame(self) -> pl.DataFrame:
        """Return all texts, as STRING_SCHEMA."""
        return pl.DataFrame({"id": list(self._ids.values()), "text": list(self._ids)}, schema=STRING_SCHEMA)

    def texts(self) -> list[str]:
        """Return all texts by their ids; at 0 stands an empty one."""
        return ["", *self._ids]
