"""Blocks that the garbage collector frees when it begins by itself are marked: nothing else would have freed them then.

Only objects in a reference cycle need it. The mark is a flag of the FREE event (`model.events.EventFlag.COLLECTED`).
"""

from __future__ import annotations

import gc
from typing import Any

from msmemscope import _native

_callback: Any = None


def note_collections() -> None:
    """Begin, or go on. Never raises: the program may have done anything to the list of callbacks."""
    global _callback  # noqa: PLW0603 - one for the process, as is the collector
    try:
        if _callback is None:
            _callback = _native.new_collection_callback()
        if _place() is None:
            gc.callbacks.append(_callback)
    except Exception as error:  # noqa: BLE001 - see above
        _native.note_fact("unobserved.garbage_collections", f"{type(error).__name__}: {error}")


def leave_collections() -> None:
    """End. Callbacks of the program stay."""
    if _callback is None:
        return
    place = _place()
    if place is not None:
        del gc.callbacks[place]
    # A finalizer may end the collection of events: then nobody would tell of the end of the collector's work.
    _callback("stop", {})


def _place() -> int | None:
    """Where our callback is. Objects of the program are not compared with it: that would run their code."""
    return next((place for place, one in enumerate(gc.callbacks) if one is _callback), None)
