"""Reading side of the event log: decode, name what it refers to, show it as text.

`Capture` is the one entry: it opens the directory of one observed process.
"""

from __future__ import annotations

from msmemscope.eventlog.capture import Capture
from msmemscope.eventlog.definitions import PythonFrame
from msmemscope.eventlog.event_frame import EVENT_SCHEMA
from msmemscope.eventlog.layout import CaptureState
from msmemscope.eventlog.process_header import ProcessHeader

__all__ = ["EVENT_SCHEMA", "Capture", "CaptureState", "ProcessHeader", "PythonFrame"]
