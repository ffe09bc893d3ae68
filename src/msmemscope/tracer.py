"""The trace of Python function calls: `tracer.start()` and `tracer.stop()`."""

from __future__ import annotations

from msmemscope.capture.tracer import start, stop

__all__ = ["start", "stop"]
