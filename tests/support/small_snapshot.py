"""A memory snapshot of torch.cuda made by hand."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_MIB = 1 << 20


def entry(action: str, address: int, size: int) -> dict[str, Any]:
    """Return an entry of the history."""
    return {"action": action, "addr": address, "size": size, "stream": 0, "pool_id": (0, 0), "frames": []}


def write_snapshot(folder: Path) -> Path:
    """Write `snapshot.pickle`: two segments of 20 MiB with two blocks each. One block is freed and taken again."""
    first, second = 1 << 40, 2 << 40
    return write_history(
        folder,
        [
            entry("segment_alloc", first, 20 * _MIB),
            *(entry("alloc", first + number * 9 * _MIB, 9 * _MIB) for number in range(2)),
            entry("segment_alloc", second, 20 * _MIB),
            *(entry("alloc", second + number * 9 * _MIB, 9 * _MIB) for number in range(2)),
            *(entry(action, second, 9 * _MIB) for action in ("free_requested", "free_completed")),
            entry("alloc", second, 8 * _MIB),
        ],
    )


def write_history(folder: Path, history: list[dict[str, Any]]) -> Path:
    """Write `snapshot.pickle` with this history, and nothing of what there is at the end."""
    path = folder / "snapshot.pickle"
    settings = {"PYTORCH_CUDA_ALLOC_CONF": ""}
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [history], "allocator_settings": settings}))
    return path
