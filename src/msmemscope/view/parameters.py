"""The parameters of a question in its address, each checked before anything is looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from msmemscope.view.queries.process_view import ProcessView, Window

_MOST_DIGITS = 19


class Parameters:
    """The part of a question's address behind its `?`.

    Args:
        given: Names and values, as texts.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        """Keep them."""
        self._given = given

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        return self._given.get(name, default)

    def word(self, name: str, words: Collection[str], default: str) -> str:
        """Return one of some words.

        Raises:
            UsageError: It is another one.
        """
        given = self._given.get(name, default)
        if given not in words:
            message = "is not accepted"
            raise UsageError(message, option=name, value=given, accepted=", ".join(words))
        return given

    def number(self, name: str, default: int, *, least: int = 0, most: int = (1 << 62)) -> int:
        """Return a whole number.

        Raises:
            UsageError: It is none, or too small or too large.
        """
        found = self.number_or_none(name, least=least, most=most)
        return default if found is None else found

    def number_or_none(self, name: str, *, least: int = -(1 << 62), most: int = (1 << 62)) -> int | None:
        """Return a whole number, None where it is not given; likewise."""
        given = self._given.get(name, "")
        if not given:
            return None
        digits = given.removeprefix("-")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
        if not is_number or not least <= int(given) <= most:
            message = "must be a whole number"
            raise UsageError(message, option=name, value=given, accepted=f"{least} to {most}")
        return int(given)

    def flag(self, name: str) -> bool:
        """Return whether something is switched on, `1`."""
        return self.word(name, ("0", "1"), "0") == "1"

    def window(self, process: ProcessView) -> Window:
        """Return the part of the axis between `from` and `to`."""
        axis = process.axis_or_default(self._given.get("axis"))
        return process.window(axis, self.number_or_none("from"), self.number_or_none("to"))

    def row(self, process: ProcessView, name: str = "row") -> int | None:
        """Return the row of a moment, None where it is not given."""
        return self.number_or_none(name, least=-1, most=max(process.row_count - 1, -1))
