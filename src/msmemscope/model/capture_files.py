"""Names of files in the folder of a capture that the launcher writes and readers of logs find: cheap to import."""

from __future__ import annotations

from typing import Final

END_NOTE_FILE: Final = "ended_by"
"""Beside the log, also in archives: how the process ended, as its launcher saw it; see `launch.ended_by`."""

HISTORY_FOLDER: Final = "history"
"""Beside the log, also in archives: the memory of the process at some moments; see `formats.event_log.history_files`."""
