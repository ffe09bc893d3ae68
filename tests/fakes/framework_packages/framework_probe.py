"""What the fake frameworks call in each of their functions: a test says what happens then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

listeners: list[Callable[[str], Any]] = []


def called(name: str) -> Any:
    """A function of that name runs; the last listener's answer is what it returns."""
    answer = None
    for listener in listeners:
        answer = listener(name)
    return answer
