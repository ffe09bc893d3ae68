"""Dump files: what a capture looks like to spreadsheets, scripts and MindStudio Insight."""

from __future__ import annotations

from msmemscope.formats.dump.dump_session import DumpFiles, write_dumps
from msmemscope.formats.dump.rows import BlockFindings

__all__ = ["BlockFindings", "DumpFiles", "write_dumps"]
