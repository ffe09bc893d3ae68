"""Words about containers of the program that both the observed process and the analysis know."""

from __future__ import annotations

from typing import Final

OBJECTS_OF_CLASS: Final = "objects"
"""The type of container of all objects of a class."""
