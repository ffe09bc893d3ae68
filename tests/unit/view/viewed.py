"""A recording as the viewer has it, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

import msmemscope
from msmemscope.view.index.build import IndexBuilder
from msmemscope.view.queries.process_view import ProcessView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from unittest.mock import MagicMock

    from msmemscope.recording import Recording
    from msmemscope.view.index.store import IndexReader, IndexWriter


class IndexInMemory:
    """Stands for the files that `IndexWriter` writes and `IndexReader` reads."""

    def __init__(self) -> None:
        """Begin without anything."""
        self.facts: dict[str, Any] = {}
        self._arrays: dict[str, np.ndarray] = {}
        self._texts: dict[str, pl.Series] = {}

    def put(self, name: str, values: np.ndarray) -> None:
        """Keep an array."""
        self._arrays[name] = np.ascontiguousarray(values)

    def put_pieces(self, name: str, pieces: Iterable[np.ndarray], dtype: type, count: int) -> None:
        """Keep an array that is given in parts."""
        self._arrays[name] = np.concatenate([np.zeros(0, dtype=dtype), *pieces]).astype(dtype)
        assert len(self._arrays[name]) == count

    def put_texts(self, name: str, texts: Sequence[str] | pl.Series) -> None:
        """Keep texts."""
        self._texts[name] = pl.Series("text", texts, dtype=pl.String)

    def get(self, name: str) -> np.ndarray:
        """Return an array, which nobody may change."""
        values: np.ndarray = self._arrays[name].view()
        values.flags.writeable = False
        return values

    def texts(self, name: str) -> pl.Series:
        """Return texts."""
        return self._texts[name]


def viewed(recording: Recording, number: int = 0) -> ProcessView:
    """Return the process as the viewer opens it."""
    index = IndexInMemory()
    index.facts = IndexBuilder(recording, cast("IndexWriter", index), lambda _what, _share: None).build()
    index.facts |= {"program": "train.py", "rank": None, "is_one_of_several": False}
    return ProcessView(number, "process", cast("IndexReader", index))


def run_text(text: str, recording: Recording, monkeypatched_load: MagicMock) -> dict[str, Any]:
    """Run a "copy as Python" text on a recording; returns its names."""
    monkeypatched_load.return_value = recording
    names: dict[str, Any] = {}
    exec(compile(text, "copied", "exec"), names)  # noqa: S102 - that it runs is what is tested
    assert names["msmemscope"] is msmemscope
    return names


def sizes(table: pl.DataFrame) -> tuple[int, int]:
    """How many blocks a table has, and their bytes."""
    return table.height, int(table["size"].sum())
