"""Where searches among the objects of a program begin: its variables.

Variables that live longer come first. The order is:

1. globals of the program;
2. local variables of its functions, from the outermost on;
3. exceptions that are being handled;
4. functions and globals of libraries.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

from msmemscope.model.holders import HANDLED_EXCEPTION

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is not loaded here
_LIBRARIES = ("/site-packages/", "/dist-packages/", f"/python{sys.version_info[0]}.{sys.version_info[1]}/")


class SearchRoots:
    """The objects that a search begins with: dictionaries of globals, frames, exceptions.

    Args:
        process_ends: Whether an error that nobody caught has ended the functions whose variables the traceback keeps.
            These variables are looked at as if the functions still ran. If the program goes on, the traceback holds
            them.
    """

    def __init__(self, *, process_ends: bool = False) -> None:
        self._process_ends = process_ends
        self.names: dict[int, str] = {}
        """Of those that were gone through, by their ids."""
        self.of_program = 0
        """How many of them are variables of the program and not of libraries, once they were gone through."""

    def __iter__(self) -> Iterator[Any]:
        imported: list[Any] = list(sys.modules.values())
        modules = [module for module in imported if issubclass(type(module), types.ModuleType)]
        for module in reversed(modules):
            self.names[id(vars(module))] = module.__name__
        main = sys.modules.get("__main__")
        if main is not None:
            self.names[id(vars(main))] = "__main__"
            yield vars(main)
            self.of_program += 1
        frames = list(self._frames())
        are_of_libraries = [is_of_library(frame.f_code.co_filename) for frame in frames]
        of_program = [frame for frame, is_library in zip(frames, are_of_libraries, strict=True) if not is_library]
        self.of_program += len(of_program)
        yield from of_program
        for error in _handled_exceptions():
            self.names[id(error)] = HANDLED_EXCEPTION
            yield error
            self.of_program += 1
        yield from (frame for frame, is_library in zip(frames, are_of_libraries, strict=True) if is_library)
        for module in modules:
            if module is not main:
                yield vars(module)

    def _frames(self) -> Iterator[types.FrameType]:
        """Those of all threads, of each from the outermost on."""
        frames = sys._current_frames()  # noqa: SLF001 - the only way to see the other threads
        threads = [threading.main_thread().ident, threading.get_ident(), *frames]
        chains = [list(_frames_from(frames.get(thread or 0))) for thread in dict.fromkeys(threads)]
        # One of the frames is that of this function. If frames refer to themselves, they stay until the next garbage
        # collection. So do the frames that called them, and everything that these held when they ended.
        frames.clear()
        for chain in chains:
            yield from reversed(chain)
        if self._process_ends:
            yield from _frames_that_failed()


def is_of_library(file: str) -> bool:
    """Whether a file of Python code belongs to a package that was installed, or to Python, and not to the program."""
    return any(part in file for part in _LIBRARIES)


def _frames_from(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """Frames of the program, the innermost first."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OWN_FOLDER):
            yield frame
        frame = frame.f_back


def _frames_that_failed() -> Iterator[types.FrameType]:
    """Frames of the program in the traceback of an error that nobody caught, the outermost first."""
    traceback = getattr(sys, "last_traceback", None)
    while type(traceback) is types.TracebackType:  # isinstance() would ask the program's objects for their class
        if not traceback.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
            yield traceback.tb_frame
        traceback = traceback.tb_next


def _handled_exceptions() -> Iterator[BaseException]:
    """Exceptions that an except clause of some thread handles at this moment."""
    current = getattr(sys, "_current_exceptions", None)
    handled = [sys.exc_info()[1], *(current().values() if current is not None else ())]
    # Before Python 3.12 each is a triple.
    errors = [one[1] if type(one) is tuple else one for one in handled]
    yield from {id(error): error for error in errors if error is not None}.values()
