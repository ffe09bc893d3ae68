"""The words of dumps of all ages: kinds of rows, and devices."""

from __future__ import annotations

from typing import Final, NamedTuple

from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE, parse_device_name
from msmemscope.model.events import EVENT_TYPE_WORDS, OOM_RECENT_WORDS, OOM_TOP_WORDS, EventKind
from msmemscope.model.pools import POOL_WORDS, Pool

POOL_OF_WORD: Final[dict[str, int]] = {
    **{word: pool for pool, word in POOL_WORDS.items()},
    # Before pinned memory was an attribute, it was a pool of its own.
    "HOST_PINNED": int(Pool.HOST),
    "MIND_SPORE": int(Pool.MIND_SPORE),
}
"""Word of a pool, as any tool writes it in capitals, to `Pool`."""

_PINNED_WORD: Final = "HOST_PINNED"
_DERIVED_WORDS: Final = frozenset({OOM_RECENT_WORDS[0], OOM_TOP_WORDS[0]})
"""Rows that repeat what other rows tell."""
_KIND_OF_WORD: Final = {word.upper(): int(kind) for kind, word in EVENT_TYPE_WORDS.items()}
_MEMORY_WORDS: Final = {"MALLOC": int(EventKind.MALLOC), "FREE": int(EventKind.FREE)}
_ACCESS_KINDS: Final = {
    "READ": int(EventKind.ACCESS_READ),
    "WRITE": int(EventKind.ACCESS_WRITE),
    "UNKNOWN": int(EventKind.ACCESS_UNKNOWN),
}
_DEVICE_WORDS: Final = {
    "": DEVICE_NONE, "n/a": DEVICE_NONE, "9999": DEVICE_NONE,
    "host": DEVICE_CPU, "10000": DEVICE_CPU,
}  # fmt: skip


class RowKind(NamedTuple):
    """The meaning of the words `Event` and `Event Type`."""

    kind: int
    """`EventKind`."""
    pool: int
    """`Pool` of a MALLOC or FREE, else 0."""
    pinned: bool
    """Whether the word of the pool says that the memory is pinned memory of the host."""


UNKNOWN: Final = RowKind(int(EventKind.NONE), 0, pinned=False)
"""A row of a kind that is not known."""
DERIVED: Final = RowKind(255, 0, pinned=False)
"""A row that repeats what others tell."""


def kind_of(words: str) -> RowKind:
    """Return the kind of a row.

    Args:
        words: `Event`, a slash and `Event Type`, in any case; older tools have blanks where newer ones have underscores.
    """
    event, _, event_type = words.upper().partition("/")
    event_type = event_type.strip().replace(" ", "_")
    event = event.strip()
    if event in _MEMORY_WORDS:
        pool = POOL_OF_WORD.get(event_type)
        return UNKNOWN if pool is None else RowKind(_MEMORY_WORDS[event], pool, pinned=event_type == _PINNED_WORD)
    if event == "ACCESS":
        return RowKind(_ACCESS_KINDS.get(event_type, int(EventKind.NONE)), 0, pinned=False)
    if event_type in _DERIVED_WORDS:
        return DERIVED
    return RowKind(_KIND_OF_WORD.get(event_type, int(EventKind.NONE)), 0, pinned=False)


def device_of(word: str) -> int | None:
    """Return a device as events have it; None if the word of column `Device Id` is none."""
    word = word.strip().lower()
    return _DEVICE_WORDS[word] if word in _DEVICE_WORDS else parse_device_name(word)
