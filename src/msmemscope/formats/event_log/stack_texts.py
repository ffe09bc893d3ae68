"""Texts of call stacks, rendered once per stack and not once per event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.formats.event_log.definitions import DefinitionTable
    from msmemscope.formats.event_log.symbols import Symbolizer

_CACHED_CHARACTERS: Final = 32 << 20
"""Stack texts that are kept; beyond it all are forgotten and rendered again when needed."""
_CACHED_FRAMES: Final = 1 << 18
"""Frame texts that are kept, likewise."""


class StackTexts:
    """Renders stacks of a capture.

    Args:
        definitions: Where stacks are looked up.
        symbolizer: Names native addresses.
    """

    def __init__(self, definitions: DefinitionTable, symbolizer: Symbolizer) -> None:
        self._definitions = definitions
        self._symbolizer = symbolizer
        self._frames: dict[tuple[int, int], str] = {}
        self._python = _BoundedCache(self._render_python)
        self._native = _BoundedCache(self._render_native)

    def python(self, stack_id: int) -> str:
        """Return one line per frame, innermost first, each with its line feed."""
        return self._python.text((stack_id, 0))

    def native(self, stack_id: int, sequence: int) -> str:
        """Return one line per frame, innermost first, each with its line feed.

        Args:
            stack_id: The stack.
            sequence: An event that it is of: addresses are reused when a library is unloaded.
        """
        return self._native.text((stack_id, self._symbolizer.epoch(sequence)))

    def _render_python(self, key: tuple[int, int]) -> str:
        known = self._frames
        if len(known) > _CACHED_FRAMES:
            known.clear()
        parts = []
        for frame in self._definitions.python_stack(key[0]):
            line = known.get(frame)
            if line is None:
                line = known[frame] = f"{self._definitions.code(frame[0]).frame_at(frame[1])}\n"
            parts.append(line)
        return "".join(parts)

    def _render_native(self, key: tuple[int, int]) -> str:
        stack_id, epoch = key
        text = self._symbolizer.text_in_epoch
        return "".join([f"{text(address, epoch)}\n" for address in self._definitions.native_stack(stack_id)])


class _BoundedCache:
    """Remembers texts up to a number of characters."""

    def __init__(self, render: Callable[[tuple[int, int]], str]) -> None:
        self._render = render
        self._texts: dict[tuple[int, int], str] = {}
        self._characters = 0

    def text(self, key: tuple[int, int]) -> str:
        known = self._texts.get(key)
        if known is not None:
            return known
        rendered = self._render(key)
        if self._characters + len(rendered) > _CACHED_CHARACTERS:
            self._texts.clear()
            self._characters = 0
        self._texts[key] = rendered
        self._characters += len(rendered)
        return rendered
