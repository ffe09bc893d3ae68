"""The files of an index: an array each, which are mapped when they are read, and one of facts."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

FACTS_FILE: Final = "facts.json"


class IndexWriter:
    """Writes the files of the index of one process.

    Args:
        folder: A new one.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder."""
        self._folder = folder
        folder.mkdir(parents=True)

    def put(self, name: str, values: Numbers) -> None:
        """Write an array.

        Args:
            name: What it is called, with `/` between the parts.
            values: The array, of one dimension.
        """
        np.save(self._file(f"{name}.npy"), np.ascontiguousarray(values))

    def put_texts(self, name: str, texts: Sequence[str] | pl.Series) -> None:
        """Write texts."""
        pl.DataFrame({"text": pl.Series(texts, dtype=pl.String)}).write_ipc(self._file(f"{name}.ipc"))

    def put_content(self, name: str, content: dict[str, Any]) -> None:
        """Write what JSON takes."""
        self._file(f"{name}.json").write_text(json.dumps(content), encoding="utf-8")

    def _file(self, name: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class IndexReader:
    """The files of the index of one process. All are opened at once, so that they can be removed while they are in use.

    Args:
        folder: By `IndexWriter`.

    Raises:
        InputError: It is not readable.
    """

    def __init__(self, folder: Path) -> None:
        """Map the arrays."""
        try:
            self._arrays = {
                path.relative_to(folder).with_suffix("").as_posix(): _mapped(path) for path in folder.rglob("*.npy")
            }
            self._texts = {
                path.relative_to(folder).with_suffix("").as_posix(): np.memmap(path, mode="r")
                for path in folder.rglob("*.ipc")
            }
            contents = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
            self.facts: dict[str, Any] = contents[FACTS_FILE]
            self._contents = contents
        except (OSError, ValueError, KeyError) as error:
            message = f"the index {folder} cannot be read: {error}"
            raise InputError(message) from error

    def content(self, name: str) -> dict[str, Any]:
        """Return what was written as JSON."""
        content: dict[str, Any] = self._contents[f"{name}.json"]
        return content

    def get(self, name: str) -> Numbers:
        """Return an array."""
        return self._arrays[name]

    @functools.lru_cache(maxsize=64)  # noqa: B019 - lives as long as the server
    def texts(self, name: str) -> pl.Series:
        """Return texts."""
        texts: pl.Series = pl.read_ipc(self._texts[name].tobytes())["text"].rechunk()
        return texts


def _mapped(path: Path) -> Numbers:
    with path.open("rb") as opened:
        version = np.lib.format.read_magic(opened)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        is_empty = 0 in read_header(opened)[0]
    # A mapping of nothing is refused.
    mapped: Numbers = np.load(path, mmap_mode=None if is_empty else "r").view(np.ndarray)
    return mapped
