"""Why memory ran out: what was asked for, how full the device was, and what was alive at that moment."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.options import QuestionOptions, WholeNumber, option
from msmemscope.analysis.recorded import Need
from msmemscope.model.events import OOM_SNAPSHOT_AFTER_NAME, OOM_SNAPSHOT_NAME, EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.call_sites import stack_frames
from msmemscope.recording.source_lines import source_lines
from msmemscope.recording.timeline import NO_PYTHON_STACK, OUTSIDE_OPERATORS, BlockSet, describe_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msmemscope.recording import Recording

    FindLines = Callable[[pl.Series], pl.DataFrame]
    """From Python stack ids to the lines to blame: `id` (u32), `text`."""

SUBJECT: Final = Subject("Failed allocations", needed=(Need.ALLOCATIONS,), helpful=(Need.STACKS, Need.FAILURES))
ONLY_SNAPSHOTS: Final = (
    "allocations failed, of which there are only the snapshots here (--analysis=oom writes the rest)"
)
_FIGURE: Final = re.compile(r"(\w+):([0-9]{1,18}(?:\.[0-9]{1,18})?)(?![0-9.])")
_SAME_CALL: Final = ("thread_id", "device", "size", "name_id", "python_stack_id", "given_up_before")
"""What the attempts of one allocation have in common."""


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
    }
)
"""One row per failed allocation; the columns are fields of `OutOfMemory`."""


@dataclasses.dataclass(frozen=True)
class OutOfMemoryOptions(QuestionOptions):
    """How much to describe."""

    limit: int = option(5, WholeNumber(1), "operators, lines and blocks listed by name")
    """Operators, source lines and blocks that are listed by name."""
    most_failures: int = option(10, WholeNumber(1), "failures that are described, the latest", is_python_only=True)
    """Failures that are described, the latest ones: a program can go on and fail any number of times."""


@dataclasses.dataclass(frozen=True)
class AliveBlock:
    """One block that was alive when memory ran out."""

    pool: int
    address: int
    size_bytes: int
    allocated_ns: int
    """CLOCK_REALTIME; of a block that is older than the collection, when that began."""
    operator: str
    source_line: str


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
    """What failed: `halMemAlloc`; `torch.npu` if it was a limit of torch's own."""
    size_bytes: int
    """What was asked for."""
    attempts: int
    """How often the function failed; torch_npu gives its cache back after the first time."""
    was_given_up: bool
    """Whether torch said that it had failed for good. False where nobody could say so, as outside of torch."""
    source_line: str
    """The line of the program that asked for it."""
    state: Mapping[str, float]
    """The latest snapshot of it: bytes (`reserved`, `allocated`, `total`, `free`) and percentages (`device_rate`,
    `reserved_rate`), as far as they are known."""
    alive: tuple[AlivePool, ...]
    """What was alive on the device, in the order of the pools' numbers. Blocks of frameworks lie in blocks of the driver
    (HAL), so the two are not to be added up."""
    largest: tuple[AliveBlock, ...]
    """Descending by size. Of the frameworks' pools; of the driver's where there is no other."""
    most_recent: tuple[AliveBlock, ...]
    """The latest first; of the same pools."""


@dataclasses.dataclass(frozen=True)
class OutOfMemoryResult:
    """The allocations of a process that failed for lack of memory."""

    failure_count: int
    """All of them, each with its attempts counted once."""
    failures: tuple[OutOfMemory, ...]
    """Those that are described, in their order."""
    coverage: Coverage = dataclasses.field(default=Coverage(SUBJECT.title))
    """What of this is answered."""

    def to_polars(self) -> pl.DataFrame:
        """Returns FAILURE_SCHEMA: one row per failure that is described."""
        rows = [[getattr(failure, name) for name in FAILURE_SCHEMA] for failure in self.failures]
        return pl.DataFrame(rows, schema=FAILURE_SCHEMA, orient="row")


def analyze_out_of_memory(recording: Recording, options: OutOfMemoryOptions | None = None) -> OutOfMemoryResult:
    """Describe the allocations that failed for lack of memory.

    Args:
        recording: Any. A dump has such events where the analysis `oom` was asked for; an event log always has.
        options: How much to describe.
    """
    chosen = options or OutOfMemoryOptions()
    texts = dict(recording.python_stacks.iter_rows())

    def find_lines(stack_ids: pl.Series) -> pl.DataFrame:
        return source_lines(stack_ids, lambda key: stack_frames(texts.get(key) or ""))

    found = describe_failures(recording.events, recording.blocks, recording.strings, find_lines, chosen)
    return dataclasses.replace(found, coverage=_coverage(recording, found))


def _coverage(recording: Recording, found: OutOfMemoryResult) -> Coverage:
    coverage = coverage_of(SUBJECT, recording)
    if found.failures:
        return dataclasses.replace(coverage, missing=())
    names = recording.strings.filter(pl.col("text").is_in([OOM_SNAPSHOT_NAME, OOM_SNAPSHOT_AFTER_NAME]))["id"]
    is_failure = (pl.col("kind") == EventKind.SNAPSHOT) & pl.col("name_id").is_in(names.implode())
    if coverage.is_answered and not recording.events.filter(is_failure).is_empty():
        return coverage.without_answer([ONLY_SNAPSHOTS])
    return coverage


def describe_failures(
    events: pl.DataFrame,
    blocks: pl.DataFrame,
    strings: pl.DataFrame,
    find_lines: FindLines,
    options: OutOfMemoryOptions,
    modules: pl.DataFrame | None = None,
) -> OutOfMemoryResult:
    """Describe the failures among events, for callers that have no `Recording`.

    Args:
        events: A table of `recording.EVENT_SCHEMA`, in sequence order, with all OOM and SNAPSHOT events.
        blocks: A table of `recording.BLOCK_SCHEMA`.
        strings: A table of `recording.STRING_SCHEMA`: names and attributes of these events.
        find_lines: Finds source lines; asked only about stacks that are shown.
        options: How much to describe.
        modules: As for `analysis.peak.find_peaks`.
    """
    snapshots = events.filter(pl.col("kind") == EventKind.SNAPSHOT).join(
        strings.select(pl.col("id").alias("name_id"), pl.col("text").alias("snapshot")), on="name_id"
    )
    given_up = snapshots.filter(pl.col("snapshot") == OOM_SNAPSHOT_AFTER_NAME)
    failures = _with_attempts(events.filter(pl.col("kind") == EventKind.OOM), given_up)
    surroundings = _Surroundings(blocks, snapshots, dict(strings.iter_rows()), modules)
    described = [
        _describe(row, surroundings, find_lines, options)
        for row in failures.tail(options.most_failures).iter_rows(named=True)
    ]
    return OutOfMemoryResult(failures.height, tuple(described))


class _Surroundings(NamedTuple):
    """What a failure is described with."""

    blocks: pl.DataFrame
    snapshots: pl.DataFrame
    """SNAPSHOT events, with their names as `snapshot`."""
    texts: Mapping[int, str]
    modules: pl.DataFrame | None

    def state_at(self, failure: Mapping[str, int | None]) -> dict[str, float]:
        """Reads the latest snapshot of a failure: inside its attempts, or after them."""
        latest = failure["given_up_at"] or failure["sequence"]
        is_own = (pl.col("device") == failure["device"]) & (pl.col("sequence") <= latest)
        names = [OOM_SNAPSHOT_NAME, OOM_SNAPSHOT_AFTER_NAME]
        found = self.snapshots.filter(is_own & pl.col("snapshot").is_in(names)).tail(1)
        return _figures(self.texts.get(found["attribute_id"][0], "")) if len(found) else {}

    def alive_at(self, failure: Mapping[str, int]) -> pl.DataFrame:
        """Returns the blocks that were alive on the device."""
        sequence = failure["sequence"]
        has_not_ended = pl.col("free_sequence").is_null() | (pl.col("free_sequence") > sequence)
        is_there = (pl.col("malloc_sequence") < sequence) & (pl.col("device") == failure["device"])
        return self.blocks.filter(is_there & has_not_ended)


def _with_attempts(events: pl.DataFrame, given_up: pl.DataFrame) -> pl.DataFrame:
    """Takes the attempts at one allocation together.

    Args:
        events: OOM events, in sequence order.
        given_up: The snapshots with which torch gives an allocation up, in sequence order.

    Returns:
        The last attempt of each, with `attempts`, `first_sequence`, and `given_up_at`: the sequence of the snapshot
        with which it was given up, null if there is none before the next failure on the device.
    """
    ends = given_up.select("device", pl.col("sequence").alias("end"))
    before = ends.with_columns(given_up_before="end", sequence="end").drop("end")
    numbered = events.join_asof(before, on="sequence", by="device", check_sortedness=False).with_columns(
        pl.col("given_up_before").fill_null(0)
    )
    is_new = pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in _SAME_CALL).fill_null(value=True)
    grouped = (
        numbered.with_columns(is_new.cum_sum().alias("call"))
        .group_by("call", maintain_order=True)
        .agg(
            pl.all().last(),
            pl.len().cast(pl.Int64).alias("attempts"),
            pl.col("sequence").first().alias("first_sequence"),
        )
    )
    after = grouped.join_asof(
        ends.with_columns(sequence="end").rename({"end": "given_up_at"}),
        on="sequence",
        by="device",
        strategy="forward",
        check_sortedness=False,
    )
    next_failure = pl.col("first_sequence").shift(-1).over("device")
    is_its_own = next_failure.is_null() | (pl.col("given_up_at") < next_failure)
    return after.with_columns(pl.when(is_its_own).then("given_up_at").alias("given_up_at"))


def _describe(
    failure: Mapping[str, int], surroundings: _Surroundings, find_lines: FindLines, options: OutOfMemoryOptions
) -> OutOfMemory:
    alive = surroundings.alive_at(failure)
    of_frameworks = alive.filter(pl.col("pool") != Pool.HAL)
    single = alive if of_frameworks.is_empty() else of_frameworks
    own_stack = pl.Series("python_stack_id", [failure["python_stack_id"]], dtype=pl.UInt32)
    lines = find_lines(pl.concat([alive["python_stack_id"], own_stack]))
    lines_by_stack = dict(lines.iter_rows())
    return OutOfMemory(
        sequence=failure["sequence"],
        timestamp_ns=failure["timestamp_ns"],
        device=failure["device"],
        thread_id=failure["thread_id"],
        function=surroundings.texts.get(failure["name_id"], ""),
        size_bytes=failure["size"],
        attempts=failure["attempts"],
        was_given_up=failure["given_up_at"] is not None,
        source_line=lines_by_stack.get(failure["python_stack_id"], NO_PYTHON_STACK),
        state=surroundings.state_at(failure),
        alive=tuple(
            AlivePool(pool, describe_blocks(part, lines, options.limit, surroundings.modules))
            for (pool,), part in sorted(alive.partition_by("pool", as_dict=True).items())
        ),
        largest=_listed(single.top_k(options.limit, by=["size", "malloc_sequence"]), ["size"], lines_by_stack),
        most_recent=_listed(single.top_k(options.limit, by="malloc_sequence"), [], lines_by_stack),
    )


def _listed(blocks: pl.DataFrame, order: list[str], lines: Mapping[int, str]) -> tuple[AliveBlock, ...]:
    return tuple(
        AliveBlock(
            pool=row["pool"],
            address=row["address"],
            size_bytes=row["size"],
            allocated_ns=row["allocated_ns"],
            operator=row["name"] or OUTSIDE_OPERATORS,
            source_line=lines.get(row["python_stack_id"], NO_PYTHON_STACK),
        )
        for row in blocks.sort(*order, "malloc_sequence", descending=True).iter_rows(named=True)
    )


def _figures(text: str) -> dict[str, float]:
    """Reads the attributes of a snapshot: whole numbers are bytes, the others percentages."""
    return {key: float(value) if "." in value else int(value) for key, value in _FIGURE.findall(text)}
