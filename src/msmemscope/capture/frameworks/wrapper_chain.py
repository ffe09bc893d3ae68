"""Whether a function still calls ours, after others have put wrappers around it."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import Any

_MOST_LINKS = 64
"""How many functions are looked through; a wrapper may hold others that have nothing to do with it."""


def leads_to(attribute: Any, wanted: Any) -> bool:
    """Whether a wrapper calls another function, as far as can be seen: by convention, or in its closure."""
    pending, seen = [attribute], set[int]()
    while pending and len(seen) < _MOST_LINKS:
        link = pending.pop()
        if link is wanted:
            return True
        if id(link) in seen:
            continue
        seen.add(id(link))
        if isinstance(link, (staticmethod, classmethod, MethodType)):
            pending.append(link.__func__)
        elif isinstance(link, functools.partial):
            pending.append(link.func)
        elif isinstance(link, FunctionType):
            pending.extend(value for value in (link.__dict__.get("__wrapped__"), *_closure(link)) if callable(value))
    return False


def _closure(function: FunctionType) -> list[Any]:
    contents = []
    for cell in function.__closure__ or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:  # noqa: PERF203 - not filled yet
            continue
    return contents
