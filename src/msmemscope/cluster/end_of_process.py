"""How a process ended, as columns of a summary, and the memory that it had then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msmemscope.analysis.host.host_figures import host_figures
from msmemscope.cluster.summary import ProcessEnd
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.layout import CaptureState
from msmemscope.launch.ended_by import end_noted

if TYPE_CHECKING:
    from msmemscope.recording import Recording


def end_columns(recording: Recording) -> dict[str, Any]:
    """Return `end` ... `group_limit_bytes` of `summary.SUMMARY_SCHEMA`; dumps do not say how a process ended.

    Args:
        recording: Of one process.
    """
    return {**_end(recording), **_control_group(recording)}


def _end(recording: Recording) -> dict[str, Any]:
    if recording.form != "event log":
        return {}
    capture = Capture(Path(recording.source))
    noted = end_noted(capture.log)
    header = capture.header
    if capture.is_running() or capture.log.was_running:
        end = ProcessEnd.RUNNING
    elif noted.signal_name:
        end = ProcessEnd.KILLED
    elif header.state == CaptureState.OPEN:
        end = ProcessEnd.LOST
    else:
        end = ProcessEnd.ORDERLY
    return {
        "end": end.value,
        "end_signal": noted.signal_name or None,
        "end_status": noted.exit_status or None,
        "end_limit_bytes": noted.limit_bytes,
        "end_ns": noted.end_ns or header.end_ns or None,
    }


def _control_group(recording: Recording) -> dict[str, Any]:
    """The use and the limit of its control group, at the last figure that has them."""
    figures = host_figures(recording).select("group_bytes", "group_limit").drop_nulls()
    if figures.is_empty():
        return {}
    used, limit = figures.row(-1)
    return {"group_bytes": used, "group_limit_bytes": limit}
