"""The watched memory that a capture and a folder tell of."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from msmemscope.model.events import WATCH_KINDS, EventFlag, EventKind
from tests.support.recordings import events_of

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.formats.event_log import Capture
    from tests.support.tool import ToolRun


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
    attributes = dict(capture.string_frame(rows["attribute_id"]).iter_rows())
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
            dict(line.split("=", 1) for line in attributes[row["attribute_id"]].splitlines()),
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


def check_seeded_runs(run: ToolRun, expected_count: int) -> list[tuple[dict[str, str], WatchEvent]]:
    """Judge what was found by what `target_programs/watched_faults.py` says of itself.

    Clean seeds have no change but legitimate ones; each faulty one has one other change, with its operator, call and memory.

    Returns:
        The program's words about each fault, and the change that was found.
    """
    found = []
    faulty_processes = 0
    for process_id in dict.fromkeys(printed["pid"] for printed in run.reports):
        seeds = [printed for printed in run.reports if printed["pid"] == process_id]
        (capture,) = run.captures_of(process_id)
        events = watch_events(capture)
        if seeds[0]["way"] == "auto":
            (coverage,) = capture.facts["watch.coverage"]
            figures = dict(part.split("=") for part in coverage.split(","))
            assert int(figures["operators_with_all_blocks"]) == int(figures["operators"]) > 50 * len(seeds)
        else:
            assert sum(event.kind is EventKind.WATCH_START for event in events) == len(seeds)
        alarms = [event for event in events if event.kind is EventKind.WATCH and event.is_unexpected]
        faults = [printed for printed in seeds if printed["is_faulty"] == "1"]
        assert len(alarms) == len(faults), (faults, alarms)
        found += list(zip(faults, alarms, strict=True))
        faulty_processes += bool(faults)
        reported = (capture.directory / "report.txt").read_text(encoding="utf-8")
        changes = re.findall(r"([0-9]+) unexpected changes? of watched memory", " ".join(reported.split()))
        assert sum(map(int, changes)) == len(faults), reported
    assert len(run.reports) == 2 * expected_count
    assert len(found) == expected_count
    for printed, change in found:
        assert change.culprit == (printed["operator"], int(printed["call"])), (printed, change)
        assert (change.address, change.size) == (int(printed["address"]), int(printed["bytes"])), (printed, change)
        assert (change.attributes["watch"], change.attributes["when"]) == (printed["way"], "during"), (printed, change)
        assert not change.flags & EventFlag.WRITES_UNKNOWN, (printed, change)
    assert ("msmemscope: overwritten: " in run.stderr) is (faulty_processes > 0), run.stderr
    return found
