"""How many events stay in memory after the first pass over a log."""

from __future__ import annotations

import numpy as np
import pytest

from msmemscope.formats.event_log import layout
from msmemscope.formats.event_log.events_in_memory import EventsInMemory, KindsInMemory
from msmemscope.model.events import EventKind

MEMORY, OPERATORS = int(EventKind.MALLOC), int(EventKind.ATEN_START)


def records(kind: int, count: int) -> np.ndarray:
    """Some events of one kind."""
    made = np.zeros(count, layout.RECORD)
    made["kind"] = kind
    made["sequence"] = 1 + np.arange(count)
    return made


@pytest.mark.parametrize(
    ("blocks", "operators", "kept"),
    [(4, 6, [MEMORY, OPERATORS]), (4, 7, [MEMORY]), (10, 90, [MEMORY]), (11, 0, []), (11, 90, [])],
)
def test_no_more_than_asked_for(blocks: int, operators: int, kept: list[int]) -> None:
    """The kinds that only few questions need go first; what is here is here as a whole."""
    memory = EventsInMemory(KindsInMemory(frozenset({MEMORY}), frozenset({OPERATORS}), most=10))
    for kind, count in ((OPERATORS, operators), (MEMORY, blocks)):
        memory.add(records(kind, count))
    counts = {MEMORY: blocks, OPERATORS: operators}
    assert [kind for kind in (MEMORY, OPERATORS) if memory.has([kind])] == kept
    held = sum(batch.height for kind in counts for batch in memory.batches([kind]))
    assert held == sum(counts[kind] for kind in kept)
