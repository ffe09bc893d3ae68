"""A module that did not fit while it was being moved to a device: how the process notes what it needs yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TO_COME_FACT: Final = "module.to_come"
"""Key of the fact: the next event after the failure, the device, and the bytes of the module that are not there yet."""


_NUMBERS: Final = "(?P<number>[0-9]{1,18}) (?P<device>-?[0-9]{1,6}) (?P<size>[0-9]{1,15})"
"""A text, not compiled: programs that never fail import this, too."""


def bytes_to_come(facts: Mapping[str, Sequence[str]], device: int) -> Iterator[tuple[int, int]]:
    """Return for each such failure on a device the number of the next event, and the bytes; damaged texts are skipped."""
    for text in facts.get(TO_COME_FACT, ()):
        found = re.fullmatch(_NUMBERS, text)
        if found is not None and int(found["device"]) == device:
            yield int(found["number"]), int(found["size"])
