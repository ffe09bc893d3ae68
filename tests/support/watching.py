"""What a capture and a folder say of watched memory."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from msmemscope.model.events import WATCH_KINDS, EventFlag, EventKind
from tests.support.recordings import events_of

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.eventlog import Capture


@dataclass(frozen=True)
class WatchEvent:
    """One event about watched memory."""

    kind: EventKind
    name: str
    address: int
    size: int
    device: int
    flags: EventFlag
    block: int
    python_stack_id: int
    attributes: dict[str, str]

    @property
    def culprit(self) -> tuple[str, int]:
        """The operator and the number of its call."""
        return self.attributes["operator"], int(self.attributes["call"])

    @property
    def is_unexpected(self) -> bool:
        """Whether no operator that ran may write the memory."""
        return not self.flags & EventFlag.MAY_WRITE


def watch_events(capture: Capture) -> list[WatchEvent]:
    """All events about watched memory, in order."""
    rows = events_of(capture).filter(pl.col("kind").is_in([int(kind) for kind in WATCH_KINDS]))
    strings = capture.strings
    return [
        WatchEvent(
            EventKind(row["kind"]),
            strings[row["name_id"]] if row["name_id"] else "",
            row["address"],
            row["size"],
            row["device"],
            EventFlag(row["flags"]),
            row["extra"],
            row["python_stack_id"],
            dict(line.split("=", 1) for line in strings[row["attribute_id"]].splitlines()),
        )
        for row in rows.iter_rows(named=True)
    ]


def changes(capture: Capture) -> list[WatchEvent]:
    """The changes alone."""
    return [event for event in watch_events(capture) if event.kind is EventKind.WATCH]


def checksums(folder: Path) -> list[tuple[str, str]]:
    """The rows of the only table of checksums: what was looked at without device and thread, and the checksum."""
    (table,) = (folder / "watch_dump").glob("watch_dump_data_check_sum_*.csv")
    with table.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["Tensor info", "Check data sum"]
    return [(name.split("_", 2)[2], checksum) for name, checksum in rows]
