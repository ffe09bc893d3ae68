"""Devices whose memory is watched: they have to finish before it is looked at."""

from __future__ import annotations

import os

from msmemscope import _native
from msmemscope.capture.current_device import current_device

WATCHED_DEVICES: set[int] = set()
"""As events have them."""
_is_warned: list[bool] = []


def watches_several_devices() -> bool:
    """Whether more than the current device has to finish before watched memory is looked at."""
    return bool(WATCHED_DEVICES - {current_device()})


def warn_of_concurrent_launches() -> None:
    """Say once that operators of NPUs run behind the program's back."""
    if os.environ.get("ASCEND_LAUNCH_BLOCKING") != "1" and not _is_warned:
        _is_warned.append(True)
        _native.warn(
            "watch: ASCEND_LAUNCH_BLOCKING is not 1: a change by another thread or stream may name the wrong operator; set "
            "ASCEND_LAUNCH_BLOCKING=1 to be sure"
        )
