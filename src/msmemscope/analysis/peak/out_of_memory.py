"""Why memory ran out: the request, how full the device was, and the live blocks at that moment."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.options import QuestionOptions, WholeNumber, option
from msmemscope.analysis.peak.cause import OutOfMemoryCause, find_cause
from msmemscope.analysis.recorded import Need
from msmemscope.model.events import (
    ACCESS_KINDS,
    OOM_SNAPSHOT_AFTER_NAME,
    OOM_SNAPSHOT_NAME,
    WATCH_KINDS,
    EventFlag,
    EventKind,
)
from msmemscope.model.pools import Pool
from msmemscope.recording.block_sets import (
    BEFORE_RECORDING,
    NO_PYTHON_STACK,
    OUTSIDE_OPERATORS,
    BlockSet,
    describe_blocks,
)
from msmemscope.recording.call_sites import failing_call_site
from msmemscope.recording.driver_owners import driver_modules
from msmemscope.recording.failed_allocations import SnapshotFigures, failed_attempts, granted_pieces
from msmemscope.recording.source_lines import source_lines
from msmemscope.recording.timeline import blocks_in_use, framework_blocks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from msmemscope.recording import Recording

SUBJECT: Final = Subject("Failed allocations", needed=(Need.ALLOCATIONS,), helpful=(Need.STACKS, Need.FAILURES))
ONLY_SNAPSHOTS: Final = "allocations failed, and only their snapshots are here (--analysis=oom writes the rest)"

FAILURE_KINDS: Final = tuple(
    kind for kind in EventKind if kind not in {*ACCESS_KINDS, *WATCH_KINDS, EventFlag, EventKind.FUNCTION_CALL}
)
"""Kinds of events that the answer is made of: the others can be left out where memory is short."""

FAILURE_SCHEMA: Final = pl.Schema(
    {
        "sequence": pl.UInt64(),
        "timestamp_ns": pl.UInt64(),
        "device": pl.Int16(),
        "thread_id": pl.UInt32(),
        "function": pl.String(),
        "size_bytes": pl.Int64(),
        "attempts": pl.Int64(),
        "was_given_up": pl.Boolean(),
        "source_line": pl.String(),
        "cause": pl.String(),
        "remedy": pl.String(),
        "verdict": pl.String(),
    }
)
"""One row per failed allocation; the columns are fields of `OutOfMemory`, and of its cause."""


@dataclasses.dataclass(frozen=True)
class OutOfMemoryOptions(QuestionOptions):
    """How much to describe."""

    limit: int = option(5, WholeNumber(1), "operators, lines and blocks listed by name")
    """Operators, source lines and blocks that are listed by name."""
    most_failures: int = option(10, WholeNumber(1), "failures that are described, the latest", is_python_only=True)
    """Failures that are described, the latest ones: a program can go on and fail any number of times."""


@dataclasses.dataclass(frozen=True)
class AliveBlock:
    """One block that was alive when memory ran out. A list by size has the latest of several that are alike."""

    pool: int
    address: int
    size_bytes: int
    allocated_ns: int
    """CLOCK_REALTIME; of a block that is older than the collection, when that began."""
    operator: str
    source_line: str
    count: int = 1
    """Blocks of its pool, size, operator and line, this one included."""


@dataclasses.dataclass(frozen=True)
class AlivePool:
    """The blocks of one pool that were alive when memory ran out."""

    pool: int
    blocks: BlockSet


@dataclasses.dataclass(frozen=True)
class OutOfMemory:
    """One allocation that failed, all attempts of the allocator at it taken together."""

    sequence: int
    """The event of the last attempt, whose moment is described."""
    timestamp_ns: int
    """CLOCK_REALTIME of the last attempt."""
    device: int
    thread_id: int
    function: str
    """The function that failed: `halMemAlloc`; `torch.npu` if it was a limit of torch's own."""
    size_bytes: int
    """The bytes that were asked for; in pieces, the one that failed and those granted before it, a lower bound."""
    attempts: int
    """How often the function failed; torch_npu gives its cache back after the first time."""
    was_given_up: bool
    """Whether torch said that it had failed for good. False where nobody could say so, as outside of torch."""
    source_line: str
    """The line of the program that asked for it; without a Python stack, its native function."""
    state: Mapping[str, float]
    """As `SnapshotFigures.by_name`."""
    alive: tuple[AlivePool, ...]
    """The live blocks on the device, in the order of the pools' numbers. Blocks of frameworks lie in blocks of the
    driver (HAL), so the two are not to be added up.
    """
    largest: tuple[AliveBlock, ...]
    """Descending by size. Of the frameworks' pools; of the driver's where there is no other."""
    most_recent: tuple[AliveBlock, ...]
    """The latest first; of the same pools."""
    cause: OutOfMemoryCause | None = None
    """Why; of the first failure on each device and of the last, None of those between them."""


@dataclasses.dataclass(frozen=True)
class OutOfMemoryResult:
    """The allocations of a process that failed for lack of memory."""

    failure_count: int
    """All of them, each with its attempts counted once."""
    failures: tuple[OutOfMemory, ...]
    """Those that are described, in their order."""
    coverage: Coverage = dataclasses.field(default=Coverage(SUBJECT.title))
    """The coverage of the answer."""

    def to_polars(self) -> pl.DataFrame:
        """Return FAILURE_SCHEMA: one row per failure that is described."""
        rows = []
        for failure in self.failures:
            cause = failure.cause
            texts = {} if cause is None else {**vars(cause), "cause": cause.cause.value, "remedy": cause.remedy.value}
            values = {**vars(failure), "cause": None, **texts}
            rows.append([values.get(name) for name in FAILURE_SCHEMA])
        return pl.DataFrame(rows, FAILURE_SCHEMA, orient="row")


def analyze_out_of_memory(recording: Recording, options: OutOfMemoryOptions | None = None) -> OutOfMemoryResult:
    """Describe the allocations that failed for lack of memory.

    Args:
        recording: Any. A dump has such events where the analysis `oom` was asked for; an event log always has.
        options: How much to describe.
    """
    chosen = options or OutOfMemoryOptions()
    calls = _failed_calls(recording)
    described = calls.tail(chosen.most_failures).iter_rows(named=True)
    # A program that tries smaller and smaller batches fails first for the reason that counts.
    ends = pl.concat([calls.unique("device", keep=which) for which in ("first", "last")])["sequence"].to_list()
    found = OutOfMemoryResult(calls.height, tuple(_describe(recording, row, chosen, ends) for row in described))
    return dataclasses.replace(found, coverage=_coverage(recording, found))


def _coverage(recording: Recording, found: OutOfMemoryResult) -> Coverage:
    coverage = coverage_of(SUBJECT, recording)
    if found.failures:
        return dataclasses.replace(coverage, missing=())
    names = recording.strings.filter(pl.col("text").is_in([OOM_SNAPSHOT_NAME, OOM_SNAPSHOT_AFTER_NAME]))["id"]
    is_failure = (pl.col("kind") == EventKind.SNAPSHOT) & pl.col("name_id").is_in(names.implode())
    # Failures that a later attempt served have snapshots, too.
    is_known = not failed_attempts(recording).is_empty()
    if coverage.is_answered and not is_known and not recording.events.filter(is_failure).is_empty():
        return coverage.without_answer([ONLY_SNAPSHOTS])
    return coverage


def _failed_calls(recording: Recording) -> pl.DataFrame:
    """Return the last attempt at each allocation that failed."""
    return failed_attempts(recording).filter(~pl.col("is_served")).unique("call", keep="last", maintain_order=True)


def _describe(
    recording: Recording, failure: Mapping[str, Any], options: OutOfMemoryOptions, explained: Collection[int]
) -> OutOfMemory:
    alive = blocks_in_use(recording.blocks.filter(pl.col("device") == failure["device"]), failure["sequence"])
    granted = granted_pieces(recording, failure, alive.filter(pl.col("pool") == Pool.HAL))
    stacks = alive["python_stack_id"].unique()
    lines = source_lines(recording.python_stacks.filter(pl.col("id").is_in(stacks.implode())))
    modules = driver_modules(recording)
    named = (
        framework_blocks(alive).join(lines, left_on="python_stack_id", right_on="id", how="left").with_columns(count=1)
    )
    alike = named.sort("malloc_sequence").group_by("pool", "size", "name", "text")
    return OutOfMemory(
        **{name: failure[name] for name in ("sequence", "timestamp_ns", "device", "thread_id", "function", "attempts")},
        size_bytes=failure["size"] + int(granted["size"].sum()),
        was_given_up=failure["given_up_at"] is not None,
        source_line=failing_call_site(recording, failure)[0] or NO_PYTHON_STACK,
        state=SnapshotFigures.of_failure(recording, failure).by_name,
        alive=tuple(
            AlivePool(pool, describe_blocks(part, lines, options.limit, modules))
            for (pool,), part in sorted(alive.partition_by("pool", as_dict=True).items())
        ),
        largest=_listed(
            alike.agg(pl.exclude("count").last(), count=pl.len()), "size", "malloc_sequence", limit=options.limit
        ),
        most_recent=_listed(named, "malloc_sequence", limit=options.limit),
        cause=find_cause(recording, failure["sequence"]) if failure["sequence"] in explained else None,
    )


def _listed(blocks: pl.DataFrame, *order: str, limit: int) -> tuple[AliveBlock, ...]:
    is_older = pl.col("flags") & int(EventFlag.SHADOW) != 0
    rows = (
        blocks.sort(order, descending=True)
        .head(limit)
        .select(
            *("pool", "address", "allocated_ns", "count"),
            size_bytes="size",
            operator=pl.col("name").fill_null(OUTSIDE_OPERATORS),
            source_line=pl.coalesce("text", pl.when(is_older).then(pl.lit(BEFORE_RECORDING)), pl.lit(NO_PYTHON_STACK)),
        )
    )
    return tuple(AliveBlock(**row) for row in rows.iter_rows(named=True))
