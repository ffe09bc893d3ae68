"""The words about allocations that failed for lack of memory: the report on a process, and the section of the summary."""

from __future__ import annotations

import dataclasses
from typing import IO, TYPE_CHECKING, Final

from msmemscope.analysis.peak.cause_words import OF_THE_ALLOCATOR, others_of, sentence_of, verdict_of
from msmemscope.analysis.peak.memory_sum import sum_sentence
from msmemscope.analysis.peak.refusal import refusal_sentences
from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.recording.block_sets import BlockSet, Ranking, Share
from msmemscope.recording.failed_allocations import SnapshotFigures, is_in_pieces
from msmemscope.recording.source_lines import line_and_library
from msmemscope.reports.report_text import HEADING, ReportWriter, counted, short_site
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.analysis.peak.cause import OutOfMemoryCause
    from msmemscope.analysis.peak.out_of_memory import OutOfMemory, OutOfMemoryResult

_MOST_EARLIER: Final = 3
"""Failures before the last one that get a line."""
_NANOSECONDS_PER_SECOND: Final = 1_000_000_000


def render_out_of_memory(
    result: OutOfMemoryResult, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the known facts of each failure that is described.

    Args:
        result: By `analysis.peak.out_of_memory.analyze_out_of_memory`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    if not result.failures:
        writer.line("No allocation failed for lack of memory", HEADING)
        return
    unseen = result.failure_count - len(result.failures)
    if unseen > 0:
        writer.line(f"{format_count(unseen)} earlier failures are not described")
    for number, failure in enumerate(result.failures):
        if number:
            writer.line()
        writer.line(heading(failure, 0), HEADING)
        for sentence in details(failure):
            writer.sentence(sentence)
        for blocks in pools_to_show(failure):
            for heading_of_ranking, ranking in blocks.rankings():
                _ranking(writer, heading_of_ranking, ranking)
        _ranking(writer, "largest blocks", largest_blocks(failure))


def earlier_failures(result: OutOfMemoryResult, start_ns: int) -> Iterator[str]:
    """Write a line for some of the failures before the last one, and one for the rest.

    Args:
        result: All failures of a process.
        start_ns: CLOCK_REALTIME when recording began; 0 if not known.
    """
    shown = result.failures[:-1][-_MOST_EARLIER:]
    unseen = result.failure_count - 1 - len(shown)
    if unseen > 0:
        yield f"{format_count(unseen)} more"
    for failure in shown:
        yield f"{heading(failure, start_ns)}, at {short_site(failure.source_line)}"


def heading(failure: OutOfMemory, start_ns: int) -> str:
    """Write what failed, where and when; arguments as for `earlier_failures`."""
    return f"Out of memory on {device_name(failure.device)}: {asked_for(failure, start_ns)}"


def asked_for(failure: OutOfMemory, start_ns: int) -> str:
    """Write the size that was asked for, and when; arguments as for `earlier_failures`."""
    after = ""
    if start_ns and failure.timestamp_ns >= start_ns:
        after = f", {(failure.timestamp_ns - start_ns) / _NANOSECONDS_PER_SECOND:.2f} s after recording began"
    least = "at least " if is_in_pieces(failure.function) else ""
    return f"{least}{format_bytes(failure.size_bytes)} asked for{after}"


def details(failure: OutOfMemory, *, with_command: bool = True, is_short: bool = False) -> Iterator[str]:
    """Write the sentences about one failure: why, the remedy, who asked, how full the device was, the live blocks.

    Args:
        failure: The failure.
        with_command: Whether to name the command to type next.
        is_short: Whether to leave out sentences that repeat another line:

            - who asked, where the cause names that line
            - how the allocator came to refuse, where that is not the cause
            - the live blocks, where the sum has them
    """
    cause = failure.cause
    in_sum = "" if cause is None else sum_sentence(cause.figures)
    if in_sum or fullness(failure):
        yield in_sum or fullness(failure)
    if cause is not None:
        yield _sentence(cause)
        yield from others_of(cause.candidates, cause.figures, short_site)
        yield cause.advice
        if with_command and cause.next_command:
            yield f"next: {cause.next_command}"
    if cause is None or not is_short or failure.source_line != cause.site:
        times = "" if failure.attempts == 1 else f" {format_count(failure.attempts)} times"
        name = failure.function or "an allocation"
        yield f"{name} failed{times}, called from {short_site(failure.source_line)}"
    if cause is not None and cause.refusal is not None and (cause.cause in OF_THE_ALLOCATOR or not is_short):
        yield from refusal_sentences(cause.refusal, short_site)
    if in_sum and is_short:
        return
    pools = [
        f"{format_bytes(part.blocks.size_bytes)} in {counted(part.blocks.block_count, 'block')} "
        f"({pool_word(part.pool, failure.device)})"
        for part in failure.alive
    ]
    yield f"alive then: {', '.join(pools) or 'nothing that was recorded'}"


def verdict(cause: OutOfMemoryCause) -> str:
    """Write the cause in one clause, with its line as seen from the current directory."""
    return verdict_of(
        cause.candidates[0],
        cause.figures,
        cause.step,
        short_site,
        later_steps=cause.later_steps,
        is_handled=cause.is_handled,
    )


def _sentence(cause: OutOfMemoryCause) -> str:
    figures = dataclasses.replace(cause.figures, outside_site=short_site(cause.figures.outside_site))
    return sentence_of(cause.candidates[0], figures, cause.comparison)


def fullness(failure: OutOfMemory) -> str:
    """Write how full the device was; empty if that is not known."""
    figures = SnapshotFigures(failure.state)
    if figures.free_bytes is None:
        return ""
    if figures.total_bytes is None:
        return f"{format_bytes(figures.free_bytes)} of the device were free"
    sentence = f"{format_bytes(figures.free_bytes)} of {format_bytes(figures.total_bytes)} were free"
    # Of the host, the process's resident memory counts as reserved: tensors that nobody has touched are no part of it.
    if failure.device >= 0 and figures.reserved_bytes is not None and figures.allocated_bytes is not None:
        reserved, allocated = format_bytes(figures.reserved_bytes), format_bytes(figures.allocated_bytes)
        sentence += f"; {reserved} reserved by the framework, {allocated} of it allocated"
    return sentence


def largest_blocks(failure: OutOfMemory) -> Ranking:
    """Return the largest blocks that were alive as a ranking: the line of the program, the size of one, how many."""
    return Ranking(
        tuple(
            Share(line_and_library(block.source_line)[0], block.size_bytes, block.count) for block in failure.largest
        ),
        None,
    )


def pools_to_show(failure: OutOfMemory) -> tuple[BlockSet, ...]:
    """Return the live blocks, by pool: those of frameworks, or the driver's where there is no other."""
    pools = {block.pool for block in failure.largest}
    return tuple(part.blocks for part in failure.alive if part.pool in pools)


def _ranking(writer: ReportWriter, heading: str, ranking: Ranking) -> None:
    writer.table(
        ("size", "blocks", heading),
        [(format_bytes(share.size_bytes), format_count(share.block_count), share.label) for share in ranking.lines()],
    )
