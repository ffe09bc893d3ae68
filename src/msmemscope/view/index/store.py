"""The files of an index: an array each, which are mapped when they are read, and one of facts."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import IO, TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

FACTS_NAME: Final = "facts"
NEVER: Final = 0xFFFF_FFFF
"""Row of an event that does not happen."""


_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def cannot_be_kept(cache: Path, error: OSError) -> InputError:
    """Return the error about a folder that indexes cannot be written into, with a remedy."""
    message = f"no index can be kept in {cache}: {error.strerror or error}"
    if error.errno in _NO_ROOM:
        return InputError(message, hint="make room there, or set XDG_CACHE_HOME to a folder that has more")
    return InputError(message, hint="set XDG_CACHE_HOME to a folder that can be written")


class IndexWriter:
    """Writes the files of the index of one process.

    Args:
        folder: A new one.
        cache: The folder that the user knows, for errors.

    Raises:
        InputError: It cannot be written; so does each function.
    """

    def __init__(self, folder: Path, cache: Path) -> None:
        """Make the folder."""
        self._folder, self._cache = folder, cache
        with self._errors_named():
            folder.mkdir(parents=True)

    def put(self, name: str, values: Numbers) -> None:
        """Write an array.

        Args:
            name: Its name, with `/` between the parts.
            values: The array, of one dimension.
        """
        self.put_pieces(name, [values], values.dtype, len(values))

    def put_pieces(self, name: str, pieces: Iterable[Numbers], dtype: np.dtype[Any] | type, count: int) -> None:
        """Write an array that is never in memory as a whole.

        Args:
            name: As for `put`.
            pieces: Its parts, in order.
            dtype: Of its values.
            count: All of them.
        """
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (count,)}
        with self._opened(f"{name}.npy") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for piece in pieces:
                file.write(np.ascontiguousarray(piece, dtype=dtype).view(np.uint8).data)

    def put_texts(self, name: str, texts: Sequence[str] | pl.Series) -> None:
        """Write texts."""
        content = io.BytesIO()
        pl.DataFrame({"text": pl.Series(texts, dtype=pl.String)}).write_ipc(content)
        with self._opened(f"{name}.ipc") as file:
            file.write(content.getbuffer())

    def put_content(self, name: str, content: dict[str, Any]) -> None:
        """Write what JSON takes."""
        with self._opened(f"{name}.json") as file:
            file.write(json.dumps(content).encode())

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        path = self._folder / name
        with self._errors_named():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                yield file

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise cannot_be_kept(self._cache, error) from error


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
            self._contents = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
            self.facts = self.content(FACTS_NAME)
        except (OSError, ValueError, KeyError) as error:
            message = f"the index {folder} cannot be read: {error}"
            raise InputError(message) from error

    def content(self, name: str) -> dict[str, Any]:
        """Return the facts that were written as JSON."""
        content: dict[str, Any] = self._contents[name]
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
