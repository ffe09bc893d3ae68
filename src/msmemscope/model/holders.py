"""The words of chains of references that say more than a path: the observed process writes them, analyses read them."""

from __future__ import annotations

from typing import Final

AUTOGRAD_GRAPH: Final = " -> autograd graph"
"""End of a chain: a graph of torch holds the block, and the part before it holds the graph."""
HANDLED_EXCEPTION: Final = "exception being handled"
"""Begin of a chain: an exception in an except clause that has not ended, and the frames of its traceback."""
TRACEBACK: Final = ".__traceback__ -> "
"""Within a chain: frames of functions that have ended hold the block, because something refers to their exception."""
IN_CYCLE: Final = ", in a reference cycle through "
"""Within a chain: no variable leads to the block, it waits for the garbage collector. The cycle follows."""
HELD_BY_C: Final = "C++: no Python variable leads to it"
"""The whole chain where the search was complete and no object of Python refers to the block."""
OF_ITSELF: Final = ", which its own autograd graph holds"
"""End of a chain: no variable leads to the block. A graph of torch holds a tensor that holds the graph, in C++."""
OF_MODULE: Final = "parameter |buffer "
"""Begin of a chain, either word: the block is a tensor that a module of torch has registered, or the gradient of one."""
GRADIENT: Final = r"^parameter [^,]*\.grad(?:,|$)"
"""Pattern of chains to gradients that a module's parameter has: one for each, made by the first backward pass."""
BOUNDED_INDEX: Final = " of at most "
"""Within the brackets of an index, of a container that says how much it takes, and may not be full yet: `[3; 4 of at most 6]`."""
BEFORE_BOUND: Final = "; "
"""Between an index and the number of entries of its container. Logs of older versions have the index alone there."""


def bound_text(entries: int, most: int) -> str:
    """Return the text behind the index in the brackets: `4 of at most 6`.

    Args:
        entries: That a container has.
        most: That it takes.
    """
    return f"{entries}{BOUNDED_INDEX}{most}"
