"""Sets of labels that blocks have, each known by a number, so that millions of blocks share a few."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.model.labels import (
    MODEL_ACTIVATION,
    MODEL_WEIGHT,
    USER_LEVELS,
    LabelLevel,
    decode_labels,
    is_of_model,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NO_LABELS: Final = 0
"""The number of the empty set."""


@dataclasses.dataclass(frozen=True)
class LabelSet:
    """The labels of a block."""

    texts: tuple[tuple[LabelLevel, str], ...] = ()
    """In the order of their levels."""
    is_saved: bool = False
    """A forward pass saved it for a backward pass."""


class LabelSets:
    """All sets that occur; `analysis.owners.ownership` says which labels count.

    Args:
        text_of: String id of labels to their text.
    """

    def __init__(self, text_of: Callable[[int], str]) -> None:
        """Start with the empty set."""
        self._text_of = text_of
        self._sets = [LabelSet()]
        self._numbers = {LabelSet(): NO_LABELS}
        self._given: dict[tuple[int, int, bool], int] = {}

    def __getitem__(self, number: int) -> LabelSet:
        """Return a set by its number."""
        return self._sets[number]

    def given(self, number: int, text_id: int, *, adds: bool) -> int:
        """Return the set of a block that is given further labels.

        Args:
            number: Of the set that it has.
            text_id: String id of the labels.
            adds: Whether labels of the user are added to those that it has, as by an OWNER; at a MALLOC they are set.
        """
        key = (number, text_id, adds)
        known = self._given.get(key)
        if known is None:
            changed = _with(self._sets[number], decode_labels(self._text_of(text_id)), adds=adds)
            known = self._numbers.setdefault(changed, len(self._sets))
            if known == len(self._sets):
                self._sets.append(changed)
            self._given[key] = known
        return known


def _with(held: LabelSet, given: dict[LabelLevel, str], *, adds: bool) -> LabelSet:
    labels = dict(held.texts)
    kind = given.get(LabelLevel.DETAIL_1, "")
    before = labels.get(LabelLevel.DETAIL_1, "")
    is_saved = kind == MODEL_ACTIVATION
    # A framework's name of a weight counts, if there is one; a saved tensor is something else first.
    counts = not is_saved and not (kind == MODEL_WEIGHT and before and not is_of_model(before))
    for level, text in sorted(given.items()):
        if adds and level in USER_LEVELS:
            free = next((place for place in USER_LEVELS if place not in labels), None)
            if text and free is not None and text not in [labels.get(place) for place in USER_LEVELS]:
                labels[free] = text
        elif text and counts:
            labels[level] = text
    return LabelSet(tuple(sorted(labels.items())), held.is_saved or is_saved)
