"""Where a process stands in a distributed job: its rank, its host, and its coordinates along the axes of parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

AXES: Final = ("data", "tensor", "pipeline", "context", "expert")
"""The axes of parallelism, in the order in which they are shown."""

SOFTWARE: Final = "software."
"""Before the name of a part of the software, in the key of the fact that has its version."""
_PREFIX: Final = "process."
_AXIS_PREFIX: Final = "process.axis."
_NUMBERS: Final = ("rank", "local_rank", "world_size", "local_world_size", "restart_count")
_TEXTS: Final = ("node", "role")
_MOST_DIGITS: Final = 9
_MOST_LETTERS: Final = 255


def is_number(text: str) -> bool:
    """Whether a text is a rank or a number of ranks: environments and logs can say anything."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


@dataclass(frozen=True)
class Place:
    """The known facts of the place of one process; the unknown are None, empty or absent."""

    rank: int | None = None
    """Among all processes of the job, from 0."""
    local_rank: int | None = None
    """Among those of its host, from 0."""
    world_size: int | None = None
    """Processes of the job."""
    local_world_size: int | None = None
    """Processes of the job on this host."""
    node: str = ""
    """Name of the host."""
    restart_count: int | None = None
    """How often the launcher has started the job anew; 0 for the first time."""
    role: str = ""
    """The part of the process in the job: `actor`, `rollout`, or the user's name for it."""
    coordinates: Mapping[str, int] = field(default_factory=dict)
    """Index along each axis of AXES that is known."""
    axis_sizes: Mapping[str, int] = field(default_factory=dict)
    """Number of indexes along each axis of AXES that is known."""

    def __bool__(self) -> bool:
        """Whether the process is known to be one of several: the name of its host alone says nothing."""
        return self.rank is not None or bool(self.role or self.coordinates)

    def to_facts(self) -> dict[str, str]:
        """Return the facts of an event log that say it: `process.rank`, `process.axis.tensor` (`1/2`) and so on."""
        facts = {f"{_PREFIX}{name}": str(number) for name in _NUMBERS if (number := getattr(self, name)) is not None}
        facts |= {f"{_PREFIX}{name}": text for name in _TEXTS if (text := getattr(self, name))}
        for axis, index in self.coordinates.items():
            size = self.axis_sizes.get(axis)
            facts[f"{_AXIS_PREFIX}{axis}"] = str(index) if size is None else f"{index}/{size}"
        return facts

    @classmethod
    def from_facts(cls, facts: Mapping[str, tuple[str, ...]]) -> Place:
        """Read it from the facts of a recording. The last fact of a key holds; nonsense is left out."""
        last = {key: texts[-1] for key, texts in facts.items() if key.startswith(_PREFIX) and texts}
        known: dict[str, Any] = {}
        for name in _NUMBERS:
            text = last.get(f"{_PREFIX}{name}", "")
            if is_number(text):
                known[name] = int(text)
        # Programs without Python note no more than their settings.
        last.setdefault(f"{_PREFIX}role", facts.get("setting.role", ("",))[-1])
        for name in _TEXTS:
            text = last.get(f"{_PREFIX}{name}", "")
            if text.isprintable() and len(text) <= _MOST_LETTERS:
                known[name] = text
        coordinates: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for axis in AXES:
            index, _, size = last.get(f"{_AXIS_PREFIX}{axis}", "").partition("/")
            if not is_number(index) or (size and not (is_number(size) and int(index) < int(size))):
                continue
            coordinates[axis] = int(index)
            if size:
                sizes[axis] = int(size)
        return cls(**known, coordinates=coordinates, axis_sizes=sizes)

    def content(self) -> dict[str, Any]:
        """Return the known facts, for JSON, by the names of the fields."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None and value not in ("", {})}

    @classmethod
    def from_content(cls, content: object) -> Place:
        """Read it from the result of `content`, which others may have changed; nonsense is left out."""
        if not isinstance(content, Mapping):
            return cls()
        facts = {f"{_PREFIX}{name}": str(content.get(name, "")) for name in (*_NUMBERS, *_TEXTS)}
        coordinates, sizes = (content.get(name) for name in ("coordinates", "axis_sizes"))
        if isinstance(coordinates, Mapping):
            for axis, index in coordinates.items():
                size = sizes.get(axis) if isinstance(sizes, Mapping) else None
                facts[f"{_AXIS_PREFIX}{axis}"] = str(index) if size is None else f"{index}/{size}"
        return cls.from_facts({key: (text,) for key, text in facts.items()})

    @property
    def coordinate_words(self) -> str:
        """The coordinates along axes that are divided at all: `data 0, tensor 1`; empty if none is."""
        shown = (axis for axis in AXES if axis in self.coordinates and self.axis_sizes.get(axis) != 1)
        return ", ".join(f"{axis} {self.coordinates[axis]}" for axis in shown)

    @property
    def words(self) -> str:
        """All that is known, on one line: `rank 3 of 8, tensor 1, actor, on host a`; empty if it is in no job."""
        if not self:
            return ""
        parts = []
        if self.rank is not None:
            parts.append(f"rank {self.rank}" if self.world_size is None else f"rank {self.rank} of {self.world_size}")
        if self.local_rank is not None and self.local_rank != self.rank:
            parts.append(f"local rank {self.local_rank}")
        parts += [self.coordinate_words, self.role, f"on {self.node}" if self.node else ""]
        if self.restart_count:
            parts.append(f"restart {self.restart_count}")
        return ", ".join(filter(None, parts))
