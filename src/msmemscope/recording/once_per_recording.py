"""Small tables that several analyses of one recording ask for, and that are made once."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.recording.recording import Recording

Derived = TypeVar("Derived")


def once_per_recording(derive: Callable[[Recording], Derived]) -> Callable[[Recording], Derived]:
    """Remember what a function returns for a recording, as long as there is that recording.

    Args:
        derive: It depends on the recording alone. Its result is never changed, and small: whoever asks a question about
            100,000,000 events has little memory left.
    """
    key = f"{derive.__module__}.{derive.__qualname__}"  # a recording that is sent elsewhere takes no function along

    @functools.wraps(derive)
    def remembered(recording: Recording) -> Derived:
        # Where functools.cached_property keeps its values, too. A changed copy of a recording begins without.
        known = recording.__dict__.setdefault("_derived", {})
        if key not in known:
            known[key] = derive(recording)
        found: Derived = known[key]
        return found

    return remembered
