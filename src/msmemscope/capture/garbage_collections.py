"""Blocks that the garbage collector frees when it begins by itself are marked: they had waited for it.

Only a reference cycle waits for it. The mark is a flag of the FREE event (`model.events.EventFlag.COLLECTED`).
"""

from __future__ import annotations

import gc
from typing import Any

from msmemscope import _native

_callback: Any = None


def note_collections() -> None:
    """Begin, or go on."""
    global _callback  # noqa: PLW0603 - one for the process, as is the collector
    if _callback is None:
        _callback = _native.new_collection_callback()
    if _callback not in gc.callbacks:
        gc.callbacks.append(_callback)


def leave_collections() -> None:
    """End. What the program has there stays."""
    if _callback in gc.callbacks:
        gc.callbacks.remove(_callback)
        # A finalizer may end the collection of events: then nobody would tell of the end of the collector's work.
        _callback("stop", {})
