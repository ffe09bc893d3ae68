"""Facts about torch_npu's caching allocator: its own ones, and what the program asks of it.

The program can give it settings, or ask it to empty its cache.

Its settings, the streams of blocks and memory that came back late are recorded whenever blocks are. Each of its entries
is recorded only if events of the allocator were asked for. The allocator calls the core directly
(`native/sources/ascend/torch_npu/`). It is asked to do so when torch_npu has initialised itself, before its first
allocation. If the program has torch record a history, that history is not touched. If collection begins later, or
begins again, the memory that the allocator holds then is taken from its snapshot. Where torch_npu tells mstx nothing of
its blocks, they are taken from here as well.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

_VARIABLES: Final = ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""Where the allocator's settings come from; the first one that is set counts."""

STATE_FACT: Final = "allocator.state"
STREAMS_FACT: Final = "allocator.streams"
_FRACTION: Final = "per_process_memory_fraction"
_MOST: Final = (1 << 64) - 1
_KINDS: Final = {
    "inactive": None,
    "active_allocated": EventKind.ALLOCATOR_ALLOC,
    "active_pending_free": EventKind.ALLOCATOR_FREE,
    "active_awaiting_free": EventKind.ALLOCATOR_FREE,
}
"""By the state of a block in a snapshot."""

_waits = False
_wants_entries = False
_attached: list[Any] = []
_older_blocks: list[int] = []
"""How many were followed, once they are."""
_unsaid: list[tuple[int, str]] = []
"""Settings that the program chose while nothing was collected, by device."""


def observe_allocator(*, with_entries: bool) -> None:
    """Let the allocator tell what it does: now if the program has torch_npu already, else as soon as it imports it.

    To be called each time that collection has begun: what happened before it is not known otherwise.

    Args:
        with_entries: Whether all that it says is recorded.
    """
    global _waits, _wants_entries  # noqa: PLW0603 - there is one torch_npu
    _wants_entries = with_entries
    # The package itself may be half imported: it imports torch, which begins the session.
    if hasattr(sys.modules.get("torch_npu.npu"), "_lazy_call"):
        _prepare()
    elif not _waits:
        _waits = True
        when_imported("torch_npu.npu", _prepare)


def _prepare() -> None:
    """Never raises: it runs in the middle of the program's imports, or of its calls."""
    try:
        extension: Any = sys.modules["torch_npu._C"]
        npu: Any = sys.modules["torch_npu.npu"]
        # If torch_npu is initialised only now, in a forked child or by itself, that is none of our business.
        is_initialized = bool(npu.is_initialized())
        if _attach_once(extension, npu, is_initialized=is_initialized) and is_initialized:
            _note_blocks_not_told()
        if is_initialized and _wants_entries:
            _record_state(npu)
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch_npu is like
        _note_unobserved(f"{type(error).__name__}: {error}")


def _attach_once(extension: Any, npu: Any, *, is_initialized: bool) -> bool:
    """Attach to the allocator; return whether that was not done before."""
    if extension in _attached:
        return False
    _attached.append(extension)
    for name, wrap in _WRAPPERS.items():
        original = getattr(extension, name)
        setattr(extension, name, functools.update_wrapper(wrap(original), original))
    vars(npu)["_lazy_call"](functools.partial(_attach, is_late=is_initialized))
    if is_initialized:
        _note_fraction(extension)
    return True


def follow_older_blocks() -> int:
    """Take the blocks from the tracker where torch_npu tells mstx nothing; returns how many older ones are followed.

    torch_npu decides at its first block whether it tells mstx of its blocks. If that was before us, the tracker is what
    is left, in versions that have one. Its bytes are those that the program asked for, without what the allocator adds.
    To be called before collection begins. Never raises.
    """
    npu: Any = sys.modules.get("torch_npu.npu")
    if _older_blocks or not hasattr(npu, "_lazy_call") or not npu.is_initialized():
        return 0
    try:
        _attach_once(sys.modules["torch_npu._C"], npu, is_initialized=True)
        if _native.are_allocator_blocks_told():
            return 0
        is_used = bool(npu.memory_snapshot())
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch_npu is like
        _native.note_fact("unobserved.pta", f"its blocks cannot be asked for: {type(error).__name__}: {error}")
        return 0
    if not is_used:
        # torch_npu decides at its first block. If that is still to come, it tells then.
        _note_blocks_not_told()
        return 0
    try:
        if not _native.take_allocator_blocks() or not _native.begin_allocator_comparison():
            _note_blocks_not_told()
            return 0
        try:
            segments = npu.memory_snapshot()
        finally:
            moments = _native.end_allocator_state()
        why = _difference(segments, moments)
        if why is not None:
            _native.lose_allocator_state(why)
            _note_blocks_not_told()
            return 0
        _older_blocks.append(_follow_segments(segments))
        return _older_blocks[0]
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch_npu is like
        _native.lose_allocator_state(f"{type(error).__name__}: {error}")
        _note_blocks_not_told()
        return 0


def _note_blocks_not_told() -> None:
    if not _native.are_allocator_blocks_told():
        why = "torch_npu may have set up its memory pool before msmemscope was there, and tells nothing then"
        _native.note_fact("unobserved.pta", why)


def _difference(segments: list[dict[str, Any]], moments: list[tuple[int, int, int]]) -> str | None:
    """Say how a snapshot differs from what the tracker told of it; None if it does not."""
    told = {number: active_bytes for number, _, active_bytes in moments if active_bytes}
    shown: dict[int, int] = {}
    for segment in segments:
        shown[segment["device"]] = shown.get(segment["device"], 0) + segment["active_size"]
    shown = {number: active_bytes for number, active_bytes in shown.items() if active_bytes}
    return None if told == shown else "the snapshot does not have the bytes that the trace tracker was told of"


def _follow_segments(segments: list[dict[str, Any]]) -> int:
    count = 0
    for segment in segments:
        device, address = _native.physical_device(segment["device"]), segment["address"]
        if device < 0:
            continue
        _native.note_allocator_reserved(device, segment["total_size"])
        for block in segment["blocks"]:
            begin, size = block.get("address", address), block["size"]
            address = begin + size
            if block["state"] == "active_allocated":
                size = block.get("requested_size", size)
                count += _native.follow_older_block(Pool.PTA, device, begin, size)
    _native.note_fact("observed.ptaCaching", "by its trace tracker, in bytes as the program asked for them")
    return count


def _note_unobserved(why: str) -> None:
    """Note why the allocator is not observed, if its entries were asked for."""
    if _wants_entries:
        _native.note_fact("unobserved.allocator", why)


def _attach(*, is_late: bool) -> None:
    """torch_npu has been initialised; long ago if that is late."""
    why = _native.attach_allocator_trace(str(sys.modules["torch_npu"].__version__), is_late)
    if why is not None:
        _note_unobserved(why)
    else:
        _native.note_fact(STREAMS_FACT, "of blocks, and frees that wait for others")
    settings = next((os.environ[name] for name in _VARIABLES if name in os.environ), "")
    _native.note_fact("allocator.settings", settings)


def _note_fraction(extension: Any) -> None:
    """Note the limit that the program has set already; other calls that it made before cannot be found out.

    Of the current device: asking torch_npu about another one makes that the current one.
    """
    from msmemscope.capture.current_device import current_npu

    device = current_npu()
    if device >= 0:
        # Worked out from bytes: not exactly what the program said.
        fraction = round(getattr(extension, "_npu_getMemoryFraction")(device), 9)  # noqa: B009 - no name of ours
        if fraction < 1.0:
            _unsaid.append((_native.physical_device(device), f"{_FRACTION}:{fraction}"))


def _record_state(npu: Any) -> None:
    """Record the memory that the allocator holds, for devices where something was missed.

    Never raises: it runs in the middle of the program's calls.
    """
    try:
        for device, text in _unsaid:
            _native.record_event(EventKind.ALLOCATOR_SETTING, device, name=text, pool=Pool.PTA)
        _unsaid.clear()
        if not _native.begin_allocator_state():
            return
        try:
            segments = npu.memory_snapshot()
        finally:
            moments = _native.end_allocator_state()
        why = _record_devices(segments, moments)
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch_npu is like
        why = f"{type(error).__name__}: {error}"
    if why is not None:
        why = f"its memory when collection began could not be recorded: {why}"
        _native.lose_allocator_state(why)
        _native.warn(f"torch_npu's caching allocator: {why}")


def _record_devices(segments: list[dict[str, Any]], moments: list[tuple[int, int, int]]) -> str | None:
    """Record the state of each device.

    Its snapshot is taken under its lock, and the trace tracker is told so before the lock is released. The tracker
    notes the number of the next event then. So the snapshot shows the state right before that event, whatever other
    threads do.

    Args:
        segments: The snapshot of all devices.
        moments: When it was taken of each: the program's number of the device, that of events, and the active bytes.

    Returns:
        The reason why it cannot be recorded; None if it was.
    """
    of_device: dict[int, list[dict[str, Any]]] = {}
    for segment in segments:
        of_device.setdefault(segment["device"], []).append(segment)
    for number, sequence, active_bytes in moments:
        held = of_device.pop(number, [])
        if active_bytes != sum(segment["active_size"] for segment in held):
            return f"the snapshot of npu:{number} does not have the bytes that the trace tracker was told of"
        device = _native.physical_device(number)
        if sequence and held and device < 0:
            return f"the driver's number of npu:{number} is not known"
        if sequence and device >= 0:
            count = sum(_record_segment(device, segment) for segment in held)
            # Last: whoever reads this knows that all of it is there.
            _native.note_fact(STATE_FACT, f"{device}/{sequence}/{count}")
    if of_device:
        return f"the trace tracker was not told of a snapshot of npu:{min(of_device)}"
    if any(active_bytes for _, _, active_bytes in moments):
        # Also where mstx tells nothing of the allocator, as it does not once the program had used an NPU before us.
        _native.note_fact("observed.allocator", "by its trace tracker, compared with its snapshot")
    return None


def _record_segment(device: int, segment: dict[str, Any]) -> int:
    """Record a segment and its blocks; what lies between those is free. Returns how many rows that were."""
    stream, pool = segment["stream"] & _MOST, tuple(segment.get("segment_pool_id", (0, 0)))
    address: int = segment["address"]
    _native.record_held(
        EventKind.SEGMENT_MAP if segment.get("is_expandable") else EventKind.SEGMENT_ALLOC,
        device,
        address,
        segment["total_size"],
        stream,
        pool,
        is_small=segment["segment_type"] == "small",
    )
    count = 1
    for block in segment["blocks"]:
        begin, size = block.get("address", address), block["size"]
        address = begin + size
        kind = _KINDS[block["state"]]
        if kind is not None:
            _native.record_held(kind, device, begin, size, stream, pool, block.get("requested_size", -1))
            count += 1
    return count


def _current_device() -> int:
    from msmemscope.capture.current_device import current_npu

    return _native.physical_device(current_npu())


def _note_setting(text: str) -> None:
    if _native.is_collecting():
        _native.record_event(EventKind.ALLOCATOR_SETTING, _current_device(), name=text, pool=Pool.PTA)
    else:
        _unsaid.append((_current_device(), text))


def _emptying(original: Callable[..., Any]) -> Any:
    def empty_cache(*arguments: Any, **keywords: Any) -> Any:
        if _native.is_collecting():
            _native.record_event(EventKind.CACHE_EMPTIED, _current_device(), pool=Pool.PTA)
        return original(*arguments, **keywords)

    return empty_cache


def _setting(original: Callable[..., Any]) -> Any:
    def set_settings(settings: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(settings, *arguments, **keywords)
        _note_setting(str(settings))
        return result

    return set_settings


def _limiting(original: Callable[..., Any]) -> Any:
    def set_fraction(fraction: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(fraction, *arguments, **keywords)
        _note_setting(f"{_FRACTION}:{fraction}")
        return result

    return set_fraction


_WRAPPERS: Final[dict[str, Callable[[Callable[..., Any]], Any]]] = {
    "_npu_emptyCache": _emptying,
    "_npu_npuCachingAllocator_set_allocator_settings": _setting,
    "_npu_setMemoryFraction": _limiting,
}
"""Functions that torch_npu's own Python code calls, by their names in `torch_npu._C`."""
