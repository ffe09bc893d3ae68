"""Versions of frameworks, and the ranges that the tables of targets are written for.

A range is `2.6+` (2.6 and later), `2.6-2.9` (from 2.6 until before 2.10), `*` (all), or one version.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = re.compile(r"[0-9]+")


def version_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, without zeros at the end, so that 2.6 and 2.6.0 are equal.

    Each part gives the number it begins with. A part that goes on after its number is the last. So `v2.14.0a0+cpu`
    gives 2 and 14; the 0 at the end is left out.

    Raises:
        ValueError: If it begins with no number.
    """
    numbers: list[int] = []
    for part in text.strip().removeprefix("v").removeprefix("V").partition("+")[0].split("."):
        number = _NUMBER.match(part)
        if number is None:
            break
        numbers.append(int(number[0]))
        if number.end() < len(part):
            break
    if not numbers:
        message = f"not a version: {text!r}"
        raise ValueError(message)
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def is_one_version(versions: str) -> bool:
    """Whether a range is one version only."""
    return versions != "*" and not versions.endswith("+") and "-" not in versions


def is_in_range(version: tuple[int, ...], versions: str) -> bool:
    """Whether a version (its numbers) lies in a range."""
    if versions == "*":
        return True
    if versions.endswith("+"):
        return version >= version_numbers(versions[:-1])
    first, dash, last = versions.partition("-")
    if dash:
        return version_numbers(first) <= version < _after(last)
    return version == version_numbers(versions)


def fitting(version: tuple[int, ...], ranges: Iterable[str]) -> tuple[str, ...]:
    """The ranges that are meant for a version: the one that is just this version, otherwise all that contain it."""
    different = tuple(dict.fromkeys(ranges))
    exact = tuple(each for each in different if is_one_version(each) and is_in_range(version, each))
    return exact or tuple(each for each in different if is_in_range(version, each))


def _after(last: str) -> tuple[int, ...]:
    """Return the first version that is too late for a range. For 2.9 and 2.9.1 that is 2.10, for 2 it is 3."""
    first, *rest = (int(number) for number in _NUMBER.findall(last))
    return (first, rest[0] + 1) if rest else (first + 1,)
