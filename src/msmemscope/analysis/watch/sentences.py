"""Sentences about watched memory: one per change that is not legitimate, and the bytes that were looked at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.watch.similar_operators import similar_operators
from msmemscope.model.devices import device_name
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_MOST_RANGES: Final = 4
"""Ranges of bytes that a sentence lists."""
_WIDEST_GAP: Final = 128
"""A change can begin so many bytes behind the end of a block and still be a write over that end. Allocators keep so
many bytes between two blocks.
"""
_COVERAGE: Final = "watch.coverage"
"""The fact that says how much automatic watching has looked at."""
_FIGURES: Final = frozenset(
    {"operators", "operators_with_all_blocks", "bytes", "most_bytes_at_once", "rounds", "budget"}
)
"""Its keys, each with a whole number."""
_NUMBER: Final = re.compile("[0-9]{1,18}")
_FILES_ENDED: Final = "watch.files_ended"
"""The fact that says why, and after how many bytes, no more files of watched memory were written."""
_TORCH_OPERATORS: Final = "torch._ops."


_NOUN: Final = pl.when(pl.col("watch") == "tensor").then(pl.lit("tensor")).otherwise(pl.lit("memory"))


def short_operator(name: str) -> str:
    """Return the name of an operator, for people."""
    return name.removeprefix(_TORCH_OPERATORS)


def change_sentences(changes: pl.DataFrame) -> pl.Series:
    """Write the sentence of each of some changes.

    Whole columns at once: a wrong write in a loop makes a million changes.

    Args:
        changes: The columns of `verdict.WATCH_CHANGE_SCHEMA`, without the sentence; `ranges` and `has_more_ranges` as
            in `recording.schema.ATTRIBUTE_SCHEMA`.
    """
    texts = changes.with_columns(
        _texts(changes["size"].fill_null(0), format_bytes).alias("size_text"),
        _texts(changes["device"], device_name).alias("device_text"),
        _texts(changes["address"], hex).alias("address_text"),
        _texts(changes["granularity"].fill_null(1), format_bytes).alias("granularity_text"),
        _texts(changes["concurrent"].fill_null(0), format_count).alias("concurrent_text"),
        _texts(changes["neighbour_size"].fill_null(0), format_bytes).alias("neighbour_size_text"),
        _texts(changes["neighbour_address"], hex).alias("neighbour_address_text"),
    )
    sentence = pl.concat_str(
        _subject(), pl.lit(" "), _event(), pl.lit(": "), _bytes_text(), _neighbour(), _more(), _concurrent()
    )
    return texts.select(sentence.alias("sentence")).to_series()


def declared_write_sentences(writes: pl.DataFrame) -> pl.Series:
    """Say who wrote watched memory through operators that declare it.

    Args:
        writes: `watch`, `name`, `device`, `size`, `writes`, `operator` and `call`, as in
            `declared_writes.DECLARED_WRITE_SCHEMA`.
    """
    texts = writes.with_columns(
        _texts(writes["size"].fill_null(0), format_bytes).alias("size_text"),
        _texts(writes["device"], device_name).alias("device_text"),
        _texts(writes["writes"], format_count).alias("writes_text"),
    )
    called = _called("operator", "call")
    written = (
        pl.when(pl.col("writes") == 1)
        .then(pl.format("was written by {}, which may write it", called))
        .otherwise(pl.format("was written {} times, last by {}, which may write it", "writes_text", called))
    )
    subject = pl.format("{} `{}` ({} on {})", _NOUN, "name", "size_text", "device_text")
    return texts.select(pl.concat_str(subject, pl.lit(" "), written).alias("sentence")).to_series()


def _texts(values: pl.Series, text: Callable[[int], str]) -> pl.Series:
    """Write numbers as text, each different one once."""
    different = values.drop_nulls().unique()
    texts: pl.Series = values.replace_strict(different, [text(value) for value in different], return_dtype=pl.String)
    return texts


def _event() -> pl.Expr:
    called = _called("operator", "call")
    since = _called("previous", "previous_call")
    return (
        pl.when(pl.col("when") == "between")
        .then(_between(called, since))
        .when("is_beside")
        .then(pl.format("was written by {} beside what that may write, such as in its padding", called))
        .when(pl.col("verdict") == "unknown")
        .then(pl.format("changed during {}, which may or may not write there", called))
        .when(~pl.col("is_exact"))
        .then(pl.format("changed at some time from {} on, and was found changed during {}", since, called))
        .otherwise(pl.format("changed during {}, which does not list it among its outputs", called))
    )


def _between(called: pl.Expr, since: pl.Expr) -> pl.Expr:
    kind = pl.when(pl.col("source") == "kernel").then(pl.lit("kernel")).otherwise(pl.lit("operator"))
    return (
        pl.when(~pl.col("is_exact"))
        .then(pl.format("changed at some time from {} on, and was found changed before {}", since, called))
        .when(pl.col("previous").is_null())
        .then(pl.format("changed outside of any {}, before {}", kind, called))
        .when(pl.col("operator").is_null())
        .then(pl.format("changed outside of any {}, after {}", kind, since))
        .otherwise(pl.format("changed outside of any {}, between {} and {}", kind, since, called))
    )


def _called(operator: str, call: str) -> pl.Expr:
    name = _short(operator)
    return (
        pl.when(name.is_null())
        .then(pl.lit("an unknown operator"))
        .when(pl.col(call).is_null())
        .then(name)
        .otherwise(pl.format("{} (call {})", name, call))
    )


def _short(operator: str) -> pl.Expr:
    return pl.col(operator).str.strip_prefix(_TORCH_OPERATORS)


def _subject() -> pl.Expr:
    size = pl.format("{} on {}", "size_text", "device_text")
    watch = pl.col("watch")
    block_size = pl.format("{}, {}", size, "address_text")
    return (
        pl.when(watch == "tensor")
        .then(pl.format("tensor `{}` ({})", "name", size))
        .when(watch == "window")
        .then(pl.format("output {} of {} ({})", pl.col("output").fill_null(0), _short("name"), size))
        .when(watch == "address")
        .then(pl.format("memory `{}` ({})", "name", size))
        .otherwise(_block("block_operator", "block_site", block_size))
    )


def _block(operator: str, site: str, size: pl.Expr) -> pl.Expr:
    by = pl.when(pl.col(operator) != "").then(pl.format(" of {}", _short(operator)))
    # Without its folders, which fill lines; the columns have them.
    at = pl.when(pl.col(site) != "").then(pl.format(", allocated at {}", pl.col(site).str.replace("(?s)^.*/", "")))
    return pl.format("block{} ({}{})", by.fill_null(""), size, at.fill_null(""))


def _bytes_text() -> pl.Expr:
    all_of_it = pl.format("{}..{}", pl.col("first").fill_null(0), pl.col("last").fill_null(0))
    count = pl.col("ranges").list.len().fill_null(0)
    shown = pl.when(count > 0).then(_joined(pl.col("ranges").list.head(_MOST_RANGES), "..", ", "))
    is_more = (count > _MOST_RANGES) | ((count > 0) & pl.col("has_more_ranges"))
    more = pl.when(is_more).then(pl.format(" and more, up to {}", "last")).fill_null("")
    coarse = pl.when(pl.col("granularity") > 1).then(pl.format(" (known to {})", "granularity_text")).fill_null("")
    return pl.format("bytes {}{}{}", shown.fill_null(all_of_it), more, coarse)


def range_texts() -> pl.Expr:
    """Return the ranges of bytes that differ as texts, `0-63,128-191`, with `,...` behind them where there are more."""
    more = pl.when("has_more_ranges").then(pl.lit(",...")).otherwise(pl.lit(""))
    return pl.concat_str(_joined(pl.col("ranges"), "-", ","), more)


def _joined(ranges: pl.Expr, between_ends: str, between_ranges: str) -> pl.Expr:
    """Return lists of ranges as texts; each different list is a few numbers."""
    ends = (pl.element().struct.field(name).cast(pl.String) for name in ("first", "last"))
    return ranges.list.eval(pl.concat_str(ends, separator=between_ends)).list.join(between_ranges)


def _neighbour() -> pl.Expr:
    end = (pl.col("neighbour_address") + pl.col("neighbour_size").fill_null(0).cast(pl.UInt64, strict=False)).cast(
        pl.Int64, strict=False
    )
    distance = pl.col("address").cast(pl.Int64, strict=False) + pl.col("first").fill_null(0) - end
    is_likely = (distance <= _WIDEST_GAP) & pl.col("neighbour_is_written") & ~pl.col("is_beside")
    size = pl.format("{}, {}", "neighbour_size_text", "neighbour_address_text")
    block = _block("neighbour_operator", "neighbour_site", size)
    likely = pl.format("; likely it ran over the end of what it writes, the {} right before", block)
    return pl.when(is_likely).then(likely).fill_null("")


def _more() -> pl.Expr:
    count = pl.col("more_blocks")
    noun = pl.when(count == 1).then(pl.lit("block")).otherwise(pl.lit("blocks"))
    return (
        pl.when(count > 0).then(pl.format("; the same write reached {} more {} behind it", count, noun)).fill_null("")
    )


def _concurrent() -> pl.Expr:
    count = pl.col("concurrent")
    noun = pl.when(count == 1).then(pl.lit("operator")).otherwise(pl.lit("operators"))
    return pl.when(count > 0).then(pl.format("; {} other {} ran at that time", "concurrent_text", noun)).fill_null("")


def coverage_sentences(facts: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Say how much automatic watching has looked at.

    Args:
        facts: Those of a capture.

    Returns:
        Nothing if memory was not watched automatically.
    """
    settings = facts.get("setting.watch", ())
    was_automatic = any(setting.split(",")[0] == "auto" for setting in settings)
    figures = _figures(facts[_COVERAGE][-1]) if _COVERAGE in facts else None
    if figures is None:
        if not was_automatic:
            return ()
        return ("Automatic watching: how much it looked at is not known, no operator ran or the process was ended.",)
    operators, whole = figures["operators"], figures["operators_with_all_blocks"]
    looked = f"{format_bytes(figures['bytes'])} in all, at most {format_bytes(figures['most_bytes_at_once'])} at once"
    if operators == whole:
        each = f"before each of {format_count(operators)} operators"
        return (f"Automatic watching: all live blocks were looked at {each} ({looked}).",)
    rounds = f"{format_count(figures['rounds'])} times in full"
    sentence = (
        f"Automatic watching: all live blocks were looked at before {format_count(whole)} of "
        f"{format_count(operators)} operators ({looked}). Before the others blocks took turns, {rounds}: a "
        f"change can be found some operators later. A larger --watch-budget (now {format_bytes(figures['budget'])}) "
        "looks at more."
    )
    return (sentence,)


def _figures(text: str) -> dict[str, int] | None:
    """Read the figures of the coverage; None if they are damaged."""
    pairs = (part.partition("=") for part in text.split(","))
    figures = {key: int(value) for key, _, value in pairs if _NUMBER.fullmatch(value)}
    return figures if figures.keys() >= _FIGURES else None


def window_sentences(starts: Iterable[str], ran: Iterable[str]) -> tuple[str, ...]:
    """Say which windows of `--watch` never began.

    Args:
        starts: The operators that should have opened them.
        ran: Names of the operators and kernels that ran, as far as they were recorded.
    """
    known = tuple(ran)
    sentences = []
    for start in starts:
        similar = similar_operators(start, known)
        more = f"; what did run: {', '.join(map(short_operator, similar))}" if similar else ""
        sentences.append(f"{short_operator(start)} never ran: none of its outputs was watched{more}.")
    return tuple(sentences)


def files_sentences(facts: Mapping[str, tuple[str, ...]], process_id: int) -> tuple[str, ...]:
    """Say that files of watched memory are not complete.

    Args:
        facts: Those of a capture.
        process_id: The process; a forked child has its parent's facts, whose files are none of its own.

    Returns:
        Nothing if they are complete, or if there are none.
    """
    sentences = []
    for text in facts.get(_FILES_ENDED, ()):
        process, written, reason, *_ = (*(part.partition("=")[2] for part in text.split(",", 2)), "", "", "")
        if process == str(process_id) and _NUMBER.fullmatch(written):
            sentences.append(
                f"Files of watched memory are incomplete: nothing more was written after "
                f"{format_bytes(int(written))} ({reason})."
            )
    return tuple(sentences)
