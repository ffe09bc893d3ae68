"""The host memory of a process that ended for lack of it: its parts, from what its log had by then.

The kernel's count of ends is seen by whoever started the process in the same group. Where a whole container ends
nobody is left to see it. Then the log alone says how near the control group was to its limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.analysis.host.host_ledger import HostLedger, account_for_host
from msmemscope.formats.event_log import CaptureState
from msmemscope.formats.event_log.recording_of_log import recording_of_capture
from msmemscope.model.events import MEMORY_KINDS, EventKind

if TYPE_CHECKING:
    from msmemscope.formats.event_log import Capture
    from msmemscope.launch.ended_by import EndedBy

_KINDS: Final = (
    *MEMORY_KINDS, EventKind.STEP, EventKind.IMPLIED_STEP,
    EventKind.HOST_SAMPLE, EventKind.HOST_SAMPLE_FREE, EventKind.HOST_MEMORY, EventKind.CONTAINER,
)  # fmt: skip


def host_memory_at_its_end(capture: Capture, ended_by: EndedBy) -> HostLedger | None:
    """Return the host memory of a process that was ended for lack of it; None if it was not, or nothing is known.

    Args:
        capture: Of the process.
        ended_by: The note about its end.
    """
    was_ended = ended_by.limit_bytes is not None
    is_lost = (
        ended_by.signal_name in {"", "SIGKILL"}
        and capture.header.state == CaptureState.OPEN
        and not (capture.is_running() or capture.log.was_running)
    )
    if not (was_ended or is_lost) or EventKind.HOST_MEMORY not in capture.kind_counts():
        return None
    found = account_for_host(recording_of_capture(capture, capture.directory, _KINDS))
    return found if was_ended or found.ended_near_limit else None
