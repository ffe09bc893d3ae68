"""Estimates of the memory that the entries of a container keep.

Some of the newest entries stand for all. Objects that others refer to as well count nothing: they would stay without
the container. Objects of one class may refer to each other: each counts by itself. No code of the program runs: sizes are asked of the types of Python, whatever a subclass says.
"""

from __future__ import annotations

import gc
import itertools
import sys
import types
from collections import deque
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from msmemscope import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SAMPLED = 16
_INNER = 8
"""Entries that stand for all of a container within an entry."""
_DEEPEST = 7
_MOST_REFERENCES = 12
"""References to an object that one container and this search have, at most."""
_OWN_REFERENCES = 2
"""References to an object that is counted: of a variable here, and of the function that counts."""
_COLLECTED_BYTES = 16
"""In front of each object that the garbage collector follows."""
_MOST_REFERENTS = 64
"""Of one object, that are looked at."""
_NEVER_DATA = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType)
"""Types of objects that belong to the program itself."""
_OF_PROGRAM = (*_NEVER_DATA, types.FunctionType)
"""The same of what an object refers to; a function that a container has may be a closure over data."""
_BASIC_SIZE: Any = type.__dict__["__basicsize__"]
_GRAIN = 16
"""Blocks of memory are multiples of so many bytes."""
_PLAIN = (str, bytes, bytearray, int, float, complex, list, dict, tuple, set, frozenset, deque)
_COLLECTED = (list, dict, tuple, set, frozenset, deque)


class EntryFacts(NamedTuple):
    """The known facts of a container's entries."""

    type_name: str
    """Of the newest ones: `str`, or `int to list` of a dictionary."""
    total_bytes: int
    """Of the container and its entries, an estimate."""


def facts_of_entries(container: Any) -> EntryFacts:
    """Estimate the memory of a list, dictionary, set or deque with what it alone keeps.

    Args:
        container: Of one of these types or a subclass.

    Raises:
        RuntimeError: Another thread changed it meanwhile.
    """
    kind = _plain_type(container)
    newest = _newest(container, kind)
    own = kind.__sizeof__(container) + _COLLECTED_BYTES
    if kind is dict:
        pairs = [newest[place : place + 2] for place in range(0, len(newest), 2)]
        name = " to ".join(type(one).__name__ for one in pairs[0]) if pairs else ""
        mean = sum(_size_of_pair(key, value) for key, value in pairs) / max(len(pairs), 1)
    else:
        name = type(newest[0]).__name__ if newest else ""
        mean = sum(_size(one, 1, _class_of(one), set()) for one in newest) / max(len(newest), 1)
    return EntryFacts(name, own + round(mean * _length(container, kind)))


def size_of_object(value: Any) -> int:
    """Estimate the memory of an object with what it alone keeps, without other objects of its class, in bytes."""
    return _size(value, 0, _class_of(value), set())


def _size_of_pair(key: Any, value: Any) -> int:
    seen: set[int] = set()
    return _size(key, 1, None, seen) + _size(value, 1, _class_of(value), seen)


def _class_of(value: Any) -> type | None:
    """The class of an object; None of lists and the like, which are data of whatever refers to them."""
    return None if type(value) in _PLAIN else type(value)


def _plain_type(value: Any) -> Any:
    return next((kind for kind in _PLAIN if issubclass(type(value), kind)), object)


def _length(container: Any, kind: Any) -> int:
    length: int = kind.__len__(container)
    return length


def _newest(container: Any, kind: Any, most: int = _SAMPLED) -> list[Any]:
    """Some entries: of a dictionary keys and values by turns; of a set any."""
    if kind in {list, tuple}:
        return list(kind.__getitem__(container, slice(-most, None)))
    if kind is dict:
        return list(itertools.chain.from_iterable(itertools.islice(reversed(dict.items(container)), most)))
    begin: Callable[[Any], Iterable[Any]] = deque.__reversed__ if kind is deque else kind.__iter__
    return list(itertools.islice(begin(container), most))


def _size(value: Any, depth: int, counted: type | None, seen: set[int]) -> int:
    """Estimate the memory of a value.

    Args:
        value: Any object.
        depth: Steps from the one that was asked for.
        counted: Within it, objects of this class count nothing.
        seen: The ids of what was counted already: an entry can refer to an object in several ways.
    """
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if depth and (sys.getrefcount(value) > _MOST_REFERENCES or issubclass(type(value), _NEVER_DATA)):
        return 0
    kind = _plain_type(value)
    array = getattr(sys.modules.get("numpy"), "ndarray", None)
    if array is not None and issubclass(type(value), array):
        return _rounded(_BASIC_SIZE.__get__(type(value))) + _bytes_of_array(value, array, depth)
    if type(value) in _tensor_types():
        return _rounded(_BASIC_SIZE.__get__(type(value))) + _bytes_of_tensor(value)
    mapping = getattr(sys.modules.get("mmap"), "mmap", None)
    if mapping is not None and issubclass(type(value), mapping):
        return _rounded(_BASIC_SIZE.__get__(type(value))) + _mapped_bytes(value, mapping)
    buffer = next((one for one in _buffer_types() if issubclass(type(value), one)), None)
    if buffer is not None:
        return _rounded(buffer.__sizeof__(value))
    if kind is object:
        return _size_of_object(value, depth, counted, seen)
    own = kind.__sizeof__(value) + (_COLLECTED_BYTES if kind in _COLLECTED else 0)
    if depth >= _DEEPEST:
        return _rounded(own)
    if kind in _COLLECTED:
        inner = _newest(value, kind, _INNER)
        length = _length(value, kind) * (2 if kind is dict else 1)
        return _rounded(own) + round(
            sum(_size_within(one, depth + 1, counted, seen) for one in inner) / max(len(inner), 1) * length
        )
    return _rounded(own)


def _buffer_types() -> tuple[Any, ...]:
    """Types whose own method knows the memory behind an object."""
    array = getattr(sys.modules.get("array"), "array", None)
    return (BytesIO,) if array is None else (BytesIO, array)


def _bytes_of_array(value: Any, array: type, depth: int) -> int:
    """The data of an array; of a view its part of the whole array, which all views of it keep."""
    base = vars(array)["base"].__get__(value)
    if base is None:
        size: int = vars(array)["nbytes"].__get__(value)
        return size
    if depth >= _DEEPEST:
        return 0
    return _size(base, depth + 1, None, set()) // max(sys.getrefcount(base) - _OWN_REFERENCES, 1)


def _tensor_types() -> tuple[type, ...]:
    """Torch's own types of tensors: nothing of the program runs where they are asked."""
    torch = sys.modules.get("torch")
    return (torch.Tensor, torch.nn.Parameter) if torch is not None and hasattr(torch, "nn") else ()


def _bytes_of_tensor(value: Any) -> int:
    """The memory of a tensor of the CPU, of one that shares it its part; 0 where such memory is recorded for itself."""
    private = sys.modules["torch"]._C  # noqa: SLF001 - the public names would ask modes of the program
    if _native.records_cpu_tensors() or not hasattr(private, "_storage_Use_Count"):
        return 0
    with private.DisableTorchFunction():
        if value.layout is not sys.modules["torch"].strided or not value.is_cpu:
            return 0
        storage = value.untyped_storage()
        size: int = storage.nbytes()
        users: int = private._storage_Use_Count(storage._cdata) - 1  # noqa: SLF001 - one is the object here
        return size // max(users, 1)


def _mapped_bytes(value: Any, mapping: Any) -> int:
    try:
        length: int = mapping.__len__(value)
    except ValueError:  # it is closed
        return 0
    return length


def _size_within(value: Any, depth: int, counted: type | None, seen: set[int]) -> int:
    return 0 if type(value) is counted else _size(value, depth, counted, seen)


def _size_of_object(value: Any, depth: int, counted: type | None, seen: set[int]) -> int:
    """That of an object of any class, by what the garbage collector follows: attributes, variables of frames."""
    own: int = _BASIC_SIZE.__get__(type(value))  # object.__sizeof__ takes any field of a frame for its length
    # A view refers to memory that is somebody else's.
    if depth >= _DEEPEST or issubclass(type(value), memoryview) or not gc.is_tracked(value):
        return _rounded(own)
    referents = [one for one in gc.get_referents(value)[:_MOST_REFERENTS] if not issubclass(type(one), _OF_PROGRAM)]
    if not any(type(one) is dict for one in referents):
        own += 8 * len(referents) + 32  # since Python 3.11 an object has its values alone, and no dictionary
    return _rounded(own + _COLLECTED_BYTES) + sum(_size_within(one, depth + 1, counted, seen) for one in referents)


def _rounded(size: int) -> int:
    return -(-size // _GRAIN) * _GRAIN
