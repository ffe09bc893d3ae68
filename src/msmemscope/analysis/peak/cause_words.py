"""The words of causes: their names, the sentence with the figures that decided, the remedy, the next command."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.peak.memory_sum import least_of
from msmemscope.model.devices import device_name, names_of
from msmemscope.model.holders import AUTOGRAD_GRAPH, HELD_BY_C
from msmemscope.recording.failed_allocations import is_in_pieces
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from msmemscope.analysis.peak.candidates import Candidate
    from msmemscope.analysis.peak.comparison import StepComparison
    from msmemscope.analysis.peak.figures import MemoryFigures


class Remedy(str, Enum):
    """The remedy."""

    RELEASE_KEPT = "release what steps keep"
    LEAVE_EXCEPTION = "retry behind the except clause"
    COLLECT_GARBAGE = "break the cycle or collect garbage"
    RELEASE_MODEL = "release the other model first"
    BOUND_CACHE = "bound the cache"
    SMALLER_BATCH = "lower the batch"
    FEWER_BLOCKS = "free what earlier steps freed"
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
    SMALLER_BLOCK = "ask for less at once"
    RECORD_MORE = "record what is missing"


class Cause(str, Enum):
    """Why memory ran out, the usual remedy, and the question that shows more. `cause` decides between them."""

    remedy: Remedy
    question: str

    def __new__(cls, word: str, remedy: Remedy = Remedy.RECORD_MORE, question: str = "peak") -> Self:
        """Make a cause whose value is its word."""
        cause = str.__new__(cls, word)
        cause._value_, cause.remedy, cause.question = word, remedy, question
        return cause

    LEAK = "leak", Remedy.RELEASE_KEPT, "leaks"
    KEPT = "kept by the program", Remedy.RELEASE_KEPT
    FAILED_ATTEMPT = "kept by an exception", Remedy.LEAVE_EXCEPTION
    CYCLES = "reference cycles", Remedy.COLLECT_GARBAGE, "leaks"
    KV_CACHE = "KV cache", Remedy.BOUND_CACHE, "growth"
    BOUNDED = "bounded container", Remedy.BOUND_CACHE
    BATCH_JUMP = "batch jump", Remedy.SMALLER_BATCH
    MORE_BLOCKS = "more blocks than before", Remedy.FEWER_BLOCKS
    OPTIMIZER_STATE = "optimizer state", Remedy.LIGHTER_OPTIMIZER, "decompose"
    CHECKPOINT = "checkpoint", Remedy.CHECKPOINT_ON_HOST
    WORKSPACE = "workspace", Remedy.SMALLER_WORKSPACE
    MODEL_TOO_LARGE = "model too large", Remedy.SPLIT_MODEL, "decompose"
    SECOND_MODEL = "second model", Remedy.RELEASE_MODEL
    SPLIT = "fragmentation by splitting", Remedy.EXPANDABLE_SEGMENTS
    PINNED_SEGMENTS = "fragmentation by pinning", Remedy.LONG_LIVED_FIRST
    OTHER_STREAM = "memory of another stream", Remedy.ONE_STREAM
    NOT_SEARCHED = "room that was not looked for", Remedy.ASK_AGAIN
    RESERVED_BY_POOL = "reserved by the pool", Remedy.EMPTY_CACHE
    LIMIT = "configured limit", Remedy.RAISE_LIMIT
    OTHER_PROCESS = "other process", Remedy.FREE_DEVICE
    OUTSIDE_FRAMEWORK = "growth outside the framework", Remedy.LOOK_AT_DRIVER, "decompose"
    OUTSIDE_POOL = "memory outside of the pool", Remedy.FREE_DEVICE
    PINNED_HOST = "pinned host memory", Remedy.REUSE_PINNED
    ONE_BLOCK = "one large block", Remedy.SMALLER_BLOCK
    REAL_SHORTAGE = "real shortage", Remedy.USE_LESS
    UNKNOWN = "unknown"


FRAGMENTATION: Final = (Cause.SPLIT, Cause.PINNED_SEGMENTS, Cause.OTHER_STREAM)
"""Causes that are none where the gaps are closed."""
OF_KEPT: Final = (Cause.LEAK, Cause.KEPT, Cause.FAILED_ATTEMPT, Cause.CYCLES, Cause.KV_CACHE)
"""Causes that are memory of live holders."""
OF_THE_ALLOCATOR: Final = (*FRAGMENTATION, Cause.NOT_SEARCHED)
"""Causes that lie in how the caching allocator came to refuse."""
_UNSIZED_RESTS: Final = (Cause.LIMIT, Cause.REAL_SHORTAGE, Cause.UNKNOWN)
RESTS: Final = (*_UNSIZED_RESTS, Cause.ONE_BLOCK)
"""The remaining causes where no single candidate is enough: they are not listed behind one that is."""
_WITHOUT_BYTES: Final = frozenset({*OF_THE_ALLOCATOR, *_UNSIZED_RESTS, Cause.PINNED_HOST})
"""Causes whose bytes do not belong into their first line."""

_SENTENCES: Final[dict[Cause, str]] = {
    Cause.LEAK: "Leak: {size}{blocks} were kept by steps that had ended, more with each step{share}{needed}.",
    Cause.KEPT: "Kept: the program had collected {size}{blocks} that no step needs{share}{needed}.",
    Cause.FAILED_ATTEMPT: "An exception keeps the variables of a failed attempt: {size}{blocks}{share}{needed}.",
    Cause.CYCLES: "Reference cycles: {size}{blocks} wait for the garbage collector{share}{needed}.",
    Cause.KV_CACHE: "KV cache: caches grew by {size} over the steps that had ended{needed}.",
    Cause.BOUNDED: "Bounded container: {size}{blocks} are entries of one that the program bounds{share}.",
    Cause.BATCH_JUMP: "Batch jump: {size} more than the same lines had asked for before{needed}.",
    Cause.MORE_BLOCKS: (
        "More blocks than before: {size} more than an earlier step ever had, in blocks that are mostly no larger{needed}."
    ),
    Cause.OPTIMIZER_STATE: "Optimizer state: the first step of the optimizer takes {size}{needed}.",
    Cause.CHECKPOINT: "Checkpoint: copies for a checkpoint take {size} beside what they copy{needed}.",
    Cause.WORKSPACE: "Workspace: an operator asked for {size} more of workspace than any before it{needed}.",
    Cause.MODEL_TOO_LARGE: "Model too large: weights and buffers alone come to {size}{needed}.",
    Cause.SECOND_MODEL: "Second model: another model beside this one has {size}{needed}.",
    **dict.fromkeys(
        (Cause.SPLIT, Cause.PINNED_SEGMENTS),
        "Fragmentation: {slack} of the {reserved} that the pool held were free, {room}enough for {request}, but {largest}.",
    ),
    Cause.OTHER_STREAM: (
        "Memory of another stream: a gap of {largest_gap} in the pool's reserve would have held {request}, but was not used: gaps "
        "serve the stream, or the private pool, that has them alone."
    ),
    Cause.NOT_SEARCHED: (
        "Room that was not looked for: a free block of {overlooked} would have held {request}. It came free while the "
        "allocator made room, and its pool is not searched again then: a known defect of torch's caching allocators "
        "(pytorch issue 189504)."
    ),
    Cause.RESERVED_BY_POOL: (
        "Reserved by the pool: it held {reserved} for {in_use} in use, and {request} came from outside of it, with {free} "
        "free on the device."
    ),
    Cause.LIMIT: (
        "A configured limit: the pool held {held}, and torch itself refused {request} "
        "(set_per_process_memory_fraction){while_free}."
    ),
    Cause.OTHER_PROCESS: (
        "Another process: {other} of the {capacity} of the device were not this process's, and {lacking}."
    ),
    Cause.OUTSIDE_FRAMEWORK: (
        "Growth outside the framework: {outside_growth} of the driver's memory were no pool's{owner}{at_site}, and {lacking}."
    ),
    Cause.OUTSIDE_POOL: (
        "Memory outside of the pool: {at_least}{unattributed} of the {of_device} were neither free ({not_used}) nor the "
        "pool's ({reserved}): another process, or what this one took from the driver itself."
    ),
    Cause.PINNED_HOST: "Pinned host memory: {pinned} of the host were pinned, and {function} refused {request}.",
    Cause.ONE_BLOCK: (
        "One large block: {request} at once and {in_use} in use by {users}{beside} exceed the {capacity} of {place} by "
        "{least}{over}."
    ),
    Cause.REAL_SHORTAGE: (
        "Real shortage: {in_use} in use by {users}{beside}, and {request} exceed the {capacity} of {place} by "
        "{least}{over}{needed}."
    ),
    Cause.UNKNOWN: (
        "The cause is unknown: {request} failed with {in_use} in use by the pools, and nothing says how much the device had."
    ),
}
_SHORT_WITH_GAPS: Final = (
    "Real shortage: {in_use} in use by {users}{beside}, and no gap of the {slack} between them holds {request}{needed}."
)
_JUMP_BEHIND_STEP: Final = "Batch jump: behind step {comparison.good_step} the program had asked for {size} more than that step ever had{needed}."
_JUMP_AT_OPERATOR: Final = (
    "Batch jump: step {comparison.failing_step} had asked for {failing_own} at the operator where step {comparison.good_step} had {good}, "
    "{comparison.ratio:.1f} times as much{needed}."
)
_LIMIT_OF_PROCESS: Final = "A configured limit: the process may have {capacity} ({place})."
_LIMIT_OR_QUOTA: Final = (
    "A configured limit: the pool held {held}, and {request} were refused, while {reported_free} of the device were free: torch "
    "refused them (set_per_process_memory_fraction), or a quota."
)
_LOADED: Final = "Checkpoint: {size} that were loaded are still there beside what was made of them{needed}."
_LOADING: Final = "Checkpoint: what is loaded takes {size} beside what is there already{needed}."
_FILLING: Final = "Bounded container: the entries that it takes come to {size}{needed}."
_GRAPH: Final = "Kept: {size}{blocks} are in a graph that grew, and wait for its backward pass{share}{needed}."
_UNUSED_GAP: Final = (
    "The cause is unknown: a gap of {largest_gap} in the pool's reserve would have held {request}, but was not used: it may belong to "
    "another stream, or to segments for other sizes."
)
_REFUSED_ROOM: Final = (
    "The cause is unknown: {free} of {place} were reported free, and {function} refused {request}: another user whom that "
    "figure leaves out may have had it, or a quota forbids it."
)
_ADVICE_GRAPH: Final = (
    "Let go of the graph: detach() or item() what is kept, and run what needs no backward pass under torch.no_grad()."
)
_ADVICE_OWN_GRAPH: Final = f"{_ADVICE_GRAPH} Where gradients of several batches are summed, call backward() for each."
_ADVICE_OUTSIDE: Final = (
    "Something outside of Python keeps it: torch.autocast keeps converted weights until its context ends (cache_enabled=False), and "
    "libraries have caches of their own."
)
_ADVICE_LOADED: Final = (
    'Let go of the checkpoint once it is loaded (del), or load it to the host: torch.load(..., map_location="cpu").'
)
_ADVICE: Final[dict[Cause, str]] = {
    Cause.KEPT: "Release what is collected: move it to the host (.cpu()), reduce it at once, or bound the container.",
    Cause.FAILED_ATTEMPT: (
        "Try again behind the except clause, not in it. Keep no reference to the exception: its traceback holds the "
        "variables of every function that it passed."
    ),
    Cause.CYCLES: "Break the cycle (a weak reference instead), or call gc.collect() where one piece of work ends.",
    Cause.SECOND_MODEL: "Release the other model before this one is made (del, gc.collect()), or keep one of them on the host.",
    Cause.OUTSIDE_POOL: "Look with {names.look_at_device} who uses the device: another process, or a library in this one.",
    Cause.LEAK: "Release what the line keeps over steps: detach() or item() what is logged, bound lists and caches.",
    Cause.KV_CACHE: (
        "Bound the cache: a shorter context, fewer sequences at once, a paged or quantized cache. If cat() makes it longer, allocate it "
        "once: cat() needs the old and the new one at a time."
    ),
    Cause.BOUNDED: (
        "Lower the bound of the container, keep its entries on the host (.cpu()), or count a full one where the batch is chosen."
    ),
    Cause.BATCH_JUMP: (
        "Lower the batch, or the length of its sequences, to what earlier steps had; or compute it in parts, whose gradients add up."
    ),
    Cause.MORE_BLOCKS: (
        "The batch is not larger. Look for layers that were unfrozen, recomputation or torch.no_grad() that is off, a longer loop, or a "
        "list that is filled."
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
        "Call empty_cache() before the request: cached memory goes back to the driver. No request from outside of the pool "
        "makes it do that."
    ),
    Cause.NOT_SEARCHED: (
        "Synchronize with the streams that use large blocks before more are asked for, or catch the error and ask again: the "
        "room is there."
    ),
    Cause.PINNED_HOST: "Reuse pinned buffers (a pool of fixed size, fewer prefetched batches), or raise the limit of the container.",
    Cause.ONE_BLOCK: (
        "Look at the shape of this tensor: broadcasting, an outer product or one_hot() may make it that large. Compute it in parts, or "
        "call a function that does not make it, such as cdist() or scaled_dot_product_attention()."
    ),
    Cause.REAL_SHORTAGE: (
        "Lower what is in use at this moment: look at the call sites with the largest share. A smaller batch, recomputed "
        "activations, or a model that is split over more devices help."
    ),
    Cause.SPLIT: "Allocate what lives long before what lives short, so that it pins no segments.",
    Cause.OTHER_PROCESS: "Look with {names.look_at_device} who uses the device, and end it or choose another device.",
    Cause.OUTSIDE_FRAMEWORK: (
        "Look at the memory of the driver by module and call site. It may be buffers of collectives, workspaces, or blocks "
        "that the program takes from the runtime itself."
    ),
    Cause.LIMIT: "Raise or remove the limit, or lower what is in use at this moment.",
    Cause.UNKNOWN: "Record with memory of the driver (--device={names.word}, --events=alloc,free) and look at what is missing below.",
}
_EXPANDABLE: Final = "expandable_segments:True"
_SET: Final = "Set {setting}."
_REPLAYED: Final = "Set {setting}: replayed with it, the request is served."
_NO_SETTING: Final = "No setting of the allocator that was replayed closes the gaps."
_ADVICE_IN_PIECES: Final = "Segments are expandable already: allocate what lives long before what lives short, so that fewer pieces are pinned."
_ADVICE_UNEXPLAINED: Final = (
    "Compare with {names.look_at_device} while the program runs; look whether streams keep memory of their own, and whether a quota "
    "of a container or virtual device is smaller than the device."
)
_MISSING: Final = {
    "free_bytes": "how much of {where} was in use: neither a snapshot of the failure nor the management interface says",
    "reserved_bytes": "what the pools held of {where}: fragmentation is not distinguished from other causes",
    "process_bytes": "what this process held of {where}: other processes are not distinguished from it",
    "outside_bytes": "memory of the driver of {where}: it was not observed, growth outside the framework is not seen",
}
"""The sentences about figures that are not known; of a host, only the first."""


def _as_it_is(site: str) -> str:
    return site


def verdict_of(
    first: Candidate,
    figures: MemoryFigures,
    step: int,
    shown_site: Callable[[str], str] = _as_it_is,
    *,
    later_steps: int = 0,
    is_handled: bool = False,
) -> str:
    """Write one line: the function that failed, why, in which step, the holder, the line, and whether the program went on.

    Args:
        first: The cause.
        figures: Of the failure.
        step: That failed; 0 for none.
        shown_site: Writes a line as it is to be shown.
        later_steps: Steps that ended after this one.
        is_handled: Whether the program went on after the failure.
    """
    # Without the device's size, the memory of others is known to the low side.
    least = "at least " if first.cause is Cause.OUTSIDE_POOL and figures.capacity_bytes is None else ""
    freed = "" if first.cause in _WITHOUT_BYTES else f", {least}{format_bytes(first.freed_bytes)}{_blocks(first)}"
    where = ""
    if first.cause in FRAGMENTATION:
        freed = f", {format_bytes(first.freed_bytes)} in gaps"
        # The line of the cause is that of the holder of the gaps.
        where = _at(figures.request_site if figures.request_site != first.site else "", shown_site)
    in_step = f" in step {step}" if step else ""
    after = f", later steps: {format_count(later_steps)}" if later_steps else ""
    handled = f"; handled{after}" if is_handled else ""
    return (
        f"out of memory on {device_name(figures.device)}{in_step}: {first.cause.value}{freed}{_at(first.site, shown_site)}"
        f"{_held(first)} ({least_of(figures)}{format_bytes(figures.request_bytes)} refused{where}{handled})"
    )


def others_of(
    candidates: Sequence[Candidate], figures: MemoryFigures, shown_site: Callable[[str], str] = _as_it_is
) -> tuple[str, ...]:
    """Write a sentence for each candidate behind the first; arguments as for `verdict_of`."""
    return tuple(
        f"{place}. {one.cause.value}: {format_bytes(one.freed_bytes)}{_blocks(one)}{_share(one, figures)}"
        f"{',' if one.site else ''}{_at(one.site, shown_site)}{_held(one)}; {'enough' if one.is_enough else 'not enough'} alone"
        for place, one in enumerate(candidates[1:], 2)
    )


def _at(site: str, shown_site: Callable[[str], str]) -> str:
    return f" at {shown_site(site)}" if site else ""


def _held(one: Candidate) -> str:
    return f", held by {one.held_by}" if one.held_by else ""


def _blocks(one: Candidate) -> str:
    return f" in {one.block_count} blocks" if one.block_count > 1 else ""


def _share(one: Candidate, figures: MemoryFigures) -> str:
    if one.cause in _WITHOUT_BYTES or not figures.in_use_bytes or one.freed_bytes > figures.in_use_bytes:
        return ""
    return f" ({100 * one.freed_bytes / figures.in_use_bytes:.0f} % of what was in use)"


def sentence_of(first: Candidate, figures: MemoryFigures, comparison: StepComparison | None) -> str:
    """Write the cause with the figures that decided it."""
    sentence = _SENTENCES[first.cause]
    if first.cause is Cause.BATCH_JUMP and comparison is not None:
        sentence = _JUMP_AT_OPERATOR if comparison.is_same_operator else _JUMP_BEHIND_STEP
    elif first.is_loaded:
        sentence = _LOADED if first.held_by else _LOADING
    elif first.cause is Cause.BOUNDED and not first.block_count:
        sentence = _FILLING
    elif first.cause is Cause.KEPT and first.held_by.endswith(AUTOGRAD_GRAPH):
        sentence = _GRAPH
    elif first.cause is Cause.LIMIT and figures.limit:
        sentence = _LIMIT_OF_PROCESS
    elif first.cause is Cause.LIMIT and figures.is_refused_with_room:
        sentence = _LIMIT_OR_QUOTA
    elif first.cause is Cause.REAL_SHORTAGE and _over(figures) <= 0:
        sentence = _SHORT_WITH_GAPS
    elif first.cause is Cause.UNKNOWN and (figures.largest_gap_bytes or -1) >= figures.request_bytes:
        sentence = _UNUSED_GAP
    elif first.cause is Cause.UNKNOWN and figures.free_bytes is not None:
        sentence = _REFUSED_ROOM
    phrases = {**_amounts(comparison), **_amounts(figures), **_clauses(first, figures)}
    return sentence.format(**phrases, comparison=comparison)


def _over(figures: MemoryFigures) -> int:
    """Return by how much the bytes in use and the request exceed the device, whatever else the step needs."""
    missing = figures.missing_bytes or 0
    return missing - figures.more_bytes + figures.request_bytes


def _amounts(source: MemoryFigures | StepComparison | None) -> dict[str, str]:
    """Return everything that is in bytes: `slack_bytes` is `slack`; 0 where it is not known."""
    names = [name for name in dir(source) if name.endswith("_bytes")]
    return {name.removesuffix("_bytes"): format_bytes(getattr(source, name) or 0) for name in names}


def _clauses(first: Candidate, figures: MemoryFigures) -> dict[str, str]:
    """Return the parts of sentences that depend on the known figures."""
    request, gap, missing = figures.request_bytes, figures.largest_gap_bytes, figures.missing_bytes or 0
    least, free, asked = (
        least_of(figures),
        format_bytes(figures.free_bytes or 0),
        f"the {format_bytes(request)} asked for",
    )
    # Where the room is there, in gaps that nothing closes, the device lacks the surplus of the request.
    lacking = missing if missing > 0 else request - (figures.free_bytes or 0)
    beside = (figures.device_used_bytes or 0) - (figures.slack_bytes or 0) - figures.in_use_bytes
    short = f", {format_bytes(missing)} more than there is" if missing > 0 else ""
    # The sum has the bytes in use and those that were asked for.
    is_more = figures.need_bytes > figures.in_use_bytes + request
    needed = f"; the step needs about {format_bytes(figures.need_bytes)} of the pools in full{short}"
    has_size = figures.capacity_bytes is not None
    return {
        "size": format_bytes(first.freed_bytes),
        "blocks": _blocks(first),
        "share": _share(first, figures),
        "least": least,
        "over": format_bytes(_over(figures)),
        "request": f"{least}{asked}",
        "needed": needed if is_more else "",
        "lacking": f"{least}{format_bytes(lacking)} were missing for {asked}",
        "function": figures.function or "the allocator",
        "place": figures.limit or ("the machine" if figures.device < 0 else "the device"),
        "users": "tensors" if figures.device < 0 else "the pools",
        "held": format_bytes(figures.in_use_bytes if figures.reserved_bytes is None else figures.reserved_bytes),
        "beside": f", {format_bytes(beside)} beside them" if beside > 0 else "",
        "while_free": "" if figures.free_bytes is None else f", while {free} of the device were free",
        "room": "" if (figures.slack_bytes or 0) >= request else f"with the {free} free on the device ",
        "largest": "no gap could be used" if gap is None else f"the largest gap was {format_bytes(gap)}",
        "owner": f", mostly {figures.outside_owner}" if figures.outside_owner else "",
        "at_site": _at(figures.outside_site, _as_it_is),
        "at_least": "" if has_size else "at least ",
        "of_device": f"{format_bytes(figures.capacity_bytes or 0)} of the device" if has_size else "device",
        "not_used": free if has_size else format_bytes(figures.reported_free_bytes or 0),
    }


def remedy_of(first: Candidate, figures: MemoryFigures) -> tuple[Remedy, str]:
    """Return the remedy, and write it in one or two sentences."""
    cause, names = first.cause, names_of(figures.device)
    remedy, advice = cause.remedy, _ADVICE[cause]
    if cause in FRAGMENTATION and not _has_setting(first, figures):
        remedy = Remedy.LONG_LIVED_FIRST
        advice = _ADVICE_IN_PIECES if is_in_pieces(figures.function) else f"{_NO_SETTING} {advice}"
    elif cause in FRAGMENTATION:
        is_other = cause is Cause.SPLIT and first.setting not in {None, _EXPANDABLE}
        remedy = Remedy.ALLOCATOR_SETTING if is_other else remedy
        advice = f"{_SET if first.setting is None else _REPLAYED} {advice}"
    elif _is_unexplained(first, figures):
        remedy, advice = Remedy.FREE_DEVICE, _ADVICE_UNEXPLAINED
    elif cause in {Cause.KEPT, Cause.LEAK} and AUTOGRAD_GRAPH in first.held_by:
        advice = _ADVICE_OWN_GRAPH if first.held_by.endswith(AUTOGRAD_GRAPH) and cause is Cause.KEPT else _ADVICE_GRAPH
    elif cause in {Cause.KEPT, Cause.LEAK} and first.held_by == HELD_BY_C:
        advice = _ADVICE_OUTSIDE
    elif first.is_loaded:
        remedy, advice = Remedy.RELEASE_LOADED, _ADVICE_LOADED
    return remedy, advice.format(names=names, setting=_setting(first, figures))


def next_command_of(first: Candidate, figures: MemoryFigures) -> str:
    """Return the command to type next."""
    if first.cause in FRAGMENTATION and _has_setting(first, figures):
        return f"export {_setting(first, figures)}"
    if first.cause in {Cause.OTHER_PROCESS, Cause.OUTSIDE_POOL} or _is_unexplained(first, figures):
        return names_of(figures.device).look_at_device if figures.device >= 0 else ""
    return f"msmemscope analyze {first.cause.question}"


def _has_setting(first: Candidate, figures: MemoryFigures) -> bool:
    """Whether a setting of the allocator may close the gaps."""
    return not is_in_pieces(figures.function) and first.setting != ""


def _setting(first: Candidate, figures: MemoryFigures) -> str:
    return f"{names_of(figures.device).allocator_variable}={first.setting or _EXPANDABLE}"


def _is_unexplained(first: Candidate, figures: MemoryFigures) -> bool:
    """Whether the cause is unknown although nothing is missing."""
    return first.cause is Cause.UNKNOWN and not missing_figures(figures)


def missing_figures(figures: MemoryFigures) -> tuple[str, ...]:
    """Return the unknown figures, one line each."""
    names = list(_MISSING)[: None if figures.device >= 0 else 1]
    where = device_name(figures.device)
    return tuple(_MISSING[name].format(where=where) for name in names if getattr(figures, name) is None)
