"""Everything about one block, and the bytes in use at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.errors import UsageError
from msmemscope.recording.source_lines import is_foreign_file, site_frame
from msmemscope.reports.html.shown_text import shown
from msmemscope.view.index.store import NEVER
from msmemscope.view.queries.python_text import block_text

if TYPE_CHECKING:
    from msmemscope.view.queries.process_view import PoolView, ProcessView

_MOST_FRAMES: Final = 200
_MOST_RELATED: Final = 20


def block_detail(process: ProcessView, block: int) -> dict[str, Any]:
    """Return everything about a block; `api/block` in ui/PROTOCOL.md.

    Raises:
        UsageError: There is none of this number.
    """
    if not 0 <= block < process.facts["blocks"]:
        message = "is no block of this process"
        raise UsageError(message, option="block", value=str(block), accepted=f"0 to {process.facts['blocks'] - 1}")
    of_block = {
        name: int(process.index.get(f"blocks/{name}")[block])
        for name in (
            "sizes", "addresses", "pools", "begin_rows", "end_rows", "stacks", "requested", "sequences", "free_threads",
            "first_access_rows", "last_access_rows", "free_python_stack_id", "free_native_stack_id",
        )
    }  # fmt: skip
    stacks = process.index
    pool = process.pools[of_block["pools"]]
    groups = {name: shown(process.labels(name)[int(process.codes(name)[block])]) for name in process.facts["groupings"]}
    return {
        "block": block,
        "size": of_block["sizes"],
        "address": hex(of_block["addresses"]),
        "pool": pool.facts["name"],
        "pool_number": pool.number,
        "begin": process.moment(of_block["begin_rows"]),
        "end": _moment(process, of_block["end_rows"]),
        "requested_bytes": None if of_block["requested"] < 0 else of_block["requested"],
        "first_access": _moment(process, of_block["first_access_rows"]),
        "last_access": _moment(process, of_block["last_access_rows"]),
        **groups,
        "free_thread": of_block["free_threads"] or None,
        "stack": _python_frames(process, int(stacks.get("stacks/python_stack_id")[of_block["stacks"]])),
        "native_stack": _native_frames(process, int(stacks.get("stacks/native_stack_id")[of_block["stacks"]])),
        "free_stack": _python_frames(process, of_block["free_python_stack_id"]),
        "free_native_stack": _native_frames(process, of_block["free_native_stack_id"]),
        "history": _history(pool, block - pool.blocks.start),
        "python": block_text(process, of_block["sequences"]),
    }


def _moment(process: ProcessView, row: int) -> dict[str, int] | None:
    return None if row == NEVER else process.moment(row)


def stack_text(process: ProcessView, kind: str, identity: int) -> str:
    """Return the text of a stack, its innermost frame first; empty if there is none.

    Args:
        process: The process.
        kind: `python` or `native`.
        identity: Its id.
    """
    ids = process.index.get(f"texts/{kind}/ids")
    place = int(np.searchsorted(ids, identity))
    if not identity or place == len(ids) or ids[place] != identity:
        return ""
    return str(process.index.texts(f"texts/{kind}/texts")[place])


def _python_frames(process: ProcessView, identity: int) -> list[dict[str, Any]]:
    frames = []
    for line in stack_text(process, "python", identity).splitlines()[:_MOST_FRAMES]:
        frame = site_frame(line)
        frames.append(
            {
                "text": shown(line),
                "file": shown(frame.file) if frame is not None else None,
                "line": frame.line if frame is not None else None,
                "is_program": frame is not None and not is_foreign_file(frame.file),
            }
        )
    return frames


def _native_frames(process: ProcessView, identity: int) -> list[str]:
    return [shown(line) for line in stack_text(process, "native", identity).splitlines()[:_MOST_FRAMES]]


def _history(pool: PoolView, place: int) -> dict[str, Any]:
    """The blocks that had bytes in common with the addresses of one."""
    addresses, sizes = pool.of_blocks("addresses"), pool.of_blocks("sizes")
    begin, size = int(addresses[place]), max(int(sizes[place]), 1)
    is_common = addresses < np.uint64(min(begin + size, (1 << 64) - 1))
    is_common &= addresses + np.maximum(sizes, 1).astype(np.uint64) > np.uint64(begin)
    found = np.flatnonzero(is_common)
    at = int(np.searchsorted(found, place))
    return {
        "count": len(found),
        "earlier": [_related(pool, int(one)) for one in found[max(at - _MOST_RELATED, 0) : at][::-1]],
        "later": [_related(pool, int(one)) for one in found[at + 1 : at + 1 + _MOST_RELATED]],
    }


def _related(pool: PoolView, place: int) -> dict[str, Any]:
    process = pool.process
    end = int(pool.of_blocks("end_rows")[place])
    return {
        "block": place + pool.blocks.start,
        "size": int(pool.of_blocks("sizes")[place]),
        "begin": process.moment(int(pool.of_blocks("begin_rows")[place])),
        "end": _moment(process, end),
        "owner": shown(process.labels("owner")[int(pool.codes("owner")[place])]),
    }


def at_moment(pool: PoolView, row: int, axis: str) -> dict[str, Any]:
    """Return the bytes in use right after a row; `api/at` in ui/PROTOCOL.md.

    Args:
        pool: The pool.
        row: The moment.
        axis: Of the position in the answer.
    """
    process = pool.process
    return {
        **process.moment(row),
        "position": process.position(row, axis),
        "in_use_bytes": pool.in_use_at(row),
        "block_count": len(pool.intervals.live.at(row)),
    }
