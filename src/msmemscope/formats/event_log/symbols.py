"""Names of native return addresses, as `backtrace_symbols` prints them, plus source lines."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from msmemscope.formats.event_log.debug_lines import DebugLines, debug_file_of
from msmemscope.formats.event_log.elf import ElfError, ElfFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msmemscope.formats.event_log.definitions import Module

_MOST_BELOW: Final = 256
"""Modules below an address that are looked at: of one process they lie side by side, except those that came and went."""
_MOST_NAMES: Final = 1 << 17
"""Of addresses that are remembered, for all processes together: some ten megabytes. Then all are forgotten."""
LATEST: Final = 2**64 - 1
"""A sequence number behind all others."""


class Symbolizer:
    """The symbolizer of one process. It turns return addresses into text.

    A file is believed only if it has the recorded build id. For any other file only the module and the offset in it are
    shown.

    Args:
        modules: The modules mapped into the process, in any order.
        known: Texts by address and span of events, from where the files were; other addresses are looked up.
        has_lines: Whether lines of source are looked up, too. To decode those of a large library takes seconds.
    """

    def __init__(
        self,
        modules: Sequence[Module],
        known: Mapping[tuple[int, int], str] | None = None,
        *,
        has_lines: bool = True,
    ) -> None:
        """Sort the modules; their files are opened when an address falls into them."""
        self._known = known or {}
        self._has_lines = has_lines
        taken, self.changes = _history(modules)
        """Sequence numbers from which on some address means another module than before."""
        # By where they begin, each with its place in time.
        self._modules = sorted(enumerate(taken), key=lambda entry: entry[1].start)
        self._starts = [module.start for _, module in self._modules]
        self._files: dict[tuple[str, bytes], _ModuleFile | None] = {}
        self.text_in_epoch = lru_cache(maxsize=1 << 16)(self._render)
        """As `text`, for the number of a span of events instead of an event."""

    def text(self, address: int, sequence: int = LATEST) -> str:
        """Return `module(symbol+0xoff) [0xaddr] file.c:123`, or as much of it as is known.

        Args:
            address: A return address.
            sequence: The event whose stack it is in.
        """
        return self.text_in_epoch(address, self.epoch(sequence))

    def epoch(self, sequence: int) -> int:
        """Number the spans of events in which each address means one module."""
        return sum(change <= sequence for change in self.changes)

    def _render(self, address: int, epoch: int) -> str:
        known = self._known.get((address, epoch))
        if known is not None:
            return known
        end_of_epoch = self.changes[epoch] if epoch < len(self.changes) else LATEST
        module = self._module_at(address - 1, end_of_epoch)
        if module is None:
            return f"[{address:#x}]"
        name, line = self._name(module, module.file_address(address))
        return f"{module.path}({name}) [{address:#x}]{line}"

    def _name(self, module: Module, offset: int) -> tuple[str, str]:
        """The function at an address of a file with the distance to it, and the line of source behind a space."""
        key = (module.path, module.build_id, offset, self._has_lines)
        known = _names.get(key)
        if known is not None:
            return known
        with _files_at_hand:
            file = self._file(module)
            if file is None:
                return f"+{offset:#x}", ""
            # The call is in front of the return address, which can be another line,
            # or another function if the call never returns.
            call = (offset - 1) % (1 << 64)
            symbol = file.elf.symbol_at(call)
            line = file.lines.line_at(call) if self._has_lines and file.lines else None
        name = f"{symbol.name}+{offset - symbol.address:#x}" if symbol is not None else f"+{offset:#x}"
        if len(_names) >= _MOST_NAMES:
            _names.clear()
        found = _names[key] = name, f" {line.file}:{line.line}" if line else ""
        return found

    def _module_at(self, address: int, end_of_epoch: int) -> Module | None:
        behind = bisect_right(self._starts, address)
        fitting = [entry for entry in self._modules[max(behind - _MOST_BELOW, 0) : behind] if address < entry[1].end]
        if not fitting:
            return None
        of_epoch = [entry for entry in fitting if entry[1].seen_at_sequence < end_of_epoch or end_of_epoch == LATEST]
        # If all that fit were seen later, the oldest of them: modules are noted some
        # time after they were mapped.
        return max(of_epoch)[1] if of_epoch else min(fitting)[1]

    def _file(self, module: Module) -> _ModuleFile | None:
        key = (module.path, module.build_id)
        if key not in self._files:
            self._files[key] = _open_module(module)
        return self._files[key]


_files_at_hand: Final = Lock()
"""Their readers move about in them: dumps are written while questions about the same capture are answered."""
_files_in_use: WeakValueDictionary[tuple[str, bytes], _ModuleFile] = WeakValueDictionary()
"""By path and build id, as long as any process needs them. Decoding the lines of a large library takes seconds, and the
processes of one launch have the same libraries."""

_names: Final[dict[tuple[str, bytes, int, bool], tuple[str, str]]] = {}
"""By path, build id, address, and whether lines are wanted: processes of one job have the same calls of the same
libraries."""


class _ModuleFile:
    """The file of a module, proven to be the one that was mapped."""

    def __init__(self, elf: ElfFile) -> None:
        self.elf = elf

    @cached_property
    def lines(self) -> DebugLines | None:
        """Its lines of source, where they are on this machine."""
        path = debug_file_of(self.elf)
        return None if path is None else DebugLines(path)


def _open_module(module: Module) -> _ModuleFile | None:
    if not module.path.startswith("/"):  # [vdso], and names of memory files
        return None
    try:
        file = _files_in_use.get((module.path, module.build_id))
        if file is not None:
            return file
        elf = ElfFile(Path(module.path))
        if elf.build_id != module.build_id:
            return None
        file = _files_in_use[module.path, module.build_id] = _ModuleFile(elf)
        return file  # noqa: TRY300 - beside what makes it
    except ElfError:
        return None


def _history(modules: Sequence[Module]) -> tuple[list[Module], tuple[int, ...]]:
    """Follow which module was where.

    A library that is loaded again and again at the same place counts once.

    Returns:
        The modules that were new at their place, oldest first. Then the sequence numbers from which on a module had the
        place of another one.
    """
    taken: list[Module] = []
    changes = set()
    present: list[Module] = []  # in order; none overlaps another
    starts: list[int] = []
    for module in sorted(modules, key=lambda module: module.seen_at_sequence):
        behind = bisect_left(starts, module.end)
        first = max(bisect_right(starts, module.start) - 1, 0)
        if first < behind and present[first].end <= module.start:
            first += 1
        overlapped = present[first:behind]
        if any(_same_mapping(module, other) for other in overlapped):
            continue
        if any(
            (other.path, other.build_id, other.load_bias) != (module.path, module.build_id, module.load_bias)
            for other in overlapped
        ):
            changes.add(module.seen_at_sequence)
        present[first:behind] = [module]
        starts[first:behind] = [module.start]
        taken.append(module)
    return taken, tuple(sorted(changes))


def _same_mapping(one: Module, other: Module) -> bool:
    return one._replace(seen_at_sequence=0) == other._replace(seen_at_sequence=0)
