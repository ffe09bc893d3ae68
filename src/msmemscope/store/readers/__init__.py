"""Readers: every input that analyses take becomes a `Dataset`.

| input | module |
|---|---|
| event log | `event_log` |
| CSV dump, ours or of MindStudio msMemScope | `csv_dump` |
| DB dump, likewise | `sqlite_dump` |
| memory snapshot of torch or torch_npu | `torch_snapshot`, `snapshot_pickle` |

`recognise` tells them apart. Both dumps go through `dump_rows` (vocabularies), `dump_attributes` (the Attr column) and
`dump_dataset` (blocks, ranges, totals).
"""

from __future__ import annotations

from msmemscope.store.readers.load import load, load_dataset

__all__ = ["load", "load_dataset"]
