"""Stand-ins for what workers do with a capture, whose processes are killed as where memory runs out."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.cluster.capture_task import summarise_capture

if TYPE_CHECKING:
    from msmemscope.cluster.capture_task import CaptureOutcome, TaskOptions

MARK = "LOST_WORKERS_FOLDER"
"""Variable: a folder that remembers which captures have killed a worker."""


def killed_by_some(location: str, options: TaskOptions) -> CaptureOutcome:
    """Sum a capture up; the worker is killed the first time where its folder says `once`, and each time where it says `always`."""
    mark = Path(os.environ[MARK]) / Path(location).name
    if "always" in location or ("once" in location and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return summarise_capture(location, options)
