"""The sizes of blocks: a history has the requested size of a block, and the allocator hands out more.

Blocks that are alive in a snapshot have both sizes there. The others follow from the rules of PyTorch's caching
allocator, which all its kinds share:

- Requests are padded and rounded up to multiples of 512 bytes.
- A free piece that is larger is split. In segments of large blocks it is only split if more than 1 MiB is left, unless
  segments are expandable.

So every piece of such a segment is larger than 1 MiB. A smaller rest behind a block is a part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.model.caching_allocator import MOST_SMALL_BYTES
from msmemscope.model.devices import DeviceKind

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNIT: Final = 512
"""Blocks begin and end at multiples of it."""
_UNITS_PER_PART: Final = MOST_SMALL_BYTES // _UNIT
_PADDINGS: Final = {DeviceKind.NPU: (32, 0)}
"""Bytes that are added to each request, the usual ones first: it depends on the chip and its software. Nothing elsewhere."""


def rounded(requested: int, padding: int) -> int:
    """Return the size of a block for a request, where nothing is left over.

    Args:
        requested: Bytes.
        padding: Bytes that are added to each request.
    """
    return max(-(-(requested + padding) // _UNIT), 1) * _UNIT


def padding_of(kind: DeviceKind, known: Iterable[tuple[int, int]]) -> int:
    """Return how many bytes are added to each request.

    Args:
        kind: Of the devices.
        known: The requested size and the block's size, of blocks that are alive.
    """
    choices = _PADDINGS.get(kind, (0,))
    pairs = tuple(known) if len(choices) > 1 else ()
    fits = [sum(rounded(requested, padding) == size for requested, size in pairs) for padding in choices]
    return choices[fits.index(max(fits))]


class Places:
    """Addresses, each rounded down to a unit. The next one above an address is found if it is near."""

    def __init__(self) -> None:
        # A bit per unit: whole numbers of Python have as many as are needed.
        self._parts: dict[int, int] = {}

    def add(self, address: int) -> None:
        """Take an address in."""
        part, unit = divmod(address // _UNIT, _UNITS_PER_PART)
        self._parts[part] = self._parts.get(part, 0) | 1 << unit

    def discard(self, address: int) -> None:
        """Forget an address, if it is known."""
        part, unit = divmod(address // _UNIT, _UNITS_PER_PART)
        left = self._parts.get(part, 0) & ~(1 << unit)
        if left:
            self._parts[part] = left
        else:
            self._parts.pop(part, None)

    def distance(self, address: int) -> int | None:
        """Return how many bytes lie between an address and the next known one; None if more than 1 MiB."""
        part, unit = divmod(address // _UNIT, _UNITS_PER_PART)
        found = self._parts.get(part, 0) >> unit | self._parts.get(part + 1, 0) << _UNITS_PER_PART - unit
        if not found:
            return None
        units = (found & -found).bit_length() - 1
        return units * _UNIT if units <= _UNITS_PER_PART else None


class BlockSizes:
    """Sizes of the blocks of one device, in the order of its history.

    Args:
        padding: Bytes that are added to each request.
        is_split: Whether every rest is split off: where segments are expandable.
    """

    def __init__(self, padding: int, *, is_split: bool) -> None:
        self._padding = padding
        self._is_split = is_split
        self._edges = Places()
        self._begins = Places()

    def begin_segment(self, address: int, size: int) -> None:
        """Note that memory between two addresses is the allocator's."""
        self._edges.add(address + size)

    def end_segment(self, address: int, size: int) -> None:
        """Note that it is not any more."""
        self._edges.discard(address + size)

    def begin_block(self, address: int) -> None:
        """Note that a block begins."""
        self._begins.add(address)

    def end_block(self, address: int) -> None:
        """Note that a block's memory can be handed out again."""
        self._begins.discard(address)

    def size(self, address: int, requested: int) -> int:
        """Return the size of a block at an address, when blocks behind it are known."""
        size = rounded(requested, self._padding)
        if self._is_split or size <= MOST_SMALL_BYTES:
            return size
        behind = address + size
        rests = [rest for rest in (self._edges.distance(behind), self._begins.distance(behind)) if rest is not None]
        return size + min(rests, default=0)
