"""NPUs whose memory is watched: they have to finish before it is looked at."""

from __future__ import annotations

import os

from msmemscope import _native
from msmemscope.capture.current_npu import current_npu

WATCHED_NPUS: set[int] = set()
"""The driver's numbers."""
_is_warned: list[bool] = []


def watches_several_npus() -> bool:
    """Whether more than the current NPU has to finish before watched memory is looked at."""
    return bool(WATCHED_NPUS - {_native.physical_device(max(current_npu(), 0))})


def warn_of_concurrent_launches() -> None:
    """Say once that operators of NPUs run behind the program's back."""
    if os.environ.get("ASCEND_LAUNCH_BLOCKING") != "1" and not _is_warned:
        _is_warned.append(True)
        _native.warn(
            "watch: ASCEND_LAUNCH_BLOCKING is not 1: a change by another thread or stream may name the wrong operator; set "
            "ASCEND_LAUNCH_BLOCKING=1 to be sure"
        )
