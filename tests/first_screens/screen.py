"""A program and its first screen: how it runs, the truth about it, and what its screen must say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
PROGRAMS: Final = FOLDER / "programs"
SNAPSHOTS: Final = FOLDER / "snapshots"
GOLDEN: Final = FOLDER / "golden"
NOTHING_FOUND: Final = r"nothing found"
NO_LEAK_NAMED: Final = r"\b(?:slow )?leak: "
"""Begin of a finding of a leak, in the first line or behind `also`."""


class Way(Enum):
    """How a screen comes to be."""

    ENDED = "the program ends"
    INTERRUPTED = "Ctrl-C, which the whole group gets"
    TERMINATED = "SIGTERM for the tool alone"
    RUNNING = "summary, while the program runs"
    ALONE = "without the tool; then summary"
    FLIPPED = "summary, after bytes of the log were flipped"
    CUT = "summary, after the log was cut"
    ZEROED = "summary, after a page of the log was zeroed"
    SNAPSHOT = "summary of a snapshot"


@dataclass(frozen=True)
class Screen:
    """One run of one program."""

    name: str
    """The name of its golden file: `front/bounded-8`. The part before the slash is the folder of the program."""
    words: tuple[str, ...]
    """Behind `python`; of a snapshot, its file."""
    truth: str
    first: tuple[str, ...] = ()
    """Patterns that the first line has, each of them."""
    says: tuple[str, ...] = ()
    """Patterns that the screen has somewhere."""
    never: tuple[str, ...] = ()
    """Patterns that the screen has nowhere."""
    options: tuple[str, ...] = ()
    """Of the tool."""
    names_output: bool = True
    """Whether `--output=out` is typed."""
    npu: bool = False
    """Whether it runs on the virtual NPU."""
    memory: str = ""
    """Of each virtual card."""
    devices: int = 8
    """How many virtual cards there are."""
    way: Way = Way.ENDED
    requests: int = 0
    """Of a server whose port is its first argument: how many are sent before anything else happens."""
    by_day: bool = False
    """Whether `make test` runs it."""
    varies: str = ""
    """Why two runs of it do not print the same; then only the patterns are held against it."""
    wrong: str = ""
    """The known faults of its screen; empty if all is right."""

    @property
    def folder(self) -> Path:
        """Where its program is."""
        return PROGRAMS / self.name.partition("/")[0]

    @property
    def golden(self) -> Path:
        """Where its screen is kept."""
        return GOLDEN / f"{self.name}.txt"
