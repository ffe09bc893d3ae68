"""No byte is lost and none invented, whatever a program does: CPU tensors, compared with torch's own figures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given

from msmemscope.model.events import MEMORY_KINDS, EventKind
from msmemscope.model.labels import LabelLevel, decode_labels
from tests.support.accounting import Action, Targets, programs
from tests.support.nightly import NIGHT, examples
from tests.support.recordings import assert_sound, events_of
from tests.support.targets import SOURCES
from tests.support.tool import run
from tests.support.warm import run_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

STARTS = 4000 if NIGHT else 200
"""How often collection begins while other threads allocate."""


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    """The running target program."""
    running = Targets("cpu", tmp_path_factory.mktemp("accounting"), {})
    yield running
    running.end()


@examples(by_day=40)
@given(programs)
@example([("stop", 0, 0), ("allocate", 0, 5), ("free", 0, 0), ("allocate", 0, 6), ("start", 0, 0), ("free", 0, 0)])
@example([("allocate", 0, 5), ("stop", 0, 0), ("free", 0, 0), ("configure", 0, 3), ("start", 0, 0)])
@example([("label", 13, 0), ("label", 13, 2), ("label", 13, 0), ("leave", 13, 0), ("allocate", 13, 5)])
@example([("label", 13, 0), ("label", 13, 3), ("allocate", 13, 5), ("raise", 13, 1), ("allocate", 13, 5)])
@example([("configure", 0, 7), ("allocate", 0, 5), ("step", 0, 0), ("step", 0, 0), ("step", 0, 0)])
@example([("stop", 0, 0), ("collect", 1, 0), ("allocate", 2, 5), ("leave", 1, 0), ("free", 0, 0)])
def test_totals_and_labels_of_any_program(targets: Targets, program: list[Action]) -> None:
    """After every action, what is alive in the log is what torch holds; and every block has the labels that it must."""
    targets.check(program)


def test_blocks_that_other_threads_allocate_while_collection_begins(output: Path) -> None:
    """A thread is in the middle of an allocation when start() comes: its block is recorded all the same."""
    ran = run([sys.executable, SOURCES / "accounting_race.py", output, STARTS], output=output)
    assert ran.returncode == 0, ran.stderr
    events = events_of(ran.capture)
    assert_sound(events)
    memory = events.filter(pl.col("kind").is_in(list(map(int, MEMORY_KINDS))))
    signs = np.where(memory["kind"].to_numpy() == EventKind.MALLOC, 1, -1)
    alive = np.concatenate([[0], np.cumsum(memory["size"].to_numpy() * signs)])
    places = np.searchsorted(memory["sequence"].to_numpy(), [int(report["sequence"]) for report in ran.reports])
    missing = np.array([int(report["held"]) for report in ran.reports]) - alive[places]
    assert len(missing) == STARTS
    assert (missing == 0).all(), f"{np.count_nonzero(missing)} starts missed a block: {np.unique(missing)} bytes"


def test_labels_stay_with_what_they_were_given_to(output: Path) -> None:
    """A function that ran in a pool thread, in the context of a labelled task, leaves no label there."""
    ran = run_python([SOURCES / "labels_in_pool_threads.py", output], output=output, variables={})
    assert ran.returncode == 0, ran.stderr
    events = events_of(ran.capture).filter(pl.col("kind") == int(EventKind.MALLOC))
    texts = dict(events.select("size", "extra").iter_rows())
    found = {name: decode_labels(ran.capture.strings.get(texts[int(size)], "")) for name, size in ran.report.items()}
    assert found["within"] == {LabelLevel.USER_1: "outer", LabelLevel.USER_2: "inner"}
    assert found["after_label"] == found["after_task"] == {}
