"""The writer of a pickle, piece by piece, with many dictionaries of the same keys at once.

Python's own pickler wants all objects in memory at once: the ten million entries of a long history take several
gigabytes. Here an entry is a row of arrays, and all of them have the same opcodes and the same length. Texts and call
stacks that many entries share are written once. The pickle's memo keeps each under a number.

The opcodes are those of protocol 2 (Lib/pickletools.py of Python). Only opcodes that the viewer of memory snapshots in
browsers knows too (torch/utils/viz/MemoryViz.js) are used:

- Whole numbers have at most eight bytes.
- Nothing is taken off the stack.
- Batches are short, since the viewer passes each batch as the arguments of one call.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_PROTOCOL: Final = 2
_START: Final = b"\x80\x02"
_EMPTY_DICT: Final = b"}"
_EMPTY_LIST: Final = b"]"
_MARK: Final = b"("
_SET_ITEM: Final = b"s"
_SET_ITEMS: Final = b"u"
_APPEND: Final = b"a"
_APPENDS: Final = b"e"
_STOP: Final = b"."
_PUT: Final = b"r"
_GET: Final = b"j"
_SHORT_GET: Final = b"h"
_NUMBER: Final = b"\x8a\x08"
"""LONG1 of eight bytes."""
_SHORT_PLACES: Final = 1 << 8
_BATCH: Final = 1000
"""As many items of a list as Python's own pickler writes at once."""


class PickleStream:
    """A pickle that is being written.

    Args:
        write: Takes it piece by piece.
    """

    def __init__(self, write: Callable[[bytes | memoryview], None]) -> None:
        self._write = write
        self._remembered = 0
        write(_START)

    def finish(self) -> None:
        """End it; one object must have been written."""
        self._write(_STOP)

    def value(self, content: Any) -> None:
        """Write plain data, without remembering any of it."""
        self._write(_body(content))

    def begin_dict(self) -> None:
        """Write an empty dictionary, which keys and values follow."""
        self._write(_EMPTY_DICT)

    def begin_list(self) -> None:
        """Write an empty list, which items follow."""
        self._write(_EMPTY_LIST)

    def set_item(self) -> None:
        """Put the key and the value that were written last into the dictionary before them."""
        self._write(_SET_ITEM)

    def append(self) -> None:
        """Put the item that was written last into the list before it."""
        self._write(_APPEND)

    def remember(self, content: Any) -> int:
        """Write plain data as the next item of a list, and remember it.

        Returns:
            Its place, for references.
        """
        self.value(content)
        return self._remember_last()

    def remember_list(self, places: Iterable[int]) -> int:
        """Write a list of remembered objects, as the next item of a list, and remember it."""
        self._write(_EMPTY_LIST + _MARK + b"".join(map(_reference, places)) + _APPENDS)
        return self._remember_last()

    def reference(self, place: int) -> None:
        """Write the object that is remembered at a place."""
        self._write(_reference(place))

    def _remember_last(self) -> int:
        place = self._remembered
        self._remembered += 1
        self._write(_PUT + place.to_bytes(4, "little") + _APPEND)
        return place

    def append_records(self, records: pl.DataFrame, keys: Mapping[str, int]) -> None:
        """Append a dictionary for each row to the list that was written last.

        Args:
            records: A column per key: numbers (i64), or the places of remembered objects (u32).
            keys: Where the name of each column is remembered.
        """
        template = bytearray(_EMPTY_DICT + _MARK)
        names, formats, offsets = [], [], []
        for name, dtype in records.schema.items():
            template += _reference(keys[name])
            is_place = dtype == pl.UInt32
            template += _GET if is_place else _NUMBER
            names.append(name)
            formats.append("<u4" if is_place else "<i8")
            offsets.append(len(template))
            template += bytes(4 if is_place else 8)
        template += _SET_ITEMS
        layout = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": len(template)})
        for batch in records.iter_slices(_BATCH):
            content = bytearray(bytes(template) * len(batch))
            rows = np.frombuffer(content, layout)
            for name in names:
                rows[name] = batch[name].to_numpy()
            self._write(_MARK)
            self._write(memoryview(content))
            self._write(_APPENDS)


def _reference(place: int) -> bytes:
    return _SHORT_GET + bytes([place]) if place < _SHORT_PLACES else _GET + place.to_bytes(4, "little")


def _body(content: Any) -> bytes:
    """Return the opcodes of plain data alone, without begin, end and memo."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written, _PROTOCOL)
    pickler.fast = True  # no memo: its places are ours
    pickler.dump(content)
    return written.getvalue()[len(_START) : -len(_STOP)]
