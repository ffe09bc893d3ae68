"""Ranks in words: `rank 3`, `ranks 0-6, 9`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.model.place import Place


def named_ranks(ranks: Iterable[int]) -> str:
    """Return ranks in words, stretches of them as `first-last`.

    Args:
        ranks: At least one, in any order.
    """
    stretches: list[list[int]] = []
    for number in sorted(set(ranks)):
        if stretches and stretches[-1][1] == number - 1:
            stretches[-1][1] = number
        else:
            stretches.append([number, number])
    word = "rank" if len(stretches) == 1 and stretches[0][0] == stretches[0][1] else "ranks"
    return f"{word} {', '.join(str(first) if first == last else f'{first}-{last}' for first, last in stretches)}"


def process_name(process_id: int, place: Place) -> str:
    """Return the name of a process in a heading: `Process 4711 (rank 3 of 8, tensor 1, on host a)`."""
    return f"Process {process_id} ({place.words})" if place else f"Process {process_id}"
