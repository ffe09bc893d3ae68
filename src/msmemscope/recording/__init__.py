"""The recording of one process: its tables, and the values that are derived from them.

Every input becomes a `Recording`; every question is asked of one.
"""

from __future__ import annotations

from msmemscope.recording.build_tables import build_blocks, recording_without_stacks
from msmemscope.recording.recording import RECORDING_BLOCK_SCHEMA, STEP_SCHEMA, Recording
from msmemscope.recording.schema import BLOCK_SCHEMA, EVENT_SCHEMA, STRING_SCHEMA

__all__ = [
    "BLOCK_SCHEMA",
    "EVENT_SCHEMA",
    "RECORDING_BLOCK_SCHEMA",
    "STEP_SCHEMA",
    "STRING_SCHEMA",
    "Recording",
    "build_blocks",
    "recording_without_stacks",
]
