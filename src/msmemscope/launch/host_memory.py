"""The host memory of an observed process: its parts, from what its log has; and whether it ended for lack of it.

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
    from msmemscope.recording import Recording

_KINDS: Final = (
    *MEMORY_KINDS, EventKind.STEP, EventKind.IMPLIED_STEP,
    EventKind.HOST_SAMPLE, EventKind.HOST_SAMPLE_FREE, EventKind.HOST_RESIDENT, EventKind.HOST_MEMORY,
    EventKind.CONTAINER,
)  # fmt: skip


def host_memory_of(capture: Capture, read: Recording | None, *, at_any_size: bool) -> HostLedger | None:
    """Return the parts of the host memory of a process; None where none of its figures was recorded.

    Args:
        capture: Of the process.
        read: The part that the analyses of leaks have read; None if they have not, or it was too much for a run.
        at_any_size: Whether to read it all the same.
    """
    if EventKind.HOST_MEMORY not in capture.kind_counts() or (read is None and not at_any_size):
        return None
    return account_for_host(read or recording_of_capture(capture, capture.directory, _KINDS))


def may_have_ended_for_lack(capture: Capture, ended_by: EndedBy) -> bool:
    """Return whether a process was ended for lack of host memory, or was lost: then its ledger tells.

    Args:
        capture: Of the process.
        ended_by: The note about its end.
    """
    is_lost = (
        ended_by.signal_name in {"", "SIGKILL"}
        and capture.header.state == CaptureState.OPEN
        and not (capture.is_running() or capture.log.was_running)
    )
    return ended_by.limit_bytes is not None or is_lost
