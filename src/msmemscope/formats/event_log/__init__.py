"""Reading side of the event log: decode, name what it refers to, show it as text.

`Capture` is the one entry: it opens the directory of one observed process.
"""

from __future__ import annotations

from msmemscope.formats.event_log.capture import Capture
from msmemscope.formats.event_log.definitions import PythonFrame
from msmemscope.formats.event_log.layout import CaptureState
from msmemscope.formats.event_log.process_header import ProcessHeader

__all__ = ["Capture", "CaptureState", "ProcessHeader", "PythonFrame"]
