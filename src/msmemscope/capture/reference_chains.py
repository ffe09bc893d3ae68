"""Chains of references as text: `LossTrainer.history[412], from main.trainer`.

No code of the program runs. Objects are not asked for their `__class__`, as isinstance() would do with objects that
stand in for others. They are not asked to be iterated either, or to be shown in their own way.
"""

from __future__ import annotations

import _thread
import contextvars
import itertools
import re
import types
from collections import deque
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.bounds import bound_of, bound_of_cache, is_cache_of_function
from msmemscope.model.holders import BEFORE_BOUND, bound_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_KEY = 40
_MOST_BITS = 128
_LONGEST_CHAIN = 300
_ARROW = " -> "
_PLAIN_MODULES = ("builtins", "collections", "types", "functools", "_thread", "threading", "weakref", "numpy")
"""Whose objects are parts of a chain, and not what one would name as the holder."""
_NEWEST = 1000
"""Entries of a list or dictionary that are looked at first: what leaks is among the newest, whatever else there is."""
_NAMELESS = object()
_CONTEXT = contextvars.Context
_OF_THREADS: Any = _thread._local  # noqa: SLF001 - threading.local, and threading need not be imported
_FUTURES = "_asyncio"
"""The module of asyncio's tasks and futures, which are written in C and keep what they have in no attribute."""
_MOST_OF_TREE = 12
"""References from a context to the value of a variable, at most: a tree of 2**35 variables is as deep."""
_PARTS_OF_MODULES = re.compile(r"[.]_(?:parameters|buffers|modules)\['(\w+)'\]")
"""How modules of torch keep what the program calls their attributes."""
_REGISTERED = re.compile(r"[.]_(parameter|buffer)s\['\w+'\]$")
"""The end of a chain to a tensor of a module, which says so by its first word: see model/holders.py."""


def chain_text(path: Sequence[Any], root_names: dict[int, str], filled_places: dict[int, int]) -> str:
    """Write the chain that leads to the last object of a path.

    The text begins at the object nearest to the last one that has a name. Then it says the way to that object.

    Args:
        path: Objects, each referring to the next; the first is a frame, the globals of a module, or anything else.
        root_names: Names of first objects by their id.
        filled_places: As in `bound_of`, the same for all paths of a search.
    """
    text = whole = _beginning(path[0], root_names)
    holder = ""
    place, last = 0, len(path) - 1
    while place < last:
        parent = path[place]
        if place and _is_worth_naming(parent):
            holder, text = whole.removesuffix(_ARROW), _type_name(parent)
        step, taken = _step(path, place, filled_places)
        text += step
        whole += step
        place += taken
    text = text.removesuffix(_ARROW)
    registered = _REGISTERED.search(text)
    text, holder = (_PARTS_OF_MODULES.sub(r".\1", one) for one in (text, holder))
    text = f"{registered[1]} {text}" if registered else text
    return _cut(f"{text}, from {holder}" if holder and holder != text else text)


def cycle_text(cycle: Sequence[Any]) -> str:
    """Write the way from an object back to itself, from one that has a name: `Adam.step.__self__`."""
    ring = list(cycle[:-1])
    first = next((place for place, one in enumerate(ring) if _is_worth_naming(one)), 0)
    ring = ring[first:] + ring[:first]
    return chain_text([*ring, ring[0]], {}, {}) if ring else ""


def with_end(chain: str, end: str) -> str:
    """Add what the last object of a chain holds: its gradient, its graph."""
    way, separator, holder = chain.partition(", from ") if end.startswith(".") else (chain, "", "")
    return f"{way}{end}{separator}{holder}"


def _cut(chain: str) -> str:
    return (
        chain if len(chain) <= _LONGEST_CHAIN else f"{chain[: _LONGEST_CHAIN // 2]}...{chain[-_LONGEST_CHAIN // 2 :]}"
    )


def _beginning(root: Any, root_names: dict[int, str]) -> str:
    if _is(root, types.FrameType):
        function: str = root.f_code.co_name
        return function
    return root_names.get(id(root)) or _type_name(root)


def _is_worth_naming(value: Any) -> bool:
    if _is(value, type, types.ModuleType, types.FunctionType, types.FrameType, types.GeneratorType):
        return False
    return type(value).__module__ not in _PLAIN_MODULES


def _is(value: Any, *kinds: type[Any]) -> bool:
    """Whether a value is of one of some types, whatever it says of itself."""
    return issubclass(type(value), kinds)


def _type_name(value: Any) -> str:
    return type(value).__name__


def _step(path: Sequence[Any], place: int, filled_places: dict[int, int]) -> tuple[str, int]:
    """The text from one object to the next named one, and how many objects further that is."""
    parent, child = path[place], path[place + 1]
    if _is(parent, types.FrameType):
        return f".{_name_in(_native.frame_locals(parent), child)}", _through_cell(path, place)
    if _is(parent, types.FunctionType):
        return _step_of_function(path, place)
    if _is(parent, types.MethodType):
        return (f"{_ARROW if place else ''}{parent.__name__}.__self__", 1)
    if _is(parent, dict):
        return _step_of_dictionary(path, place, filled_places)
    if _is(parent, list, tuple, deque):
        return f"[{_index_in(parent, child)}{_bound_text(path, place, filled_places)}]", 1
    if _is(parent, set, frozenset):
        return "{...}", 1
    if _is(parent, types.CellType):
        return "", 1
    if _is(parent, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
        frame = (
            getattr(parent, "gi_frame", None) or getattr(parent, "cr_frame", None) or getattr(parent, "ag_frame", None)
        )
        name = _name_in(_native.frame_locals(frame), child) if frame is not None else "(local)"
        return f"({parent.__name__}).{name}", _through_cell(path, place)
    if type(parent) is _CONTEXT:
        return _step_of_context(path, place)
    if _is(parent, types.TracebackType):
        return (_ARROW + child.f_code.co_name if _is(child, types.FrameType) else ""), 1
    return _step_of_instance(path, place)


def _step_of_context(path: Sequence[Any], place: int) -> tuple[str, int]:
    """A context keeps values of its variables in a tree, whose nodes have no names."""
    for variable, value in path[place].items():
        for further in range(place + 1, min(place + _MOST_OF_TREE, len(path) - 1) + 1):
            if path[further] is value:
                return f"[{variable.name}]", further - place
    return _ARROW, 1


def _through_cell(path: Sequence[Any], place: int) -> int:
    is_cell = _is(path[place + 1], types.CellType) and place + 2 < len(path)
    return 2 if is_cell else 1


def _step_of_dictionary(path: Sequence[Any], place: int, filled_places: dict[int, int]) -> tuple[str, int]:
    parent, child = path[place], path[place + 1]
    newest = list(itertools.islice(reversed(dict.items(parent)), _NEWEST))
    key = next((key for key, value in newest if value is child), _NAMELESS)
    if key is _NAMELESS:
        key = next((key for key, value in _items(parent) if value is child), _NAMELESS)
    if place == 0 and type(key) is str:
        return f".{key}", 1  # the globals of a module
    text = _index_text(key)
    return f"{text[:-1]}{_bound_text(path, place, filled_places)}]", 1


def _step_of_function(path: Sequence[Any], place: int) -> tuple[str, int]:
    function, child = path[place], path[place + 1]
    name = function.__name__
    if child is function.__closure__ and place + 2 < len(path):
        cells = list(function.__closure__)
        index = next((index for index, cell in enumerate(cells) if cell is path[place + 2]), -1)
        cell_name = function.__code__.co_freevars[index] if index >= 0 else "?"
        return f"({name}, closure cell {cell_name})", min(3, len(path) - 1 - place)
    if child is function.__defaults__ and place + 2 < len(path):
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        index = next((index for index, value in enumerate(child) if value is path[place + 2]), 0)
        return f"({name}, default of {names[len(names) - len(child) + index]})", 2
    if child is function.__kwdefaults__ and place + 2 < len(path):
        key = next((key for key, value in _items(child) if value is path[place + 2]), "?")
        return f"({name}, default of {key})", 2
    return f"({name})", 1


def _step_of_instance(path: Sequence[Any], place: int) -> tuple[str, int]:
    """An attribute, whether its object has a dictionary that was met, one that it keeps inside, or slots."""
    parent, child = path[place], path[place + 1]
    own = _attributes_of(parent)
    if _is(parent, BaseException) and _is(child, BaseException):
        for of_error in ("__cause__", "__context__"):
            if vars(BaseException)[of_error].__get__(parent) is child:
                return f".{of_error}", 1
    if _is(child, types.TracebackType):
        return (".__traceback__" if place else ""), 1
    if _is(parent, type) and type(child) is dict:
        own = child  # what its __dict__ only shows
    if child is own and place + 2 < len(path):
        name = next((key for key, value in _items(own) if value is path[place + 2]), None)
        return (f".{name}" if type(name) is str else ".__dict__"), 2
    if own is not None:
        for name, value in _items(own):
            if value is child and type(name) is str:
                return f".{name}", 1
    for kind in type(parent).__mro__:
        for name, member in _items(vars(kind)):
            if _is(member, types.MemberDescriptorType) and _slot(member, parent) is child:
                return f".{name}", 1
    if type(parent).__module__ == "numpy":
        return ".base", 1
    if type(parent).__module__ == _FUTURES:
        way = "get_coro" if _is(child, types.CoroutineType) else "exception" if _is(child, BaseException) else "result"
        return f".{way}()", 1
    if _is(parent, _OF_THREADS) and place + 3 < len(path) and type(path[place + 2]) is dict:
        # By thread, a dictionary of its attributes.
        name = next((key for key, value in _items(path[place + 2]) if value is path[place + 3]), None)
        return (f".{name} (of a thread)", 3) if type(name) is str else (_ARROW, 1)
    if is_cache_of_function(parent):
        remembered = bound_of_cache(parent)
        return "(cache)" + ("" if remembered is None else f"[{bound_text(*remembered)}]"), 1
    return _ARROW, 1


def _attributes_of(value: Any) -> Any:
    if _is(value, type):
        return type.__getattribute__(value, "__dict__")
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _slot(member: types.MemberDescriptorType, value: Any) -> Any:
    try:
        return member.__get__(value)
    except AttributeError:
        return _NAMELESS


def _items(mapping: Any) -> list[tuple[Any, Any]]:
    """Those of a dictionary as they are, whatever its class says of them."""
    return list(dict.items(mapping) if _is(mapping, dict) else mapping.items())


def _index_in(values: Any, wanted: Any) -> str:
    kind = next(kind for kind in (list, tuple, deque) if _is(values, kind))
    if kind is list:
        newest = list.__getitem__(values, slice(-_NEWEST, None))
        place = next((index for index, value in enumerate(newest) if value is wanted), None)
        if place is not None:
            return str(list.__len__(values) - len(newest) + place)
    # A deque cannot be gone through while it changes. A list of millions is not copied.
    entries = list(deque.__iter__(values)) if kind is deque else kind.__iter__(values)
    return str(next((index for index, value in enumerate(entries) if value is wanted), "?"))


def _bound_text(path: Sequence[Any], place: int, filled_places: dict[int, int]) -> str:
    bound = bound_of(path, place, filled_places)
    return "" if bound is None else f"{BEFORE_BOUND}{bound_text(*bound)}"


def _index_text(key: Any) -> str:
    if type(key) in (str, bytes):
        return f"[{key!r}]" if len(key) <= _LONGEST_KEY else f"[{key[:_LONGEST_KEY]!r}...]"
    if type(key) in (int, float, bool, type(None)) and (type(key) is not int or key.bit_length() <= _MOST_BITS):
        return f"[{key!r}]"
    return f"[{type(key).__name__}]" if key is not _NAMELESS else "[?]"


def _name_in(pairs: Sequence[tuple[str, Any]], wanted: Any) -> str:
    return next((name for name, value in pairs if value is wanted), "(local)")
