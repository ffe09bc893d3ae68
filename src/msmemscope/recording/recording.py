"""The input of analyses: one process, whatever its facts were read from."""

from __future__ import annotations

import functools
import html
import importlib
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import polars.selectors as cs

from msmemscope.errors import ConfigurationError
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.place import Place
from msmemscope.model.pools import pool_word
from msmemscope.recording.operators import find_operators
from msmemscope.recording.run_history import RunHistory
from msmemscope.recording.schema import ATTRIBUTE_SCHEMA, BLOCK_SCHEMA
from msmemscope.recording.timeline import memory_timeline
from msmemscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RECORDING_BLOCK_SCHEMA: Final = pl.Schema({**BLOCK_SCHEMA, "owner": pl.String()})
"""BLOCK_SCHEMA and one more column.

owner: who a dump says the block belongs to (attribute `owner` of its MALLOC), null if it says nothing. Event logs do
    not have this text: they have the labels that it is made of.
"""

STEP_SCHEMA: Final = pl.Schema(
    {
        "number": pl.Int64(),
        "begin_sequence": pl.UInt64(),
        "end_sequence": pl.UInt64(),
        "device": pl.Int16(),
    }
)
"""One row per step of a program, in the order of their begins. See `Recording.steps`."""

STEP_RANGE_NAME: Final = "step start"
"""Text of an mstx range that is a step."""


class StepSource(str, Enum):
    """Where the steps of a program are taken from; the value is the word for people."""

    CALLS = "msmemscope.step()"
    RANGES = 'mstx ranges "step start"'
    OPTIMIZER = "optimizer.step"
    MODULE = "the outermost module's forward"
    NONE = "none"

    @property
    def is_implied(self) -> bool:
        """Whether the program did not report steps, and they were taken from its behaviour."""
        return self in {StepSource.OPTIMIZER, StepSource.MODULE}

    @property
    def words(self) -> str:
        """The word for its steps, for people: a server has none, and yet each call of its model is taken for one."""
        return "calls of the model" if self is StepSource.MODULE else f"taken from {self.value}"


@dataclass(frozen=True, repr=False)
class Recording:
    """Everything that analyses need of one process, whatever it was read from.

    Facts that an input does not have are absent from the tables (0 or null, as their schemas say).
    """

    source: str
    """The path that was read, for messages."""
    form: str
    """Its format: `event log`, `csv`, `db`, `torch snapshot`."""
    process_id: int
    """The process, 0 if the input does not say."""
    events: pl.DataFrame
    """EVENT_SCHEMA, in sequence order. The sequence numbers of a dump are its IDs."""
    blocks: pl.DataFrame
    """RECORDING_BLOCK_SCHEMA, in MALLOC order."""
    strings: pl.DataFrame
    """STRING_SCHEMA: names, labels and attributes as text, by the ids of `events`; `attributes` has them with types."""
    python_stacks: pl.DataFrame
    """STRING_SCHEMA: `<file>(<line>): <function>` and a line feed per frame, innermost first, by `python_stack_id`."""
    native_stacks: pl.DataFrame
    """STRING_SCHEMA: one frame per line, innermost first, by `native_stack_id`."""
    coverage: tuple[str, ...]
    """The losses before it could be read, one line each. The coverage of an answer says what the answer lacks."""
    problems: tuple[str, ...]
    """The parts that were skipped and why, one line each, with line numbers where there are lines."""
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Notes of the recording about itself, by key (native/FORMAT.md); dumps have those of the place of the process."""
    attributes: pl.DataFrame = field(default_factory=ATTRIBUTE_SCHEMA.to_frame)
    """ATTRIBUTE_SCHEMA: facts of events beyond the columns of `events`, by their `attribute_id`."""

    source_texts: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The text of lines of the program, by file and number, as they were at the end of the run; of those that are known."""
    read_history: Callable[[], RunHistory] = RunHistory
    """Reads `history`, which few questions need."""

    @functools.cached_property
    def history(self) -> RunHistory:
        """The memory in use at moments that were kept; none of inputs that have no history."""
        return self.read_history()

    @functools.cached_property
    def place(self) -> Place:
        """Where the process stands in a distributed job; empty (false) if it is in none, or the input does not say."""
        return Place.from_facts(self.facts)

    @functools.cached_property
    def kind_counts(self) -> Mapping[int, int]:
        """How many events there are of each kind."""
        return dict(self.events["kind"].value_counts().iter_rows())

    @functools.cached_property
    def has_stacks(self) -> bool:
        """Whether any event has a call stack."""
        return any(bool((self.events[name] != 0).any()) for name in ("python_stack_id", "native_stack_id"))

    @functools.cached_property
    def steps(self) -> pl.DataFrame:
        """The steps of the program, a table of STEP_SCHEMA; `step_source` says where they are taken from.

        A program reports steps by `msmemscope.step()` or by mstx ranges named `step start`. Where it did both, the one
        that it used first counts and the other is ignored. A call of `step()` ends the step of its number: it begins
        behind the call before it, the first one with the process. A range is a step of its own device. Ranges are
        counted from 1 over all devices of the process, in the order of their begins. A range within another one of its
        device is part of that step. Ranges that only overlap are steps, each.

        Where a program reports none, steps end where an optimizer has stepped. Without an optimizer they end with the
        forward of the outermost module. Forwards before an optimizer's first step are no steps.

        Both bounds are part of the step. `end_sequence` is null for a range that never ended.
        """
        return self._steps_and_source[1]

    @property
    def step_source(self) -> StepSource:
        """Where `steps` are taken from."""
        return self._steps_and_source[0]

    @functools.cached_property
    def _steps_and_source(self) -> tuple[StepSource, pl.DataFrame]:
        return find_steps(self.events.filter(pl.col("kind").is_in(STEP_KINDS)), self.strings, self.attributes)

    @functools.cached_property
    def operators(self) -> pl.DataFrame:
        """The outermost operators of all threads, in the order in which they began.

        Columns: `name`, `device`, `thread_id`, `begin_sequence`, `end_sequence` (null while it had not ended),
        `begin_ns`.
        """
        found = find_operators(self.events)
        starts = self.events[found.begin_rows].select(
            "name_id", "device", "thread_id", begin_sequence="sequence", begin_ns="timestamp_ns"
        )
        has_ended = pl.Series(found.end_rows < self.events.height)
        ends = self.events["sequence"].gather(np.minimum(found.end_rows, max(self.events.height - 1, 0)))
        names = self.strings.select(name_id="id", name="text")
        return (
            starts.with_columns(end_sequence=pl.select(pl.when(has_ended).then(ends)).to_series())
            .join(names, on="name_id", how="left", maintain_order="left")
            .select("name", "device", "thread_id", "begin_sequence", "end_sequence", "begin_ns")
        )

    def timeline(self, *, pool: str | None = None, device: str | None = None) -> pl.DataFrame:
        """Return how much each pool had in use, and in reserve, after each of its changes.

        Args:
            pool: Its word: `PTA`, `HAL`, `HOST`, `CUDA`; None for all.
            device: Its name: `npu:0`, `cuda:1`, `cpu`; None for all.

        Returns:
            In sequence order: `sequence`, `timestamp_ns`, `device`, `pool` (words), and bytes, null where the recording
            does not say.

            - `in_use_bytes`
            - `requested_bytes`: the part of them that was asked for.
            - `waiting_bytes`: freed while other streams still used them.
            - `reserved_bytes`: the bytes that the pool has from the driver.

        Raises:
            ConfigurationError: If there is no such pool or device here.
        """
        totals = memory_timeline(self)
        pairs = totals.select("device", "pool").unique().sort("device", "pool")
        words = [(*pair, device_name(pair[0]), pool_word(pair[1], pair[0])) for pair in pairs.iter_rows()]
        named = pl.DataFrame(
            words, {**pairs.schema, "device_word": pl.String(), "pool_word": pl.String()}, orient="row"
        )
        totals = totals.join(named, on=["device", "pool"], maintain_order="left").with_columns(
            device="device_word", pool="pool_word"
        )
        for option, chosen in (("pool", pool), ("device", device)):
            if chosen is None:
                continue
            known = totals[option].unique().sort().to_list()
            if chosen not in known:
                message = f"nothing was recorded of this {option}"
                raise ConfigurationError(message, option=option, value=chosen, accepted=", ".join(known) or "none")
            totals = totals.filter(pl.col(option) == chosen)
        times = self.events.select("sequence", "timestamp_ns")
        return totals.join(times, on="sequence", how="left", maintain_order="left").select(
            "sequence", "timestamp_ns", "device", "pool", cs.ends_with("_bytes")
        )

    def ask(self, question: str, **options: Any) -> Any:
        """Ask one of the questions that `msmemscope.list_analyzers()` names; nothing is printed or written.

        Args:
            question: Its name: `leaks`, `peak`, `decompose` ...
            options: See `msmemscope.get_analyzer_config`.

        Returns:
            Its result, a frozen dataclass of tables.

        Raises:
            ConfigurationError: If there is no such question, or a value is not accepted.
            TypeError: If an option is not known.
        """
        # The questions stand above this layer; they are found when one is asked.
        return importlib.import_module("msmemscope.questions").ask(question, self, **options)

    def leaks(self, **options: Any) -> Any:
        """Ask what was never given back: `ask("leaks", ...)`."""
        return self.ask("leaks", **options)

    def peak(self, **options: Any) -> Any:
        """Ask what made the peak: `ask("peak", ...)`."""
        return self.ask("peak", **options)

    def owners(self, **options: Any) -> Any:
        """Ask what memory is made of: `ask("decompose", ...)`."""
        return self.ask("decompose", **options)

    def inefficient(self, **options: Any) -> Any:
        """Ask what is held longer than it is used: `ask("inefficient", ...)`."""
        return self.ask("inefficient", **options)

    def sleep(self, **options: Any) -> Any:
        """Ask what stays in use while memory sleeps: `ask("sleep", ...)`."""
        return self.ask("sleep", **options)

    def replay(
        self, settings: str = "", *, recorded_settings: str | None = None, capacity_bytes: int | None = None
    ) -> Any:
        """Replay the allocations through a model of the caching allocator.

        Args:
            settings: `KEY:VALUE,...` as the environment variable of the allocator has them; by default those that were
                recorded with.
            recorded_settings: With which the recording was made, as far as it does not show them.
            capacity_bytes: The memory of the device for the allocator; None for no limit.

        Returns:
            `devices`, each with what was `recorded` and `replayed`: peaks, segments, retries, the first failure.

        Raises:
            ConfigurationError: If a setting is not accepted.
        """
        # Analyses stand above this layer.
        found = importlib.import_module("msmemscope.analysis.replay.replayed_recording")
        options = found.ReplayOptions(settings, recorded_settings, capacity_bytes)
        return found.replay_recording(self, options)

    def __repr__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._facts()).join(("<Recording ", ">"))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self._facts()
        )
        return f"<table>{rows}</table>"

    def _facts(self) -> list[tuple[str, str]]:
        devices = [device_name(device) for device in sorted(self.blocks["device"].unique())]
        return [
            ("source", self.source),
            ("form", self.form),
            ("process", str(self.process_id)),
            ("devices", ",".join(devices) or "none"),
            ("events", format_count(self.events.height)),
            ("blocks", format_count(self.blocks.height)),
            ("steps", format_count(self.steps.height)),
        ]


_IMPLIED_SOURCES: Final = {"optimizer": StepSource.OPTIMIZER, "module": StepSource.MODULE}
"""The meanings of the attribute `step_source` of the event log, the better one first."""


STEP_KINDS: Final = (EventKind.STEP, EventKind.RANGE_START, EventKind.RANGE_END, EventKind.IMPLIED_STEP)
"""Kinds of the events that steps are made of."""


def find_steps(
    marked: pl.DataFrame, strings: pl.DataFrame, attributes: pl.DataFrame
) -> tuple[StepSource, pl.DataFrame]:
    """Find the steps of a process, see `Recording.steps`.

    Args:
        marked: The events of STEP_KINDS, of EVENT_SCHEMA.
        strings: Of STRING_SCHEMA, at least the names of ranges.
        attributes: Of ATTRIBUTE_SCHEMA, at least those of implied steps.

    Returns:
        Where they are taken from, and a table of STEP_SCHEMA.
    """
    is_step_name = pl.col("text").str.strip_chars('"') == STEP_RANGE_NAME
    names = strings.filter(is_step_name)["id"]
    is_begin = (pl.col("kind") == EventKind.RANGE_START) & pl.col("name_id").is_in(names.implode())
    first = marked.filter((pl.col("kind") == EventKind.STEP) | is_begin).head(1)
    if first.is_empty():
        return _implied_steps(marked, attributes)
    if first["kind"][0] == EventKind.STEP:
        return StepSource.CALLS, _called_steps(marked.filter(pl.col("kind") == EventKind.STEP))
    return StepSource.RANGES, _marked_steps(marked, is_begin)


def _implied_steps(marked: pl.DataFrame, attributes: pl.DataFrame) -> tuple[StepSource, pl.DataFrame]:
    sources = attributes.select("attribute_id", "step_source")
    implied = marked.filter(pl.col("kind") == EventKind.IMPLIED_STEP).join(
        sources, on="attribute_id", how="left", maintain_order="left"
    )
    for word, source in _IMPLIED_SOURCES.items():
        ends = implied.filter(pl.col("step_source") == word)
        if not ends.is_empty():
            return source, _called_steps(ends)
    return StepSource.NONE, STEP_SCHEMA.to_frame()


def _called_steps(marked: pl.DataFrame) -> pl.DataFrame:
    """Return the steps that the events end, each one."""
    return marked.select(
        pl.col("size").alias("number"),
        (pl.col("sequence").shift(1) + 1).fill_null(0).alias("begin_sequence"),
        pl.col("sequence").alias("end_sequence"),
        "device",
    ).cast(STEP_SCHEMA)


def _marked_steps(marked: pl.DataFrame, is_begin: pl.Expr) -> pl.DataFrame:
    """Return the steps of mstx ranges: from a begin to the end of the same range."""
    # `extra` is the number of the range, the same at its begin and its end.
    begins = marked.filter(is_begin).select("sequence", "device", "extra")
    ends = marked.filter(pl.col("kind") == EventKind.RANGE_END).select(
        pl.col("sequence").alias("end_sequence"), "sequence", "extra"
    )
    ranges = begins.join_asof(ends, on="sequence", by="extra", strategy="forward", check_sortedness=False)
    # A range without an end holds nothing: that it lasts until the process ends is the least likely.
    latest_end = pl.col("end_sequence").fill_null(0).cum_max().shift(1).over("device").fill_null(0)
    is_within = (pl.col("sequence") < latest_end) & (pl.col("end_sequence").fill_null(0) < latest_end)
    return (
        ranges.filter(~is_within)
        .with_row_index("number", offset=1)
        .select("number", pl.col("sequence").alias("begin_sequence"), "end_sequence", "device")
        .cast(STEP_SCHEMA)
    )
