"""Words about containers of the program that both the observed process and the analysis know."""

from __future__ import annotations

from typing import Final

OBJECTS_OF_CLASS: Final = "objects"
"""The type of container of all objects of a class."""
UP_TO: Final = " up to "
"""Between the type of a container and the most entries that it takes, where the program says so: `deque up to 10000`."""
