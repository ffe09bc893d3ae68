"""Formats: each folder knows one, recognises it, reads it into a `Recording`, and writes it if it can.

| input | folder |
|---|---|
| event log | `event_log` |
| CSV or DB dump, ours or of MindStudio msMemScope | `dump` |
| memory snapshot of torch or torch_npu | `torch_snapshot` |

`recognise` tells them apart; `reading` has the one call for all of them.
"""
