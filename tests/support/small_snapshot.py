"""A memory snapshot of torch.cuda made by hand."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_MIB = 1 << 20


def _entry(action: str, address: int, size: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "pool_id": (0, 0), "frames": []}


def write_snapshot(folder: Path) -> Path:
    """Write `snapshot.pickle`: two segments of 20 MiB with two blocks each, of which one is freed and taken again."""
    first, second = 1 << 40, 2 << 40
    history = [
        _entry("segment_alloc", first, 20 * _MIB),
        *(_entry("alloc", first + number * 9 * _MIB, 9 * _MIB) for number in range(2)),
        _entry("segment_alloc", second, 20 * _MIB),
        *(_entry("alloc", second + number * 9 * _MIB, 9 * _MIB) for number in range(2)),
        *(_entry(action, second, 9 * _MIB) for action in ("free_requested", "free_completed")),
        _entry("alloc", second, 8 * _MIB),
    ]
    path = folder / "snapshot.pickle"
    settings = {"PYTORCH_CUDA_ALLOC_CONF": ""}
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [history], "allocator_settings": settings}))
    return path
