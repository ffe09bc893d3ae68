"""One row of the table of measures: how many of the true answers were found, and how many of those found are true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Measure:
    """The count of one thing on one device."""

    question: str
    what: str
    device: str
    unit: str
    """The things that are counted."""
    true: int
    """There to be found."""
    found: int
    """Found, be it true or not."""
    right: int
    """Found, and true."""

    @property
    def precision(self) -> float:
        """Of what was found, the share that is true."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Of what is true, the share that was found."""
        return self.right / self.true if self.true else 1.0


def table(measures: Iterable[Measure]) -> str:
    """Return lines of text, the first with the names of the columns."""
    cells: list[tuple[str, ...]] = [
        ("question", "device", "what", "unit", "true", "found", "right", "precision", "recall")
    ]
    cells += [
        (
            *(row.question, row.device, row.what, row.unit),
            *(f"{count:,}" for count in (row.true, row.found, row.right)),
            *(f"{share:.4f}" for share in (row.precision, row.recall)),
        )
        for row in measures
    ]
    return "\n".join(
        f"{question:11}  {device:6}  {what:28}  {unit:10}  {true:>13}  {found:>13}  {right:>13}  {precision:>9}  {recall:>6}"
        for question, device, what, unit, true, found, right, precision, recall in cells
    )
