"""A module that did not fit while it was being moved to a device: how the process notes what it needs yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TO_COME_FACT: Final = "module.to_come"
"""Key of the fact: the next event after the failure, the device, and the bytes of the module that are not there yet."""


def bytes_to_come(facts: Mapping[str, Sequence[str]], device: int) -> Iterator[tuple[int, int]]:
    """Return for each such failure on a device the number of the next event, and the bytes; damaged texts are skipped."""
    for text in facts.get(TO_COME_FACT, ()):
        number, _, rest = text.partition(" ")
        place, _, size = rest.partition(" ")
        if number.isdecimal() and size.isdecimal() and place == str(device):
            yield int(number), int(size)
