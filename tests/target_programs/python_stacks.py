"""Allocates from every kind of Python frame and prints the stack that Python itself sees there.

Usage: python_stacks.py LIBRARY, the stand-in for libc10. Each allocation has a size of its own, by which its record is
found; ctypes gives the GIL away during the call.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import json
import sys
import threading
from types import FrameType
from typing import Any

LIBRARY = ctypes.CDLL(sys.argv[1])
LIBRARY.fake_tensor_allocate.restype = ctypes.c_void_p
LIBRARY.fake_tensor_allocate.argtypes = [ctypes.c_size_t]
LIBRARY.fake_tensor_free.argtypes = [ctypes.c_void_p]

expected: dict[int, list[str]] = {}


def stack_of(frame: FrameType | None) -> list[str]:
    """The frames from this one outwards, as call stack columns show them."""
    lines = []
    while frame is not None:
        lines.append(f"{frame.f_code.co_filename}({frame.f_lineno}): {frame.f_code.co_name}")
        frame = frame.f_back
    return lines


def allocate() -> int:
    """Allocate and free; the recorded stack has this function's frame before what is noted here."""
    size = 1000 + len(expected)
    expected[size] = stack_of(sys._getframe(1))
    LIBRARY.fake_tensor_free(LIBRARY.fake_tensor_allocate(size))
    return size


def from_a_function() -> None:
    """Allocate on two lines of one function."""
    allocate()
    allocate()


def from_a_long_line() -> list[int]:
    """Allocate in an expression over several lines."""
    return [
        allocate(),
        max(
            allocate(),
            allocate(),
        ),
    ]


def recursive(depth: int) -> None:
    """Allocate at the end of a recursion."""
    if depth:
        recursive(depth - 1)
    else:
        allocate()


def generator() -> Any:
    """Allocate in a frame that lives on the heap."""
    for _ in range(2):
        yield allocate()


def comprehensions() -> None:
    """Allocate in frames that some versions inline."""
    list([allocate() for _ in range(1)])  # noqa: C411 - the comprehension is the point
    list(allocate() for _ in range(1))  # noqa: C400 - the generator is the point
    {index: allocate() for index in range(1)}


def decorated(function: Any) -> Any:
    """Wrap a function."""

    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


@decorated
def from_a_decorated_function() -> None:
    """Allocate below a wrapper."""
    allocate()


class Descriptor:
    """Allocates in special methods, which C code calls."""

    @property
    def value(self) -> int:
        """Allocate in a property."""
        return allocate()

    def __lt__(self, other: object) -> bool:
        """Allocate while sorting."""
        return allocate() < 0


async def coroutine() -> None:
    """Allocate on both sides of an await."""
    allocate()
    await asyncio.sleep(0)
    allocate()


def code_that_is_made_and_dropped() -> None:
    """Code objects come and go at the same addresses; each must be told from the one before."""
    for number in range(200):
        source = "\n" * (number % 7) + "def made():\n" + "    x = 1\n" * (number % 5) + "    allocate()\n"
        namespace: dict[str, Any] = {"allocate": allocate}
        exec(compile(source, f"<made {number % 11}>", "exec"), namespace)  # noqa: S102 - the point of the test
        namespace["made"]()


def unicode_names() -> None:
    """Names and files of every width that strings have."""
    namespace: dict[str, Any] = {"allocate": allocate}
    exec(compile("def größe_量(): allocate()", "/tmp/目录/größe_😀.py", "exec"), namespace)  # noqa: S102
    namespace["größe_量"]()


def main() -> None:
    """Allocate from everywhere."""
    from_a_function()
    from_a_long_line()
    recursive(0)
    recursive(30)
    list(generator())
    comprehensions()
    (lambda: allocate())()  # noqa: PLC3002, PLW0108 - the frame of a lambda is the point
    from_a_decorated_function()
    _ = Descriptor().value
    sorted([Descriptor(), Descriptor()])
    asyncio.run(coroutine())
    code_that_is_made_and_dropped()
    unicode_names()
    thread = threading.Thread(target=from_a_function)
    thread.start()
    thread.join()

    class Local:
        size = allocate()

    for _ in range(3):
        recursive(5)
    print(json.dumps(expected))


main()
