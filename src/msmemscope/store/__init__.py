"""The columnar tables that every analysis, report and dump works on."""

from __future__ import annotations

from msmemscope.store.build_tables import Tables, build_blocks, build_tables
from msmemscope.store.schema import BLOCK_SCHEMA, EVENT_SCHEMA, STRING_SCHEMA

__all__ = ["BLOCK_SCHEMA", "EVENT_SCHEMA", "STRING_SCHEMA", "Tables", "build_blocks", "build_tables"]
