"""Memory snapshots of torch: pickles with odd values in them, damaged ones, packed ones."""

from __future__ import annotations

import gzip
import io
import pickle
import zipfile
from typing import TYPE_CHECKING, Any, Final

from tests.fuzzing import values

if TYPE_CHECKING:
    import random

_ACTIONS: Final = (
    "alloc", "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
    "oom", "snapshot", "unknown",
)  # fmt: skip
_STATES: Final = ("active_allocated", "inactive", "active_pending_free", "active_awaiting_free", "x")
_FRAMES: Final = [
    {"filename": "train.py", "line": 7, "name": "forward"},
    {"filename": "??", "line": 0, "name": "malloc"},
    {"filename": "/usr/lib/libc.so", "line": 0, "name": "start"},
    {"filename": "<string>", "line": 1, "name": "<module>"},
]


def snapshot(rng: random.Random) -> bytes:
    """The pickle of a snapshot with something wrong."""
    content = _content(rng)
    for _ in range(int(rng.expovariate(1.2))):
        content = _changed(rng, content)
    data = _pickled(rng, content)
    if rng.random() < 0.15:
        data = values.damaged(rng, data)
    choice = rng.random()
    if choice < 0.08:
        data = gzip.compress(data, mtime=0)
    elif choice < 0.16:
        data = _archived(rng, data)
    else:
        return data
    return values.damaged(rng, data) if rng.random() < 0.3 else data


def _pickled(rng: random.Random, content: Any) -> bytes:
    try:
        return pickle.dumps(content, protocol=rng.choice((2, 3, 4, 5)))
    except (RecursionError, ValueError):
        return pickle.dumps([])


def _archived(rng: random.Random, data: bytes) -> bytes:
    target = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(target, "w") as archive:
        # Entries without the time of day: the input of a number is always the same.
        archive.writestr(zipfile.ZipInfo(rng.choice(("archive/data.pkl", "data.pkl", "other"))), data, method)
        if rng.random() < 0.3:
            archive.writestr(zipfile.ZipInfo("archive/version"), "3", method)
    return target.getvalue()


def _content(rng: random.Random) -> dict[str, Any]:
    oddity = rng.choice((0.0, 0.0, 0.0, 0.01, 0.2))

    def number(usual: int) -> Any:
        # Most odd numbers are refused: those that are not must come through, too.
        odd = rng.random() < oddity
        return (
            usual if not odd else values.number(rng) if rng.random() < 0.3 else rng.randrange(1 << rng.randrange(1, 50))
        )

    def frames() -> list[dict[str, Any]]:
        return rng.sample(_FRAMES, rng.randrange(len(_FRAMES) + 1))

    traces = []
    for _ in range(rng.choice((0, 1, 1, 2, 8))):
        trace = []
        for place in range(rng.choice((0, 3, 20))):
            action = rng.choice(_ACTIONS)
            entry = {
                "action": action, "addr": number(512 * rng.randrange(16)), "size": number(512), "stream": 0,
                "time_us": number(1_700_000_000_000_000 + place), "frames": frames(),
            }  # fmt: skip
            if action == "oom":
                entry["device_free"] = number(1024)
            if rng.random() < oddity:
                del entry[rng.choice(sorted(entry))]
            trace.append(entry)
        traces.append(trace)
    segments = []
    for _ in range(rng.choice((0, 1, 3))):
        blocks = [
            {"size": number(512), "state": rng.choice(_STATES), "frames": frames(), "requested_size": number(500)}
            for _ in range(rng.randrange(4))
        ]
        segments.append(
            {
                "device": number(rng.choice((0, 1))), "address": number(512 * rng.randrange(16)), "total_size": number(2048),
                "blocks": blocks, "frames": frames(), "segment_type": "large", "stream": 0,
            }
        )  # fmt: skip
    return {"device_traces": traces, "segments": segments}


def _changed(rng: random.Random, content: Any) -> Any:
    """Returns the content with one value somewhere exchanged."""
    place = rng.random()
    if isinstance(content, dict) and content and place < 0.95:
        key = rng.choice(list(content))
        content = dict(content)
        content[key] = _changed(rng, content[key])
        return content
    if isinstance(content, list) and content and place < 0.95:
        index = rng.randrange(len(content))
        content = list(content)
        content[index] = _changed(rng, content[index])
        return content
    return _odd_value(rng, content)


def _odd_value(rng: random.Random, old: Any) -> Any:
    deep: Any = []
    for _ in range(rng.choice((3, 500))):
        deep = [deep] if rng.random() < 0.5 else (deep,)
    shared: Any = ()
    for _ in range(60):
        shared = (shared, shared) if rng.random() < 0.5 else [shared, shared]
    options: tuple[Any, ...] = (
        shared, "\ud800", [old] * rng.choice((10, 10_000)),
        values.number(rng), values.number(rng), values.number(rng), 10**300, values.text(rng), values.text(rng).encode(),
        None, True, 1.5, float("nan"), float("inf"), -1e300, [], {}, (), [[]], {"blocks": 1}, [None], deep, {(): []},
        [old, old], {1: 2},
    )  # fmt: skip
    return rng.choice(options)
