"""Numbers for labels of owners, so that blocks need not hold text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from msmemscope.model.labels import decode_labels

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class LabelTable:
    """Numbers for single labels, and the labels of label texts.

    Args:
        strings: String id to text.
    """

    def __init__(self, strings: Mapping[int, str]) -> None:
        """Start without labels."""
        self._strings = strings
        self._numbers: dict[str, int] = {}
        self._texts = [""]
        self._parts: dict[int, dict[int, int]] = {}
        self.levels_in_use: set[int] = set()
        """Levels on which some text that was asked for has a label."""

    def text(self, number: int) -> str:
        """Return the label of a number."""
        return self._texts[number]

    def by_level(self, text_ids: _Numbers) -> dict[int, _Numbers]:
        """Take label texts apart.

        Args:
            text_ids: String ids of label texts.

        Returns:
            Level to the number of the label that each text has there, 0 for none; levels without labels left out.
        """
        different, places = np.unique(text_ids, return_inverse=True)
        parts = [self._parts_of(text_id) for text_id in different.tolist()]
        found = {}
        for level in sorted({level for part in parts for level in part}):
            of_each = np.array([part.get(level, 0) for part in parts], dtype=np.uint32)
            found[level] = of_each[places]
        return found

    def _parts_of(self, text_id: int) -> dict[int, int]:
        known = self._parts.get(text_id)
        if known is None:
            labels = decode_labels(self._strings.get(text_id, ""))
            known = self._parts[text_id] = {int(level): self._number(label) for level, label in labels.items() if label}
            self.levels_in_use.update(known)
        return known

    def number_of(self, label: str) -> int:
        """Return the number of a label; it gets one if it has none."""
        return self._number(label)

    def _number(self, label: str) -> int:
        number = self._numbers.get(label)
        if number is None:
            number = self._numbers[label] = len(self._texts)
            self._texts.append(label)
        return number
