"""The columnar tables that every analysis, report and dump works on."""

from __future__ import annotations

from msmemscope.store.build_tables import Tables, build_blocks, build_tables
from msmemscope.store.dataset import DATASET_BLOCK_SCHEMA, STEP_SCHEMA, Dataset, steps
from msmemscope.store.readers import load, load_dataset
from msmemscope.store.schema import BLOCK_SCHEMA, EVENT_SCHEMA, STRING_SCHEMA

load_all = load_dataset
"""What `msmemscope.load_all` is: the call for several processes beside `load` for one."""

__all__ = [
    "BLOCK_SCHEMA",
    "DATASET_BLOCK_SCHEMA",
    "EVENT_SCHEMA",
    "STEP_SCHEMA",
    "STRING_SCHEMA",
    "Dataset",
    "Tables",
    "build_blocks",
    "build_tables",
    "load",
    "load_all",
    "load_dataset",
    "steps",
]
