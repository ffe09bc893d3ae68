"""Dump files: what a capture looks like to spreadsheets, scripts and MindStudio Insight."""

from __future__ import annotations

from msmemscope.formats.dump.dump_session import DumpFiles, write_dumps

__all__ = ["DumpFiles", "write_dumps"]
