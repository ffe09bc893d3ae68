"""Fields of an exported snapshot that torch's snapshots do not have, for reading it back."""

from __future__ import annotations

from typing import Final

OUR_KEY: Final = "msmemscope"
"""Of a dictionary beside `segments` and `device_traces`."""
HISTORY_SIZES: Final = "history_sizes"
"""The meaning of `size` in the entries of the history: OF_BLOCKS or OF_REQUESTS. torch notes requests."""
OF_BLOCKS: Final = "blocks"
OF_REQUESTS: Final = "requests"
