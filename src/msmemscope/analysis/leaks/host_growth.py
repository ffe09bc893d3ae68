"""Growth of host memory that tensors do not explain: Python objects, arrays, native libraries, allocators' reserves.

At the end of steps, at most once per millisecond, the process's resident memory that belongs to no file is recorded.
The part of it that the C library keeps though it is free is recorded too. CPU tensors are subtracted. So is memory of
an emulated device, which lies in the process. Memory is judged by its floor: the least in each of some equally long
stretches of steps. A floor that rises from each stretch to the next one is growth. The first stretch is not judged: a
program sets itself up in it. First without the free memory that is kept, then with it: a program that frees all it
takes can still leave gaps. Gaps become more until they fit what is asked for. So over few steps they must grow evenly.

A program without tensors is judged over stretches of its time in the same way. Shared memory is judged by itself: over
steps by the kernel's own figure, else by samples. Each of its lines must go on to make some, and that figure must grow with it.

Samples of allocations name the line that made it, if they explain enough of it. Where steps are too few to tell, or a
program with tensors has none, samples alone can show growth. Then the memory of a line stays, and the line made some in most
stretches of the run, up to near its end. Time in which modules are imported does not count.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from msmemscope.analysis.host.growing_containers import container_behind, container_of_blocks, filling_bytes
from msmemscope.analysis.host.host_figures import (
    begin_of_program,
    blocks_in_process,
    host_figures,
    imports_of_frameworks,
)
from msmemscope.analysis.host.host_samples import HostSamples, HostSite
from msmemscope.analysis.host.touched_later import touched_later_bytes
from msmemscope.model.devices import CPU_WORD
from msmemscope.model.events import EventKind
from msmemscope.recording.source_lines import line_and_library
from msmemscope.recording.step_bounds import WARM_UP_STEPS
from msmemscope.recording.timeline import MemoryUse
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.analysis.host.growing_containers import GrowingContainer
    from msmemscope.recording import Recording

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Places: TypeAlias = "np.ndarray[Any, np.dtype[np.intp]]"

LEAST_HOST_GROWTH_BYTES: Final = 16 << 20
"""Interpreters and allocators of the system take less than this now and then."""
_STRETCHES: Final = 6
_LEAST_FIGURES: Final = 4
"""In a stretch."""
_LEAST_STEPS: Final = WARM_UP_STEPS + _STRETCHES * _LEAST_FIGURES
LEAST_KEPT_FREE_BYTES: Final = 64 << 20
"""The C library keeps less than this in every program that takes and frees large blocks."""
_LEAST_KEPT_IN_FEW_STEPS: Final = 144 << 20
"""An arena fills its first heap of 64 MiB before it uses gaps again. Many programs have two threads that take memory."""
_MANY_STEPS: Final = 200
"""With figures. Over fewer ones gaps that become enough look like those that become ever more."""
_LEAST_EXPLAINED: Final = 1 / 3
"""Of the growth, that samples must explain for a line to be named."""
_LEAST_OF_LINE: Final = 1 / 4
"""The part of the sampled growth that a line must have made to be named."""
_NEARLY_MOST: Final = 0.9
"""Of the growth to the most that a program without steps uses: so much is there at the end of the judged time."""
_LEAST_OF_TIME: Final = 0.6
"""Of the whole time, that is judged: what is given back long before the end does not stay."""
_MOST_ERRORS: Final = 3
"""Standard errors by which samples may differ from a growth that they explain."""
_LEAST_KEPT: Final = 1 / 4
"""The part of the growth that a container must keep to be named."""
_LEAST_FILLING: Final = 1 / 2
"""The part of the growth that a container with a bound, which is not full yet, must keep: then it is none."""
_LEAST_UNTOUCHED: Final = 2 / 3
"""Of a growth that nothing explains: so much memory that was there and not touched can be all of it."""
_STRETCHES_OF_A_LINE: Final = (slice(1, 5), slice(2, 6))
"""Stretches of a run without steps. The line must go on in each of the first ones, or in each of the second ones."""
_LEAST_OF_STRETCH: Final = 0.05
"""Of the line's memory, in each of them."""
LEAST_SAMPLES: Final = 12
"""By which growth is known that no steps show."""
_LEAST_OF_GROWTH: Final = 1 / 2
"""Of the growth of the process, that the line must have made then."""


@dataclasses.dataclass(frozen=True)
class _Steadiness:
    """How evenly a floor must rise to be growth, in parts of its whole growth."""

    least_rise: float
    """From each stretch to the next one."""
    least_late_rise: float
    """Over the last two of them: memory that fills up rises more slowly."""


_OF_USED: Final = _Steadiness(0.02, 0.15)
_OF_GAPS: Final = _Steadiness(0.02, 0.25)
_OF_GAPS_IN_FEW_STEPS: Final = _Steadiness(0.1, 0.4)


class _Course(NamedTuple):
    """The judgement on a course of figures."""

    begin: int
    """The place of the figure from which on growth counts."""
    growth_bytes: int
    """Since then."""
    is_growing: bool
    """Whether it is steady, and enough to say so."""


@dataclasses.dataclass(frozen=True)
class HostGrowth:
    """The course of the host memory of a process over its steps, without its CPU tensors."""

    first_step: int
    last_step: int
    resident_bytes: int
    """Memory that belongs to no file at the end of `last_step`, with CPU tensors."""
    growth_bytes: int
    """From the end of `first_step` to the end of `last_step`, without CPU tensors; negative if it shrank. Over the run:
    from the first figure on, if samples without imports explain it; otherwise the bytes of these samples.
    """
    is_growing: bool
    """Whether it grew steadily, and by enough to say so."""
    kept_free_bytes: int = 0
    """Of the growth, that the program has freed, and that the C library's allocator keeps; 0 where it is not most of it."""
    site: HostSite | None = None
    """The line that made most of it; None where samples do not say."""
    is_sampled: bool = False
    """Whether allocations were sampled while it grew."""
    is_shared: bool = False
    """Whether it is memory that processes share, or files in memory."""
    container: GrowingContainer | None = None
    """The container of the program that keeps it; None where none is known."""
    are_tensors_recorded: bool = True
    """Whether CPU tensors are recorded, and so no part of it."""
    unexplained_bytes: int = 0
    """By which it rose over the run without steps, where samples explain little of that: it is not called growing then."""

    @property
    def is_over_steps(self) -> bool:
        """Whether steps show the growth; otherwise samples do, and it is that of the whole run."""
        return self.last_step > 0

    @property
    def is_kept_free(self) -> bool:
        """Whether most of it is free, and kept by the C library's allocator."""
        return self.kept_free_bytes > 0

    @property
    def bytes_per_step(self) -> int:
        """The mean growth; 0 where it is not that of steps."""
        return round(self.growth_bytes / max(self.last_step - self.first_step, 1)) if self.is_over_steps else 0


@dataclasses.dataclass(frozen=True)
class HostRise:
    """The known facts of host memory where steps are too few to judge it."""

    rise_bytes: int
    steps: int
    site: str
    """The line that made most of it; empty where samples do not say."""

    @property
    def reason(self) -> str:
        """Why it is not judged, and the facts that are known all the same."""
        line, _ = line_and_library(self.site)
        at = f", most of it at {line.rpartition('/')[2]}" if line else ""
        # Figures are a millisecond apart at least.
        why = f"at least {_LEAST_STEPS} are needed" if self.steps < _LEAST_STEPS else "they were too short to tell more"
        return (
            f"host memory outside of tensors rose by {format_bytes(self.rise_bytes)} over {self.steps} steps{at}; {why}"
        )


def find_host_growth(recording: Recording) -> HostGrowth | None:
    """Judge the host memory of a process.

    Args:
        recording: With STEP or IMPLIED_STEP events, MALLOC and FREE; with samples, lines are named.

    Returns:
        None where too few figures were recorded to tell.
    """
    found = _found(recording)
    devices = recording.facts.get("setting.devices", (CPU_WORD,))[-1].split(",")
    return dataclasses.replace(found, are_tensors_recorded=CPU_WORD in devices) if found is not None else None


def _found(recording: Recording) -> HostGrowth | None:
    every = HostSamples.of(recording)
    samples = every.of_private_memory()
    found = _growth_over_steps(recording, samples)
    if found is None and recording.blocks.is_empty():
        found = _growth_over_time(recording, samples)
    if found is None:
        found = _growth_of_the_run(recording, every, samples)
    # Shared memory is in use: it comes before memory that is only kept.
    if found is None or not found.is_growing or found.is_kept_free:
        shared = _shared_over_steps(recording, every.of_shared_memory())
        shared = shared or _growth_of_the_run(recording, every, every.of_shared_memory(), is_shared=True)
        found = shared if shared is not None and shared.is_growing else found
    if found is None or not found.is_growing or found.is_kept_free:
        return found
    if filling_bytes(recording) >= _LEAST_FILLING * found.growth_bytes:
        return dataclasses.replace(found, is_growing=False)
    container = container_behind(recording, found.growth_bytes, _LEAST_KEPT)
    if container is None and found.site is not None:
        container = container_of_blocks(recording, every.of_line(recording, found.site))
    if found.is_over_steps and found.site is None and container is None:
        begin, end = _moments_of_steps(recording, found)
        untouched = touched_later_bytes(recording, samples, begin, end)
        # Nothing says that it is a leak, and memory of before the steps says why it can be none.
        return dataclasses.replace(found, is_growing=untouched < _LEAST_UNTOUCHED * found.growth_bytes)
    return dataclasses.replace(found, container=container)


def _moments_of_steps(recording: Recording, found: HostGrowth) -> tuple[int, int]:
    """The events with the figures of the first and the last step."""
    figures = _figures(recording)
    places = figures["number"].search_sorted(pl.Series([found.first_step, found.last_step]))
    begin, end = figures["sequence"][places]
    return int(begin), int(end)


def rise_over_few_steps(recording: Recording) -> HostRise | None:
    """Return by how much host memory rose over steps that are too few to judge it.

    Args:
        recording: As `find_host_growth` takes it.

    Returns:
        None where steps are enough, or where it did not rise in both halves by enough to mention it.
    """
    figures = _figures(recording)
    if not _LEAST_FIGURES <= figures.height < _STRETCHES * _LEAST_FIGURES:
        return None
    sequences = figures["sequence"].to_numpy()
    other = _used_bytes(recording, figures)
    rise, of_first_half = int(other[-1] - other[0]), int(other[len(other) // 2] - other[0])
    if rise < 2 * LEAST_HOST_GROWTH_BYTES or rise > 4 * min(of_first_half, rise - of_first_half):
        return None
    live = HostSamples.of(recording).alive(int(sequences[0]), int(sequences[-1]))
    site = None if live.rows.is_empty() else _line_of(recording, live, rise)
    return HostRise(rise, int(figures["number"][-1]), "" if site is None else site.site)


def _figures(recording: Recording) -> pl.DataFrame:
    """The figures at the end of steps behind the warm-up: FIGURE_SCHEMA and `number`."""
    steps = recording.steps.select("number", sequence="end_sequence")
    return (
        host_figures(recording)
        .filter(pl.col("kind") != EventKind.HOST_MEMORY)
        .join(steps, on="sequence", maintain_order="left")
        .filter(pl.col("number") > WARM_UP_STEPS)
    )


def _growth_over_steps(recording: Recording, samples: HostSamples) -> HostGrowth | None:
    figures = _figures(recording)
    bounds = _bounds_of_stretches(figures)
    if bounds is None:
        return None
    numbers = figures["number"].to_numpy()
    used = _used_bytes(recording, figures)
    course = _judged(np.split(used, bounds), LEAST_HOST_GROWTH_BYTES, _OF_USED)
    gaps = _judged_with_gaps(figures, used, bounds)
    kept = _mostly_kept_free(figures, gaps)
    if kept or (gaps.is_growing and not course.is_growing):
        course = gaps
    found = HostGrowth(
        first_step=int(numbers[course.begin]),
        last_step=int(numbers[-1]),
        resident_bytes=int(figures["anonymous"][-1]),
        growth_bytes=course.growth_bytes,
        is_growing=course.is_growing,
        kept_free_bytes=kept,
    )
    if kept or not course.is_growing:
        return found
    live = samples.alive(int(figures["sequence"][course.begin]), int(figures["sequence"][-1]))
    site = _line_of(recording, live, course.growth_bytes)
    return dataclasses.replace(found, site=site, is_sampled=not samples.rows.is_empty())


def _shared_over_steps(recording: Recording, samples: HostSamples) -> HostGrowth | None:
    """The growth of shared memory over steps, by the kernel's own figure; None where it is not steady, or has no line."""
    figures = _figures(recording)
    bounds = _bounds_of_stretches(figures)
    if bounds is None or samples.rows.is_empty():
        return None
    course = _judged(np.split(figures["shared"].to_numpy(), bounds), LEAST_HOST_GROWTH_BYTES, _OF_USED)
    live = samples.alive(int(figures["sequence"][course.begin]), int(figures["sequence"][-1]))
    site = _line_of(recording, live, course.growth_bytes) if course.is_growing and live.rows.height else None
    if site is None:
        return None
    first, last, resident = (int(figures["number"][course.begin]), *figures["number", "anonymous"].row(-1))
    growth = course.growth_bytes
    return HostGrowth(first, last, resident, growth, is_growing=True, site=site, is_sampled=True, is_shared=True)


def _bounds_of_stretches(figures: pl.DataFrame) -> Places | None:
    """The place of the first figure of each stretch of steps but the first; None where figures are too few."""
    numbers = figures["number"].to_numpy()
    if len(numbers) < _STRETCHES * _LEAST_FIGURES:
        return None
    edges = np.linspace(numbers[0], numbers[-1] + 1, _STRETCHES + 1)
    bounds = np.searchsorted(numbers, edges[1:-1])
    return bounds if min(map(len, np.split(numbers, bounds))) >= _LEAST_FIGURES else None


def _judged(stretches: list[Bytes], least_bytes: int, steadiness: _Steadiness) -> _Course:
    """Judge a course by the floors of its stretches.

    Args:
        stretches: Figures in their order, at least one in each.
        least_bytes: That are growth.
        steadiness: How evenly they must rise.
    """
    figures = np.concatenate(stretches)
    floors = np.array([stretch.min() for stretch in stretches[1:]])
    rises = np.diff(floors)
    # The first stretch counts as growth, too, if the others have at least half of the whole.
    was_steady = figures[-1] - figures[0] <= 2 * (figures[-1] - stretches[1][0])
    begin = 0 if was_steady else len(stretches[0])
    growth = int(figures[-1] - figures[begin])
    whole = int(floors[-1] - floors[0])
    is_steady = bool((rises >= steadiness.least_rise * whole).all())
    is_steady &= int(rises[-2:].sum()) >= steadiness.least_late_rise * whole
    return _Course(begin, growth, is_steady and min(growth, whole) >= least_bytes)


def _judged_with_gaps(figures: pl.DataFrame, used: Bytes, bounds: Places) -> _Course:
    """Judge memory in use and memory that is kept free as one, as `_judged` does: each can take the other's place.

    Args:
        figures: FIGURE_SCHEMA.
        used: Of each figure, by `_used_bytes`.
        bounds: The place of the first figure of each stretch but the first.
    """
    is_long = figures.height >= _MANY_STEPS
    steadiness = _OF_GAPS if is_long else _OF_GAPS_IN_FEW_STEPS
    least_growth = LEAST_KEPT_FREE_BYTES if is_long else _LEAST_KEPT_IN_FEW_STEPS
    # Without tensors and with them: neither is growth where the one takes the place of the other.
    courses = used + figures["kept"].to_numpy(), figures["anonymous"].to_numpy()
    judged = [_judged(_without_gaps(np.split(one, bounds)), LEAST_KEPT_FREE_BYTES, steadiness) for one in courses]
    least = min(judged, key=lambda one: one.growth_bytes)
    is_growing = least.growth_bytes >= least_growth and all(one.is_growing for one in judged)
    return least._replace(is_growing=is_growing)


def _mostly_kept_free(figures: pl.DataFrame, course: _Course) -> int:
    """The bytes by which the memory that is kept free grew in a course that is judged to grow; 0 if not most of it."""
    kept = int(figures["kept"][-1] - figures["kept"][course.begin])
    return min(kept, course.growth_bytes) if course.is_growing and 2 * kept >= course.growth_bytes else 0


def _line_of(recording: Recording, live: HostSamples, growth_bytes: int) -> HostSite | None:
    """The line that made most of the growth, if samples of that time that are alive explain enough of it."""
    explained = live.total_bytes
    if explained < _LEAST_EXPLAINED * growth_bytes:
        return None
    site, _ = live.by_line(recording)[0]
    return site if site.live_bytes >= _LEAST_OF_LINE * explained else None


def _growth_over_time(recording: Recording, samples: HostSamples) -> HostGrowth | None:
    """The growth of a program without blocks over stretches of its time; None where figures are too few to tell."""
    figures = host_figures(recording)
    own = samples.without_imports(recording).rows["sequence"]
    if own.is_empty():
        return None
    # Until its own work begins a program imports. That can be before the log.
    is_begin = pl.col("sequence").is_in(begin_of_program(recording).implode())
    figures = figures.filter(is_begin | (pl.col("sequence") > int(own[0])))
    if figures.height < _STRETCHES * _LEAST_FIGURES:
        return None
    used, moments = _used_bytes(recording, figures), figures["timestamp_ns"].cast(pl.Int64).to_numpy()
    # A program gives its memory back when its main function returns: the end is the last moment with nearly most of it.
    last = int(np.flatnonzero(used >= used[0] + _NEARLY_MOST * (used.max() - used[0]))[-1])
    if moments[last] - moments[0] < _LEAST_OF_TIME * (moments[-1] - moments[0]):
        return HostGrowth(
            0, 0, int(figures["anonymous"][-1]), int(used[-1] - used[0]), is_growing=False, is_sampled=True
        )
    bounds = np.searchsorted(moments[: last + 1], np.linspace(moments[0], moments[last], _STRETCHES + 1)[1:-1])
    figures, used = figures.head(last + 1), used[: last + 1]
    course = _judged(_without_gaps(np.split(used, bounds)), LEAST_HOST_GROWTH_BYTES, _OF_USED)
    gaps = _judged_with_gaps(figures, used, bounds)
    kept = _mostly_kept_free(figures, gaps)
    begin, growth, is_growing = gaps if kept else course
    found = HostGrowth(
        0, 0, int(figures["anonymous"][-1]), growth, is_growing=is_growing, kept_free_bytes=kept, is_sampled=True
    )
    if kept or not is_growing:
        return found
    live = samples.alive(int(figures["sequence"][begin]), int(figures["sequence"][-1])).without_imports(recording)
    site = None if live.rows.is_empty() else _line_of(recording, live, growth)
    # Memory of many lines that nothing collects is a long set-up, as far as anybody can tell.
    is_explained = site is not None or container_behind(recording, growth, _LEAST_KEPT) is not None
    is_sampled = live.total_bytes >= _LEAST_EXPLAINED * growth
    return dataclasses.replace(
        found, site=site, is_growing=is_explained, unexplained_bytes=0 if is_explained or is_sampled else growth
    )


def _without_gaps(stretches: list[Bytes]) -> list[Bytes]:
    """Give stretches without a figure the last one before: without samples little changes."""
    for place in range(1, len(stretches)):
        if not len(stretches[place]):
            stretches[place] = stretches[place - 1][-1:]
    return stretches


def _growth_of_the_run(
    recording: Recording, every: HostSamples, samples: HostSamples, *, is_shared: bool = False
) -> HostGrowth | None:
    """Return the growth that a line goes on to make over the run, without regard to steps.

    Args:
        recording: With figures of host memory.
        every: All samples: they tell the time that passes.
        samples: Those that are judged.
        is_shared: Whether these are of shared memory.
    """
    _, imported = imports_of_frameworks(recording)
    begin = int(imported[-1]) if imported.len() else 0
    figures = host_figures(recording).filter(pl.col("kind") == EventKind.HOST_MEMORY, pl.col("sequence") >= begin)
    if figures.is_empty() or samples.rows.height < LEAST_SAMPLES:
        return None
    # A program gives its memory back when its main function returns: the end is the moment with most of it.
    end = samples.most_alive()
    live = samples.alive(0, end).without_imports(recording)
    other = figures["shared"].to_numpy() if is_shared else _used_bytes(recording, figures)
    last = max(int(np.searchsorted(figures["sequence"].to_numpy(), end, side="right")) - 1, 0)
    growth = int(other[: last + 1][-1] - other[0])
    resident = int(figures["anonymous"][last])
    if live.total_bytes < LEAST_HOST_GROWTH_BYTES:
        return _not_growing(recording, resident, growth)
    site, of_line = live.by_line(recording)[0]
    made = _made_in_stretches(recording, every, of_line)
    is_growing = (
        any((made[part] >= _LEAST_OF_STRETCH * made.sum()).all() for part in _STRETCHES_OF_A_LINE)
        and site.samples >= LEAST_SAMPLES
        and site.live_bytes >= max(LEAST_HOST_GROWTH_BYTES, _LEAST_OF_GROWTH * growth)
    )
    # Untouched mappings take no memory: of shared memory the kernel's figure alone counts.
    is_growing &= not is_shared or growth >= max(LEAST_HOST_GROWTH_BYTES, _LEAST_OF_GROWTH * site.live_bytes)
    if not is_growing:
        return _not_growing(recording, resident, growth)
    is_near = is_shared or abs(growth - live.total_bytes) <= _MOST_ERRORS * live.error_bytes
    return HostGrowth(
        first_step=0,
        last_step=0,
        resident_bytes=resident,
        growth_bytes=growth if is_near else live.total_bytes,
        is_growing=True,
        site=site,
        is_sampled=True,
        is_shared=is_shared,
    )


def _not_growing(recording: Recording, resident_bytes: int, growth_bytes: int) -> HostGrowth | None:
    """Of a program without blocks samples are all that is known; with blocks they alone do not rule growth out."""
    if not recording.blocks.is_empty():
        return None
    return HostGrowth(0, 0, resident_bytes, growth_bytes, is_growing=False, is_sampled=True)


def _made_in_stretches(recording: Recording, samples: HostSamples, of_line: HostSamples) -> Bytes:
    """The bytes that a line made in each of some equally long stretches of the run."""
    own = set(samples.without_imports(recording).rows["sequence"].to_list())
    sequences = samples.rows["sequence"].to_list()
    moments = samples.rows["timestamp_ns"].cast(pl.Int64).to_numpy()
    passed = np.diff(moments, prepend=moments[0])
    passed[[number not in own for number in sequences]] = 0
    clock = np.cumsum(np.maximum(passed, 0))
    # A search for holders as the program ends is our own time.
    of_program = recording.events.filter(pl.col("kind") != EventKind.HOLDER)
    last = int(of_program["timestamp_ns"].cast(pl.Int64).max() or 0)
    whole = int(clock[-1]) + max(last - int(moments[-1]), 0)
    at = clock[np.isin(samples.rows["sequence"].to_numpy(), of_line.rows["sequence"].to_numpy())]
    stretch = np.minimum(at * _STRETCHES // max(whole, 1), _STRETCHES - 1)
    return np.bincount(stretch, weights=of_line.rows["bytes"].to_numpy(), minlength=_STRETCHES).astype(np.int64)


def _used_bytes(recording: Recording, figures: pl.DataFrame) -> Bytes:
    """Return the memory that the process has in use at some moments, besides its blocks.

    Args:
        recording: With MALLOC and FREE.
        figures: FIGURE_SCHEMA.
    """
    used: Bytes = figures["anonymous"].to_numpy() - figures["kept"].to_numpy()
    return used - MemoryUse.of(blocks_in_process(recording)).after(figures["sequence"].to_numpy())
