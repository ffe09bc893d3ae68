"""The words of causes: what they are called, the sentence with the figures that decided, the remedy, the next command."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.peak.memory_sum import least_of
from msmemscope.model.devices import device_name, names_of
from msmemscope.model.holders import AUTOGRAD_GRAPH
from msmemscope.recording.failed_allocations import is_in_pieces
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msmemscope.analysis.peak.candidates import Candidate
    from msmemscope.analysis.peak.comparison import StepComparison
    from msmemscope.analysis.peak.figures import MemoryFigures


class Cause(str, Enum):
    """Why memory ran out. See `cause` for how it is decided."""

    LEAK = "leak"
    KEPT = "kept by the program"
    FAILED_ATTEMPT = "kept by an exception"
    CYCLES = "reference cycles"
    KV_CACHE = "KV cache"
    BATCH_JUMP = "batch jump"
    OPTIMIZER_STATE = "optimizer state"
    CHECKPOINT = "checkpoint"
    WORKSPACE = "workspace"
    MODEL_TOO_LARGE = "model too large"
    SECOND_MODEL = "second model"
    SPLIT = "fragmentation by splitting"
    PINNED_SEGMENTS = "fragmentation by pinning"
    OTHER_STREAM = "memory of another stream"
    NOT_SEARCHED = "room that was not looked for"
    RESERVED_BY_POOL = "reserved by the pool"
    LIMIT = "configured limit"
    OTHER_PROCESS = "other process"
    OUTSIDE_FRAMEWORK = "growth outside the framework"
    OUTSIDE_POOL = "memory outside of the pool"
    PINNED_HOST = "pinned host memory"
    REAL_SHORTAGE = "real shortage"
    UNKNOWN = "unknown"


FRAGMENTATION: Final = (Cause.SPLIT, Cause.PINNED_SEGMENTS, Cause.OTHER_STREAM)
"""Causes that are none where the gaps are closed."""
OF_KEPT: Final = (Cause.LEAK, Cause.KEPT, Cause.FAILED_ATTEMPT, Cause.CYCLES, Cause.KV_CACHE)
"""Causes that are what the program still holds."""
OF_THE_ALLOCATOR: Final = (*FRAGMENTATION, Cause.NOT_SEARCHED)
"""Causes that lie in how the caching allocator came to refuse."""


class Remedy(str, Enum):
    """What to do about it."""

    RELEASE_KEPT = "release what steps keep"
    LEAVE_EXCEPTION = "retry behind the except clause"
    COLLECT_GARBAGE = "break the cycle or collect garbage"
    RELEASE_MODEL = "release the other model first"
    BOUND_CACHE = "bound the cache"
    SMALLER_BATCH = "lower the batch"
    LIGHTER_OPTIMIZER = "shard or lighten the optimizer"
    RELEASE_LOADED = "let go of what was loaded"
    CHECKPOINT_ON_HOST = "copy to the host one by one"
    SMALLER_WORKSPACE = "make room for the workspace"
    SPLIT_MODEL = "split or quantize the model"
    EXPANDABLE_SEGMENTS = "set expandable segments"
    ALLOCATOR_SETTING = "set the allocator"
    LONG_LIVED_FIRST = "allocate what lives long first"
    ONE_STREAM = "allocate on one stream"
    ASK_AGAIN = "synchronize first, or ask again"
    EMPTY_CACHE = "empty the cache first"
    RAISE_LIMIT = "raise the limit"
    FREE_DEVICE = "free the device"
    LOOK_AT_DRIVER = "look at the driver's memory"
    REUSE_PINNED = "reuse pinned buffers"
    USE_LESS = "use less at this moment"
    RECORD_MORE = "record what is missing"


def _as_it_is(site: str) -> str:
    return site


def verdict_of(
    first: Candidate, figures: MemoryFigures, step: int, shown_site: Callable[[str], str] = _as_it_is
) -> str:
    """Write one line: what failed, why, in which step, what holds it, and at which line.

    Args:
        first: The cause.
        figures: Of the failure.
        step: That failed; 0 for none.
        shown_site: Writes a line as it is to be shown.
    """
    freed = f", {format_bytes(first.freed_bytes)}{_blocks(first)}" if first.cause in _WITH_BYTES else ""
    if first.cause in FRAGMENTATION:
        freed = f", {format_bytes(first.freed_bytes)} in gaps"
    in_step = f" in step {step}" if step else ""
    at = f" at {shown_site(first.site)}" if first.site else ""
    held = f", held by {first.held_by}" if first.held_by else ""
    # The line above is that of what holds the gaps.
    is_elsewhere = first.cause in FRAGMENTATION and figures.request_site not in {"", first.site}
    where = f" at {shown_site(figures.request_site)}" if is_elsewhere else ""
    return (
        f"out of memory on {device_name(figures.device)}{in_step}: {first.cause.value}{freed}{at}{held} "
        f"({least_of(figures)}{format_bytes(figures.request_bytes)} refused{where})"
    )


def others_of(
    candidates: Sequence[Candidate], figures: MemoryFigures, shown_site: Callable[[str], str] = _as_it_is
) -> tuple[str, ...]:
    """Write a sentence for each candidate behind the first; arguments as for `verdict_of`."""
    return tuple(
        f"{place}. {one.cause.value}: {format_bytes(one.freed_bytes)}{_blocks(one)}"
        f"{_share(one, figures)}{f', at {shown_site(one.site)}' if one.site else ''}"
        f"{f', held by {one.held_by}' if one.held_by else ''}; {'enough' if one.is_enough else 'not enough'} alone"
        for place, one in enumerate(candidates[1:], 2)
    )


def _blocks(one: Candidate) -> str:
    return f" in {one.block_count} blocks" if one.block_count > 1 else ""


def _share(one: Candidate, figures: MemoryFigures) -> str:
    if one.cause not in _WITH_BYTES or not figures.in_use_bytes or one.freed_bytes > figures.in_use_bytes:
        return ""
    return f" ({100 * one.freed_bytes / figures.in_use_bytes:.0f} % of what was in use)"


def sentence_of(first: Candidate, figures: MemoryFigures, comparison: StepComparison | None) -> str:
    """Write the cause with the figures that decided it."""
    size = format_bytes(first.freed_bytes)
    if first.cause is Cause.BATCH_JUMP:
        return _batch_jump(size, figures, comparison)
    if first.cause in _KEPT:
        blocks = _blocks(first)
        return f"{_KEPT[first.cause].format(size=f'{size}{blocks}')}{_share(first, figures)}{_needed(figures)}."
    if first.is_loaded:
        return f"Checkpoint: {size} that were loaded are still there beside what was made of them{_needed(figures)}."
    if first.cause in _GROWTH:
        return f"{_GROWTH[first.cause].format(size=size)}{_needed(figures)}."
    writers: dict[Cause, Callable[[MemoryFigures], str]] = {
        Cause.LIMIT: _limit,
        Cause.SPLIT: _fragmentation,
        Cause.PINNED_SEGMENTS: _fragmentation,
        Cause.OTHER_STREAM: _other_stream,
        Cause.NOT_SEARCHED: _not_searched,
        Cause.RESERVED_BY_POOL: _reserved_by_pool,
        Cause.OTHER_PROCESS: _other_process,
        Cause.OUTSIDE_FRAMEWORK: _outside,
        Cause.OUTSIDE_POOL: _outside_pool,
        Cause.PINNED_HOST: _pinned_host,
        Cause.REAL_SHORTAGE: _shortage,
    }
    return writers.get(first.cause, _unknown)(figures)


def remedy_of(first: Candidate, figures: MemoryFigures) -> Remedy:
    """Return what to do."""
    if first.cause in FRAGMENTATION and (is_in_pieces(figures.function) or first.setting == ""):
        return Remedy.LONG_LIVED_FIRST
    if first.cause is Cause.SPLIT and first.setting not in {None, _EXPANDABLE}:
        return Remedy.ALLOCATOR_SETTING
    if first.cause is Cause.UNKNOWN and not missing_figures(figures):
        return Remedy.FREE_DEVICE
    if first.is_loaded:
        return Remedy.RELEASE_LOADED
    return _REMEDIES[first.cause]


def advice_of(first: Candidate, figures: MemoryFigures) -> str:
    """Write the remedy in one or two sentences."""
    names, cause = names_of(figures.device), first.cause
    if cause in FRAGMENTATION:
        if is_in_pieces(figures.function):
            return _ADVICE_IN_PIECES
        setting = f"{names.allocator_variable}={first.setting or _EXPANDABLE}"
        tried = {None: f"Set {setting}.", "": _NO_SETTING}.get(first.setting, f"Set {setting}: {_REPLAYED}")
        return f"{tried} {_ADVICE[cause]}"
    if cause is Cause.UNKNOWN and not missing_figures(figures):
        return _ADVICE_UNEXPLAINED.format(names=names)
    if cause in {Cause.KEPT, Cause.LEAK} and AUTOGRAD_GRAPH in first.held_by:
        return _ADVICE_GRAPH
    if first.is_loaded:
        return _ADVICE_LOADED
    return _ADVICE[cause].format(names=names)


def next_command_of(first: Candidate, figures: MemoryFigures) -> str:
    """Return what to type next."""
    names, cause = names_of(figures.device), first.cause
    if cause in FRAGMENTATION and not is_in_pieces(figures.function) and first.setting != "":
        return f"export {names.allocator_variable}={first.setting or _EXPANDABLE}"
    if cause in {Cause.OTHER_PROCESS, Cause.OUTSIDE_POOL} or (cause is Cause.UNKNOWN and not missing_figures(figures)):
        return names.look_at_device if figures.device >= 0 else ""
    return f"msmemscope analyze {_QUESTIONS.get(cause, 'peak')}"


def _limit(figures: MemoryFigures) -> str:
    if figures.limit:
        return (
            f"A configured limit: the process may have {format_bytes(figures.capacity_bytes or 0)} ({figures.limit})."
        )
    free = "" if figures.free_bytes is None else f", while {format_bytes(figures.free_bytes)} of the device were free"
    holds = format_bytes(figures.in_use_bytes if figures.reserved_bytes is None else figures.reserved_bytes)
    return (
        f"A configured limit: the pool held {holds}, and torch itself refused {_request(figures)} "
        f"(set_per_process_memory_fraction){free}."
    )


def _fragmentation(figures: MemoryFigures) -> str:
    slack, reserved = format_bytes(figures.slack_bytes or 0), format_bytes(figures.reserved_bytes or 0)
    gap = figures.largest_gap_bytes
    largest = "no gap could be used" if gap is None else f"the largest gap was {format_bytes(gap)}"
    if (figures.slack_bytes or 0) >= figures.request_bytes:
        enough = f"enough for {_request(figures)}"
    else:
        enough = f"with the {format_bytes(figures.free_bytes or 0)} free on the device enough for {_request(figures)}"
    return f"Fragmentation: {slack} of the {reserved} that the pool held were free, {enough}, but {largest}."


def _other_process(figures: MemoryFigures) -> str:
    return (
        f"Another process: {format_bytes(figures.other_bytes or 0)} of the {format_bytes(figures.capacity_bytes or 0)} of "
        f"the device were not this process's, and {_lacking(figures)}."
    )


def _outside(figures: MemoryFigures) -> str:
    mostly = f", mostly {figures.outside_owner}" if figures.outside_owner else ""
    if figures.outside_site:
        mostly += f" at {figures.outside_site}"
    return (
        f"Growth outside the framework: {format_bytes(figures.outside_growth_bytes or 0)} of the driver's memory were no "
        f"pool's{mostly}, and {_lacking(figures)}."
    )


def _shortage(figures: MemoryFigures) -> str:
    rest = (figures.device_used_bytes or 0) - (figures.slack_bytes or 0) - figures.in_use_bytes
    what = "by tensors" if figures.device < 0 else "by the pools"
    beside = f", {format_bytes(rest)} beside them" if rest > 0 else ""
    return (
        f"Real shortage: {format_bytes(figures.in_use_bytes)} in use {what}{beside}, and {_request(figures)} exceed the "
        f"{format_bytes(figures.capacity_bytes or 0)} of {_place(figures)} by "
        f"{least_of(figures)}{format_bytes(figures.missing_bytes or 0)}."
    )


def _unknown(figures: MemoryFigures) -> str:
    gap, free = figures.largest_gap_bytes, figures.free_bytes
    if gap is not None and gap >= figures.request_bytes:
        return (
            f"The cause is unknown: a gap of {format_bytes(gap)} in the pool's reserve would have held "
            f"{_request(figures)}, but was not used: it may belong to another stream, or to segments for other sizes."
        )
    if free is not None:
        return (
            f"The cause is unknown: {format_bytes(free)} of {_place(figures)} were reported free, and "
            f"{figures.function or 'the allocator'} refused {_request(figures)}: another user whom that figure leaves out may "
            "have had it, or a quota forbids it."
        )
    return (
        f"The cause is unknown: {_request(figures)} failed with {format_bytes(figures.in_use_bytes)} in use by the "
        "pools, and nothing says how much the device had."
    )


def _reserved_by_pool(figures: MemoryFigures) -> str:
    return (
        f"Reserved by the pool: it held {format_bytes(figures.reserved_bytes or 0)} for {format_bytes(figures.in_use_bytes)} in "
        f"use, and {_request(figures)} came from outside of it, with {format_bytes(figures.free_bytes or 0)} free on the device."
    )


def _other_stream(figures: MemoryFigures) -> str:
    return (
        f"Memory of another stream: a gap of {format_bytes(figures.largest_gap_bytes or 0)} in the pool's reserve would have "
        f"held {_request(figures)}, but was not used: gaps serve the stream, or the private pool, that has them alone."
    )


def _not_searched(figures: MemoryFigures) -> str:
    return (
        f"Room that was not looked for: a free block of {format_bytes(figures.overlooked_bytes)} would have held "
        f"{_request(figures)}. It came free while the allocator made room, and its pool is not searched again then: a known "
        "defect of torch's caching allocators (pytorch issue 189504)."
    )


def _pinned_host(figures: MemoryFigures) -> str:
    return (
        f"Pinned host memory: {format_bytes(figures.pinned_bytes)} of the host were pinned, and "
        f"{figures.function or 'the allocator'} refused {_request(figures)}."
    )


def _batch_jump(size: str, figures: MemoryFigures, comparison: StepComparison | None) -> str:
    if comparison is None:
        return f"Batch jump: {size} more than the same lines had asked for before{_needed(figures)}."
    if not comparison.is_same_operator:
        return (
            f"Batch jump: behind step {comparison.good_step} the program had asked for {size} more than that step ever had"
            f"{_needed(figures)}."
        )
    return (
        f"Batch jump: step {comparison.failing_step} had asked for {format_bytes(comparison.failing_own_bytes)} at the operator "
        f"where step {comparison.good_step} had {format_bytes(comparison.own_bytes + comparison.request_bytes)}, "
        f"{comparison.ratio:.1f} times as much{_needed(figures)}."
    )


def _outside_pool(figures: MemoryFigures) -> str:
    is_known = figures.capacity_bytes is not None
    of_device = f"of the {format_bytes(figures.capacity_bytes or 0)} of the device" if is_known else "of the device"
    least = "" if is_known else "at least "
    free = figures.free_bytes if is_known else figures.reported_free_bytes
    return (
        f"Memory outside of the pool: {least}{format_bytes(figures.unattributed_bytes or 0)} {of_device} were neither free "
        f"({format_bytes(free or 0)}) nor the pool's ({format_bytes(figures.reserved_bytes or 0)}): another process, or what "
        f"this one took from the driver itself."
    )


def _needed(figures: MemoryFigures) -> str:
    missing, need = figures.missing_bytes, figures.need_bytes
    if need <= figures.in_use_bytes + figures.request_bytes:
        return ""  # what is in use and what was asked for stands in the sum
    short = f", {format_bytes(missing)} more than there is" if missing is not None and missing > 0 else ""
    return f"; the step needs about {format_bytes(need)} of the pools in full{short}"


def _request(figures: MemoryFigures) -> str:
    return f"{least_of(figures)}the {format_bytes(figures.request_bytes)} asked for"


def _lacking(figures: MemoryFigures) -> str:
    missing = figures.missing_bytes or 0
    if missing <= 0:  # the room is there, in gaps that nothing closes
        missing = figures.request_bytes - (figures.free_bytes or 0)
    return f"{least_of(figures)}{format_bytes(missing)} were missing for the {format_bytes(figures.request_bytes)} asked for"


def _place(figures: MemoryFigures) -> str:
    return figures.limit or ("the machine" if figures.device < 0 else "the device")


def missing_figures(figures: MemoryFigures) -> tuple[str, ...]:
    """Return what is not known, one line each."""
    where = device_name(figures.device)
    lines = []
    if figures.free_bytes is None:
        lines.append(
            f"how much of {where} was in use: neither a snapshot of the failure nor the management interface says"
        )
    if figures.device >= 0:
        if figures.reserved_bytes is None:
            lines.append(f"what the pools held of {where}: fragmentation is not distinguished from other causes")
        if figures.process_bytes is None:
            lines.append(f"what this process held of {where}: other processes are not distinguished from it")
        if figures.outside_bytes is None:
            lines.append(
                f"memory of the driver of {where}: it was not observed, growth outside the framework is not seen"
            )
    return tuple(lines)


_KEPT: Final[dict[Cause, str]] = {
    Cause.LEAK: "Leak: {size} were kept by steps that had ended, more with each step",
    Cause.KEPT: "Kept: the program had collected {size} that no step needs",
    Cause.FAILED_ATTEMPT: "An exception keeps the variables of a failed attempt: {size}",
    Cause.CYCLES: "Reference cycles: {size} wait for the garbage collector",
}
_GROWTH: Final[dict[Cause, str]] = {
    Cause.KV_CACHE: "KV cache: caches grew by {size} over the steps that had ended",
    Cause.OPTIMIZER_STATE: "Optimizer state: {size} came with the first step of the optimizer",
    Cause.CHECKPOINT: "Checkpoint: copies for a checkpoint take {size} beside what they copy",
    Cause.WORKSPACE: "Workspace: an operator asked for {size} more of workspace than any before it",
    Cause.MODEL_TOO_LARGE: "Model too large: weights and buffers alone had come to {size}",
    Cause.SECOND_MODEL: "Second model: another model beside this one has {size}",
}
_WITH_BYTES: Final = frozenset(
    {
        *_KEPT,
        *_GROWTH,
        Cause.BATCH_JUMP,
        Cause.RESERVED_BY_POOL,
        Cause.OUTSIDE_POOL,
        Cause.OTHER_PROCESS,
        Cause.OUTSIDE_FRAMEWORK,
    }
)
"""Causes whose bytes belong into their first line."""
_REMEDIES: Final[dict[Cause, Remedy]] = {
    Cause.LEAK: Remedy.RELEASE_KEPT,
    Cause.KEPT: Remedy.RELEASE_KEPT,
    Cause.FAILED_ATTEMPT: Remedy.LEAVE_EXCEPTION,
    Cause.CYCLES: Remedy.COLLECT_GARBAGE,
    Cause.SECOND_MODEL: Remedy.RELEASE_MODEL,
    Cause.OUTSIDE_POOL: Remedy.FREE_DEVICE,
    Cause.KV_CACHE: Remedy.BOUND_CACHE,
    Cause.BATCH_JUMP: Remedy.SMALLER_BATCH,
    Cause.OPTIMIZER_STATE: Remedy.LIGHTER_OPTIMIZER,
    Cause.CHECKPOINT: Remedy.CHECKPOINT_ON_HOST,
    Cause.WORKSPACE: Remedy.SMALLER_WORKSPACE,
    Cause.MODEL_TOO_LARGE: Remedy.SPLIT_MODEL,
    Cause.SPLIT: Remedy.EXPANDABLE_SEGMENTS,
    Cause.PINNED_SEGMENTS: Remedy.LONG_LIVED_FIRST,
    Cause.OTHER_STREAM: Remedy.ONE_STREAM,
    Cause.NOT_SEARCHED: Remedy.ASK_AGAIN,
    Cause.RESERVED_BY_POOL: Remedy.EMPTY_CACHE,
    Cause.LIMIT: Remedy.RAISE_LIMIT,
    Cause.OTHER_PROCESS: Remedy.FREE_DEVICE,
    Cause.OUTSIDE_FRAMEWORK: Remedy.LOOK_AT_DRIVER,
    Cause.PINNED_HOST: Remedy.REUSE_PINNED,
    Cause.REAL_SHORTAGE: Remedy.USE_LESS,
    Cause.UNKNOWN: Remedy.RECORD_MORE,
}
_QUESTIONS: Final[dict[Cause, str]] = {
    Cause.LEAK: "leaks",
    Cause.CYCLES: "leaks",
    Cause.KV_CACHE: "growth",
    Cause.OPTIMIZER_STATE: "decompose",
    Cause.MODEL_TOO_LARGE: "decompose",
    Cause.OUTSIDE_FRAMEWORK: "decompose",
}
"""The question that shows more; of the others `peak`."""
_ADVICE_GRAPH: Final = (
    "Let go of the graph: detach() or item() what is kept, and run what needs no backward pass under torch.no_grad()."
)
_ADVICE_LOADED: Final = (
    'Let go of the checkpoint once it is loaded (del), or load it to the host: torch.load(..., map_location="cpu").'
)
_ADVICE: Final[dict[Cause, str]] = {
    Cause.KEPT: "Release what is collected: move it to the host (.cpu()), reduce it at once, or bound the container.",
    Cause.FAILED_ATTEMPT: (
        "Try again behind the except clause, not in it, and keep no reference to the exception: its traceback holds the "
        "variables of every function that it passed."
    ),
    Cause.CYCLES: "Break the cycle (a weak reference instead), or call gc.collect() where one piece of work ends.",
    Cause.SECOND_MODEL: "Release the other model before this one is made (del, gc.collect()), or keep one of them on the host.",
    Cause.OUTSIDE_POOL: "Look with {names.look_at_device} who uses the device: another process, or a library in this one.",
    Cause.LEAK: "Release what the line keeps over steps: detach() or item() what is logged, bound lists and caches.",
    Cause.KV_CACHE: "Bound the cache: a shorter context, fewer sequences at once, a paged or quantized cache.",
    Cause.BATCH_JUMP: (
        "Lower the batch, or the length of its sequences, to what earlier steps had; or accumulate gradients over parts of it."
    ),
    Cause.OPTIMIZER_STATE: (
        "Shard the optimizer's state over devices (ZeRO, FSDP), take an optimizer with less of it, or move it to the host."
    ),
    Cause.CHECKPOINT: "Copy the state to the host tensor by tensor (.cpu()) before anything else is done with it.",
    Cause.WORKSPACE: (
        "Leave room for the workspace: fewer tensors in use at this operator, smaller operands, or empty_cache() before it."
    ),
    Cause.MODEL_TOO_LARGE: "Split the model over devices, load it in a smaller type, or keep a part of it on the host.",
    Cause.PINNED_SEGMENTS: "Allocate what lives long before what lives short, so that it pins no segments.",
    Cause.OTHER_STREAM: "Allocate large buffers on one stream, and use record_stream().",
    Cause.RESERVED_BY_POOL: (
        "Call empty_cache() before the request: what the pool has cached goes back to the driver, which no request from outside "
        "of the pool makes it do."
    ),
    Cause.NOT_SEARCHED: (
        "Synchronize with the streams that use large blocks before more are asked for, or catch the error and ask again: the "
        "room is there."
    ),
    Cause.PINNED_HOST: "Reuse pinned buffers (a pool of fixed size, fewer prefetched batches), or raise the limit of the container.",
    Cause.REAL_SHORTAGE: (
        "Lower what is in use at this moment: the call sites with the largest share, a smaller batch, recomputed "
        "activations, or a model that is split over more devices."
    ),
    Cause.SPLIT: "Allocate what lives long before what lives short, so that it pins no segments.",
    Cause.OTHER_PROCESS: "Look with {names.look_at_device} who uses the device, and end it or choose another device.",
    Cause.OUTSIDE_FRAMEWORK: (
        "Look at the memory of the driver by module and call site: buffers of collectives, workspaces, or blocks that the "
        "program takes from the runtime itself and keeps."
    ),
    Cause.LIMIT: "Raise or remove the limit, or lower what is in use at this moment.",
    Cause.UNKNOWN: "Record with memory of the driver (--device={names.word}, --events=alloc,free) and look at what is missing below.",
}
_EXPANDABLE: Final = "expandable_segments:True"
_REPLAYED: Final = "replayed with it, the request is served."
_NO_SETTING: Final = "No setting of the allocator that was replayed closes the gaps."
_ADVICE_IN_PIECES: Final = "Segments are expandable already: allocate what lives long before what lives short, so that fewer pieces are pinned."
_ADVICE_UNEXPLAINED: Final = (
    "Compare with {names.look_at_device} while the program runs; look whether streams keep memory of their own, and whether a quota "
    "of a container or virtual device is smaller than the device."
)
