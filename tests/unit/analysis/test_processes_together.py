"""Host memory of several processes together: the sum at each moment, of those that are alive."""

from __future__ import annotations

from msmemscope.analysis.host.host_ledger import account_for_host
from msmemscope.analysis.host.processes_together import HostTogether, host_memory_together
from msmemscope.model.events import EventKind
from tests.fakes.traces import Trace

MEBIBYTE = 1 << 20


def process(*figures: tuple[int, int, int]) -> Trace:
    """A process with some figures: their time, and its resident and proportional memory in MiB; 0 where not asked."""
    trace = Trace()
    for moment, resident, proportional in figures:
        asked = trace.text(f"proportional_bytes:{proportional * MEBIBYTE}") if proportional else 0
        trace.add(EventKind.HOST_MEMORY, size=resident * MEBIBYTE, timestamp_ns=moment, attribute_id=asked)
    return trace


def together(*traces: Trace) -> HostTogether | None:
    """Of some processes."""
    return host_memory_together([account_for_host(trace.recording()) for trace in traces])


def test_the_peak_is_that_of_the_sum() -> None:
    """Not the sum of the peaks: the first has given its memory back when the second takes most."""
    first = process((100, 400, 300), (200, 200, 100), (300, 200, 100))
    second = process((150, 300, 200), (250, 900, 500), (260, 100, 50))
    assert together(first, second) == HostTogether(2, 600 * MEBIBYTE, 0, 1100 * MEBIBYTE)


def test_a_process_that_has_ended_has_nothing() -> None:
    """Behind its last figure; one that never said what it shares is counted as left out."""
    silent = process((100, 400, 0))
    assert together(silent, process((100, 400, 300)), process((200, 300, 200), (300, 300, 290))) == HostTogether(
        1, 300 * MEBIBYTE, 1, 400 * MEBIBYTE
    )


def test_one_process_has_no_sum() -> None:
    """Nor where only one of several says what it shares."""
    assert together(process((100, 400, 300)), process((100, 400, 0))) is None
