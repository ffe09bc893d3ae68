"""One finding of a run: its sentence, and the command that says more."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

from msmemscope.model.devices import device_name
from msmemscope.reports.rank_text import named_ranks
from msmemscope.reports.report_text import counted, short_site
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.reports.run_summary import ProcessSummary


class VerdictKind(Enum):
    """Kinds of findings, the gravest first; the value is the word that a verdict begins with."""

    OUT_OF_MEMORY = "out of memory"
    OVERWRITTEN = "overwritten"
    LEAK = "leak"
    SLOW_LEAK = "slow leak"
    HOST_MEMORY = "host memory"
    DECLARED_WRITE = "overwritten as declared"
    """Of memory that the program watches by name: no fault by itself, but the answer to who wrote it."""
    RESERVED = "reserved"
    INEFFICIENT = "inefficient"


QUESTION_OF: Final = {
    VerdictKind.OUT_OF_MEMORY: "oom",
    VerdictKind.OVERWRITTEN: "watch",
    VerdictKind.LEAK: "leaks",
    VerdictKind.SLOW_LEAK: "leaks",
    VerdictKind.HOST_MEMORY: "leaks",
    VerdictKind.DECLARED_WRITE: "watch",
    VerdictKind.RESERVED: "reserved",
    VerdictKind.INEFFICIENT: "inefficient",
}
_OF_WATCHED_MEMORY: Final = frozenset({VerdictKind.OVERWRITTEN, VerdictKind.DECLARED_WRITE})
"""Whose sentences say themselves where the memory is."""
_LEAST_OF_LIBRARY: Final = 2 / 3
"""Of the bytes of a line, that one library must have to be named with it."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One thing that was found, in one process or at the same line of several."""

    kind: VerdictKind
    device: int
    pool: int
    size_bytes: int
    """All processes together."""
    site: str
    """The line that is to blame; empty if it is not known."""
    text: str
    """The words besides the kind, the bytes and the line; of several processes, those of the worst."""
    processes: tuple[ProcessSummary, ...]
    """Where it was found, the worst first."""
    block_count: int = 0
    """All processes together; 0 where blocks are not counted."""
    bytes_by_site: tuple[tuple[str, int], ...] = ()
    """Of a finding at several lines: each of them, the worst first; `site` is the first."""

    held_by: str = ""
    """The chain of Python references that holds it; empty if that is not known."""
    known_sentence: str = ""
    """The whole verdict, where whoever found it has put it into words; empty where `sentence` does."""
    growth_bytes: int = 0
    """By which one process grows in a step, all lines together; 0 if it does not grow from step to step."""

    remedy: str = ""
    """The remedy, as a sentence; empty where that is not known or stands elsewhere."""
    other_devices: tuple[int, ...] = ()
    """Where the rest of it is, if not all of it is on `device`."""

    is_before_site: bool = False
    """Whether it happened somewhere before the line, which is the next that is known."""

    known_command: str = ""
    """The command to type next, where the finder knows a better one than the question of the kind."""

    def command(self, directory: str) -> str:
        """Return the command to type next.

        Args:
            directory: The capture that it is about.
        """
        command = self.known_command or f"msmemscope analyze {QUESTION_OF[self.kind]}"
        return f"{command} {directory}" if command.startswith("msmemscope analyze ") else command

    def sentence(self, *, names_process: bool) -> str:
        """Return the whole verdict as one sentence.

        Args:
            names_process: Whether to say where it was found.
        """
        who = f" ({named_processes(self.processes)})" if names_process else ""
        if self.known_sentence:
            return f"{self.known_sentence}{who}"
        size = format_bytes(self.size_bytes) if self.size_bytes else ""
        blocks = f"in {counted(self.block_count, 'block')}" if self.block_count else ""
        where = f"on {self._named_devices()}" if self.kind not in _OF_WATCHED_MEMORY else ""
        (site, of_site), *others = self._bytes_by_line() or [(self.site, 0)]
        at = f"{'before' if self.is_before_site else 'at'} {short_site(site)}" if site else ""
        if others:
            at = f"{at} ({format_bytes(of_site)}) and {counted(len(others), 'more line')}"
        head = " ".join(filter(None, (size, blocks, where, at)))
        held = f"held by {self.held_by}" if self.held_by else ""
        growth = f"{format_bytes(self.growth_bytes)} per step" if self.growth_bytes else ""
        return f"{self.kind.value}: {', '.join(filter(None, (head, growth, self.text, held)))}{who}"

    def _named_devices(self) -> str:
        names = [device_name(device) for device in sorted({self.device, *self.other_devices})]
        if len(names) <= _MOST_NAMED:
            return ", ".join(names)
        return f"{len(names)} devices from {names[0]} to {names[-1]}"

    def _bytes_by_line(self) -> list[tuple[str, int]]:
        """`bytes_by_site` by lines of the program: each has the library behind it that it called for most of its bytes."""
        from msmemscope.recording.source_lines import line_and_library

        lines: dict[str, list[tuple[str, int]]] = {}
        for site, size in self.bytes_by_site:
            lines.setdefault(line_and_library(site)[0], []).append((site, size))
        found = []
        for line, sites in lines.items():
            (worst, of_worst), total = sites[0], sum(size for _, size in sites)
            found.append((worst if of_worst >= _LEAST_OF_LIBRARY * total else line, total))
        return sorted(found, key=lambda pair: -pair[1])


def named_processes(processes: Iterable[ProcessSummary]) -> str:
    """Return the ranks of some processes, as ranges; the numbers of those without a rank."""
    some = list(processes)
    ranks = [process.rank for process in some if process.rank is not None]
    others = sorted(process.process_id for process in some if process.rank is None)
    parts = []
    if ranks:
        parts.append(named_ranks(ranks))
    if others:
        shown = ", ".join(str(number) for number in others[:_MOST_NAMED])
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        parts.append(f"{'process' if len(others) == 1 else 'processes'} {shown}{more}")
    return ", ".join(parts)


_MOST_NAMED: Final = 4
