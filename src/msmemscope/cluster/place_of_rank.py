"""The place of a process in its job, as columns of a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msmemscope.model.place import Place


def place_columns(place: Place) -> dict[str, Any]:
    """Return `rank` ... `coordinates` of `summary.SUMMARY_SCHEMA`; axes with a single index tell nobody apart and are left out."""
    return {
        "rank": place.rank,
        "local_rank": place.local_rank,
        "world_size": place.world_size,
        "local_world_size": place.local_world_size,
        "node": place.node or None,
        "restart_count": place.restart_count,
        "role": place.role or None,
        "coordinates": [
            {"axis": axis, "index": index}
            for axis, index in sorted(place.coordinates.items())
            if place.axis_sizes.get(axis) != 1
        ],
    }
