"""The words about how a caching allocator came to refuse an allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from msmemscope.analysis.peak.refusal import Holder, Refusal


def refusal_sentences(refusal: Refusal, shorten: Callable[[str], str]) -> Iterator[str]:
    """Write the chain: what was looked for and where, what came and went before it was refused, and what holds the room.

    Args:
        refusal: Of a failure.
        shorten: Makes a call site short enough to be read.
    """
    pool = "small" if refusal.is_small else "large"
    free = (
        f"{format_bytes(refusal.free_bytes)} free in {_counted(refusal.free_segments, 'segment')}, the largest block "
        f"{format_bytes(refusal.largest_free_bytes)}"
    )
    if not refusal.free_bytes:
        free = "nothing free there"
    whose = "of its stream" if refusal.is_of_stream else "of all streams"
    if refusal.block_bytes is None:
        yield f"allocator: the {pool} pool {whose}: {free}"
    else:
        padding = f" and {refusal.padding_bytes} B of padding" if refusal.padding_bytes else ""
        block = format_bytes(refusal.block_bytes)
        yield f"allocator: {block} with rounding{padding} in the {pool} pool {whose}: {free}"
    if refusal.elsewhere_bytes:
        yield f"free in segments of the other pool or of other streams: {format_bytes(refusal.elsewhere_bytes)}"
    yield f"right before it gave up: {_given_back(refusal)}"
    for holder in refusal.named_holders:
        yield _held(holder, shorten)


def _given_back(refusal: Refusal) -> str:
    parts = []
    if refusal.waited_blocks:
        parts.append(
            f"{_counted(refusal.waited_blocks, 'freed block')} ({format_bytes(refusal.waited_bytes)}) came back to the pool"
        )
    if refusal.released_segments:
        parts.append(
            f"{_counted(refusal.released_segments, 'segment')} ({format_bytes(refusal.released_bytes)}) went back to the driver"
        )
    return ", ".join(parts) or "no segment without a block could go back to the driver"


def _held(holder: Holder, shorten: Callable[[str], str]) -> str:
    at = f" at {shorten(holder.pin_site)}" if holder.pin_site else ""
    freed = "freed later" if holder.pin_is_freed else "not freed"
    return (
        f"pinned: {format_bytes(holder.free_bytes)} free of a segment of {format_bytes(holder.size_bytes)}, by a block of "
        f"{format_bytes(holder.pin_bytes)}{at} ({freed})"
    )


def _counted(count: int, noun: str) -> str:
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"
