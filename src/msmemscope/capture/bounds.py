"""The most entries that a container of the program will ever have, where the program says so.

The program says so in one of three ways:

- The container itself has a limit.
- The object that keeps the container has an attribute with the limit.
- The program made the places of the container beforehand.

As in chains of references, no code of the program runs.
"""

from __future__ import annotations

import functools
import re
import types
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAMES = re.compile(r"(?:max_?size|maxlen|max_(?:entries|items)|capacity|buffer_size|cache_size)$")
"""Ends of the names by which programs call such a limit. Lengths are left out: `max_length` is one of texts, as a rule."""
_PLAIN = (dict, list, tuple, deque, types.FrameType, types.ModuleType, types.FunctionType)
"""Types whose objects have no attributes of their own that could be a limit."""
_OF_MODULE = "_parameters"
"""An attribute that modules of torch have."""
_MAXLEN = deque.__dict__["maxlen"]
"""Of any deque, whatever its class calls so."""
_LEAST_EMPTY = 2
"""Places at the end of a list that must be empty: one is as often a result that is missing."""
_CACHE_OF_FUNCTION: Any = functools._lru_cache_wrapper  # noqa: SLF001 - it has no other name


def bound_of(path: Sequence[Any], place: int, filled_places: dict[int, int]) -> tuple[int, int] | None:
    """Return how many entries a container has, and the most that it takes; None where nothing says so.

    Args:
        path: Objects, each referring to the next.
        place: The place of the container in the path.
        filled_places: Known facts about lists, by their ids, as long as these are alive. Each list is gone through
            once.
    """
    values = path[place]
    kind = type(values)
    if issubclass(kind, deque) and (most := _MAXLEN.__get__(values)) is not None:
        return deque.__len__(values), most
    if kind is list:
        if id(values) not in filled_places:
            filled_places[id(values)] = _filled_places(values)
        if filled := filled_places[id(values)]:
            return filled, len(values)
    if not issubclass(kind, (list, dict, deque)):
        return None
    limits = [limit for owner in (values, _owner(path, place)) for limit in _limits(owner)]
    count = next(plain.__len__(values) for plain in (list, dict, deque) if issubclass(kind, plain))
    return (count, min(limits)) if limits else None


def is_cache_of_function(value: Any) -> bool:
    """Whether something is what `functools.lru_cache` makes of a function."""
    return type(value) is _CACHE_OF_FUNCTION


def bound_of_cache(cache: Any) -> tuple[int, int] | None:
    """Return how many results a function remembers, and the most that it will.

    None if it is no such function, or has no bound.
    """
    if not is_cache_of_function(cache):
        return None
    found = _CACHE_OF_FUNCTION.cache_info(cache)
    return (found.currsize, found.maxsize) if type(found.maxsize) is int else None


def _owner(path: Sequence[Any], place: int) -> Any:
    """The object that has a container as an attribute; None if none has."""
    if place and type(path[place - 1]) is not dict:
        return path[place - 1]
    if place > 1 and _attributes(path[place - 2]) is path[place - 1]:
        return path[place - 2]
    return None


def _filled_places(values: list[Any]) -> int:
    """How many places are filled of a list that was made with all of them, from the first on; 0 of any other list."""
    if len(values) <= _LEAST_EMPTY or values[0] is None or any(value is not None for value in values[-_LEAST_EMPTY:]):
        return 0
    filled = sum(value is not None for value in values)
    return filled if all(value is None for value in values[filled:]) else 0


def _limits(owner: Any) -> Iterator[int]:
    """Whole numbers above 0 that the attributes of an object call a limit; those of its classes if it has none itself."""
    if owner is None or type(owner) in _PLAIN:
        return
    own = _attributes(owner)
    if _OF_MODULE in own:
        return  # parameters are no entries, and the capacity of a layer is another
    for names in (own, *(vars(kind) for kind in type(owner).__mro__)):
        found = [
            value
            for name, value in list(dict.items(names) if type(names) is dict else names.items())
            if type(name) is str and type(value) is int and value > 0 and _NAMES.search(name.lower())
        ]
        yield from found
        if found:
            return


def _attributes(owner: Any) -> dict[Any, Any]:
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}
