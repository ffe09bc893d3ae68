"""Growth over a whole run, from the moments of its history: also where its events are gone.

The first tenth of the time is set-up, and is left out. Of the moments behind it a series is made for each pool, owner,
line and part of the host's memory. A series grows if all of this holds:

- Mann and Kendall's test says that it rises (`leaks.trends`), with an accepted chance of 0.001. If the gain is
  larger than all that the series varies by around its slope, 0.01 is enough: few moments show a clear rise, too.
- In its latter half it rises at least a quarter as fast as in all: a cache that has filled up is no growth.
- It gained enough bytes. The gain is the time multiplied by Theil and Sen's slope: the median of the slopes between all
  pairs of moments. So a moment at a peak, or one with little in use, hardly counts.

An owner, a line or a container that a moment does not name had nothing in use then. A moment names at most 200 lines of
a pool, so one beyond them counts as nothing, too. A figure of the host, of reserved memory or of the end of a step that is not known is as it
was before.

A moment comes at any place of a step, where activations may be in use or not. As long as steps go on from moment to
moment, a pool is judged by its use at the end of the last one.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage
from msmemscope.analysis.leaks.trends import MOST_POSITIONS, trends
from msmemscope.analysis.options import QuestionOptions, Size, option
from msmemscope.model.devices import DEVICE_NONE, parse_device_name
from msmemscope.recording.run_history import RESIDENT, HistoryKind
from msmemscope.units import SIZE_FORMS, format_span

if TYPE_CHECKING:
    from msmemscope.recording import Recording

TITLE: Final = "History"
NS_PER_HOUR: Final = 3600 * 1_000_000_000
LEAST_MOMENTS: Final = 8
"""Behind the set-up: of fewer, even ones that all rise could do so by chance."""
_SET_UP: Final = 10
"""The first part of the time of so many is left out."""
_SIGNIFICANCE: Final = 0.001
_SIGNIFICANCE_OF_CLEAR: Final = 0.01
_STILL_RISES: Final = 1 / 4
_GO_ON: Final = 3 / 4
"""Of the times between moments, those with a step in them, if steps go on."""
_STAYS_KNOWN: Final = frozenset({HistoryKind.HOST.value, HistoryKind.RESERVED.value, HistoryKind.STEP_END.value})
_KEY: Final = ["kind", "device", "pool", "name"]

SERIES_SCHEMA: Final = pl.Schema(
    {
        "kind": pl.String(),
        "device": pl.Int16(),
        "pool": pl.String(),
        "name": pl.String(),
        "first_bytes": pl.Int64(),
        "last_bytes": pl.Int64(),
        "least_bytes": pl.Int64(),
        "most_bytes": pl.Int64(),
        "gained_bytes": pl.Int64(),
        "bytes_per_hour": pl.Float64(),
        "significance": pl.Float64(),
        "grows": pl.Boolean(),
    }
)
"""One row per series: those that grow first, the most gained bytes first.

kind, device, pool, name: as in `recording.run_history.HISTORY_SCHEMA`.
first_bytes, last_bytes, least_bytes, most_bytes: of the moments behind the set-up.
gained_bytes, bytes_per_hour: by the slope, over the time behind the set-up.
significance: the chance that a series without a trend looks like this or more so.
"""

COURSE_SCHEMA: Final = pl.Schema(
    {"timestamp_ns": pl.Int64(), "kind": pl.String(), "device": pl.Int16(), "pool": pl.String(), "bytes": pl.Int64()}
)
"""One row per moment and pool, or resident memory of the process, also of the set-up; in order of time."""


@dataclasses.dataclass(frozen=True)
class HistoryOptions(QuestionOptions):
    """The limit of growth."""

    minimum_bytes: int = option(1 << 20, Size(1), f"least growth: {SIZE_FORMS}", spelling="--minimum-size")
    """Growth over the whole time below which a series does not count as growing."""


@dataclasses.dataclass(frozen=True)
class HistoryResult:
    """How the memory of a process grew over its run."""

    series: pl.DataFrame
    """SERIES_SCHEMA."""
    course: pl.DataFrame
    """COURSE_SCHEMA."""
    moment_count: int
    """Moments that were looked at, those of the set-up included."""
    judged_ns: int
    """From the first moment behind the set-up to the last one."""
    coverage: Coverage
    """The coverage of the answer."""

    def to_polars(self) -> pl.DataFrame:
        """Return the series."""
        return self.series

    def wholes(self) -> pl.DataFrame:
        """Return the series that have others as their parts: of each pool one, then the resident memory of the process."""
        is_step_end = pl.col("kind") == HistoryKind.STEP_END.value
        wholes = self.series.filter(is_whole()).sort(is_step_end, descending=True, maintain_order=True)
        wholes = wholes.unique(["device", "pool"], keep="first", maintain_order=True)
        return wholes.sort(is_resident(), -pl.col("gained_bytes"), maintain_order=True)

    def growing(self) -> pl.DataFrame:
        """Return the series that grow."""
        return self.series.filter("grows")


def is_whole() -> pl.Expr:
    """Whether a row has others as its parts."""
    return pl.col("kind").is_in([HistoryKind.POOL.value, HistoryKind.STEP_END.value]) | is_resident()


def is_resident() -> pl.Expr:
    """Whether a row is the resident memory of the process."""
    return (pl.col("kind") == HistoryKind.HOST.value) & (pl.col("name") == RESIDENT)


def examine_history(recording: Recording, options: HistoryOptions) -> HistoryResult:
    """Find what grew over the moments of a history.

    Args:
        recording: With a history.
        options: The limit of growth.
    """
    history = recording.history
    rows = _with_devices(history.rows)
    times = rows["timestamp_ns"].unique().sort().to_numpy()
    judged = times[times >= times[0] + (times[-1] - times[0]) // _SET_UP] if len(times) else times
    rows = rows.filter((pl.col("kind") != HistoryKind.STEP_END.value) | _steps_go_on(rows, judged))
    missing = _missing(recording, times, judged)
    limits = []
    if history.unreadable_count:
        limits.append(f"{history.unreadable_count} moments of the history cannot be read")
    return HistoryResult(
        SERIES_SCHEMA.to_frame() if missing else _series(rows, judged, options.minimum_bytes),
        rows.filter(is_whole()).select(COURSE_SCHEMA.names()),
        len(times),
        int(judged[-1] - judged[0]) if len(judged) else 0,
        Coverage(TITLE).without_answer(missing).with_limits(limits),
    )


def _missing(recording: Recording, times: Any, judged: Any) -> list[str]:
    """Say why growth cannot be judged, and what helps."""
    if not len(times):
        if recording.form != "event log":
            return [f"a {recording.form} has no history: give the capture folder"]
        if recording.history.unreadable_count:
            return [f"no moment of the history can be read, of {recording.history.moment_count}"]
        why = (
            "no moment of the run was kept: the launcher does so with --max-size, or with --history=1h, the first one "
            "after 10 minutes; of a program that runs, msmemscope history PID keeps them"
        )
        return [why]
    if len(judged) >= LEAST_MOMENTS:
        return []
    every = f", one each {format_span(int(np.median(np.diff(times))))}" if len(times) > 1 else ""
    why = (
        f"the history has {len(times)} {'moment' if len(times) == 1 else 'moments'}{every}; growth shows from "
        f"{LEAST_MOMENTS} behind the first tenth of the time on: --history=10min keeps them closer together"
    )
    return [why]


def _steps_go_on(rows: pl.DataFrame, judged: Any) -> bool:
    """Whether steps end between nearly all moments: without, the end of the last one says nothing of now."""
    steps = rows.group_by("timestamp_ns").agg(pl.col("step").max().fill_null(0)).sort("timestamp_ns")
    rises = steps.filter(pl.col("timestamp_ns").is_in(judged))["step"].diff().drop_nulls() > 0
    return bool(rises.len()) and int(rises.sum()) >= _GO_ON * rises.len()


def _with_devices(rows: pl.DataFrame) -> pl.DataFrame:
    """Replace the names of devices by their numbers; files may say anything."""
    names = rows["device"].unique().drop_nulls().to_list()
    numbers = {name: found for name in names if (found := parse_device_name(name)) is not None}
    device = pl.col("device").replace_strict(numbers, default=DEVICE_NONE, return_dtype=pl.Int16)
    return rows.with_columns(device.fill_null(DEVICE_NONE), pl.col("kind", "pool", "name").fill_null("")).filter(
        pl.col("bytes").is_not_null(), pl.col("kind").is_in([kind.value for kind in HistoryKind])
    )


def _series(rows: pl.DataFrame, times: Any, minimum_bytes: int) -> pl.DataFrame:
    """Judge each series: SERIES_SCHEMA.

    Args:
        rows: Of all moments.
        times: The moments that are judged, ascending.
        minimum_bytes: The least growth.
    """
    judged = rows.filter(pl.col("timestamp_ns") >= int(times[0]))
    groups = judged.select(_KEY).unique(maintain_order=True).with_row_index("group")
    places = judged.join(groups, on=_KEY, how="left", maintain_order="left")
    values = np.full((groups.height, len(times)), -1, dtype=np.int64)
    column = np.searchsorted(times, places["timestamp_ns"].to_numpy())
    values[places["group"].to_numpy(), column] = places["bytes"].to_numpy().clip(0)
    is_known = groups["kind"].is_in(sorted(_STAYS_KNOWN)).to_numpy()
    values[is_known] = _filled(values[is_known])
    values = values.clip(0)
    # As many as a trend needs, evenly spaced in time.
    wanted = np.linspace(times[0], times[-1], MOST_POSITIONS) if len(times) > MOST_POSITIONS else times
    chosen = np.unique(np.searchsorted(times, wanted).clip(0, len(times) - 1))
    hours = (times[chosen] - times[0]) / NS_PER_HOUR
    slope, significance, grows = _growth(values[:, chosen], hours, minimum_bytes)
    gained = (slope * hours[-1]).round().astype(np.int64)
    grows &= gained >= minimum_bytes
    return (
        groups.with_columns(
            pl.Series("first_bytes", values[:, 0]),
            pl.Series("last_bytes", values[:, -1]),
            pl.Series("least_bytes", values.min(axis=1)),
            pl.Series("most_bytes", values.max(axis=1)),
            pl.Series("gained_bytes", gained),
            pl.Series("bytes_per_hour", slope),
            pl.Series("significance", significance),
            pl.Series("grows", grows),
        )
        .select(SERIES_SCHEMA.names())
        .cast(SERIES_SCHEMA)
        .sort("grows", "gained_bytes", descending=True, maintain_order=True)
    )


def _growth(values: Any, hours: Any, minimum_bytes: int) -> tuple[Any, Any, Any]:
    """Return slope, significance, and whether each series rises to the end; those that change little do not."""
    slope, significance = np.zeros(len(values)), np.ones(len(values))
    grows = np.zeros(len(values), dtype=np.bool_)
    rows = np.flatnonzero(values.max(axis=1) - values.min(axis=1) >= minimum_bytes)
    if len(rows):
        series = values[rows].astype(np.float64)
        found = trends(series, hours)
        half = series.shape[1] // 2
        latter = trends(series[:, half:], hours[half:])
        slope[rows], significance[rows] = found.slope, found.significance
        rest = series - found.slope[:, None] * hours
        is_clear = rest.max(axis=1) - rest.min(axis=1) < found.slope * hours[-1]
        accepted = np.where(is_clear, _SIGNIFICANCE_OF_CLEAR, _SIGNIFICANCE)
        grows[rows] = (found.slope > 0) & (found.significance <= accepted)
        grows[rows] &= latter.slope > _STILL_RISES * found.slope
    return slope, significance, grows


def _filled(values: Any) -> Any:
    """Give places without a figure (-1) that of the place before, or else of the next one."""
    for part in (values, values[:, ::-1]):
        known = np.maximum.accumulate(np.where(part >= 0, np.arange(part.shape[1]), 0), axis=1)
        part[:] = np.take_along_axis(part, known, axis=1)
    return values
